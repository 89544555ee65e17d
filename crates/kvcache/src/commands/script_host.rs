//! Commands that scripts call.

use std::cell::Cell;

use proto::{Flow, Now, Outbox};
use script::{Host, Interrupt, LogLevel};
use smallvec::SmallVec;
use store::{EntryCopy, Store};
use wire::resp::{Version, reply};

use super::call::Call;
use crate::{
    command_table::{self, Command, Flags, TABLE},
    reply::{Refusal, Reply},
    state::{Client, Keyspace, ServerState},
};

/// Work after which a script leaves its client's thread, in instructions of Lua's machine: a millisecond or two.
const WORK_MAX: u32 = 200_000;
/// Instructions between two polls; see `script::Engine`.
const POLL_WORK: u32 = 10_000;
/// Largest object that is copied before a script changes it.
const OBJECT_BYTES_MAX: usize = 256 * 1024;
/// Limits of the memory that one run leaves to the next: changed values, and bytes of a reply.
const JOURNAL_MAX: usize = 64;
const REPLY_BYTES_MAX: usize = 64 << 10;
/// Instructions that a command counts as.
const CALL_WORK: u32 = 100;

/// Way to run a script again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    /// With all shards locked: it has asked for a key that it does not name.
    AllShards,
    /// On the thread of scripts: it takes too long, or changes what cannot be put back.
    Apart,
}

/// The server, for one run of a script.
pub(super) struct ScriptHost<'h, 's, S: Store + 'static> {
    pub(super) state: &'h ServerState<S>,
    pub(super) client: &'h mut Client<S>,
    pub(super) keys: &'h mut Keyspace<'s, S>,
    pub(super) now: Now,
    pub(super) version: Version,
    pub(super) is_read_only: bool,
    pub(super) restart: Option<Restart>,
    pub(super) work: u32,
    pub(super) scratch: Box<Scratch>,
}

/// Memory that one run leaves to the next.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Values that the script has changed, with their databases and keys.
    journal: Vec<(u8, SmallVec<[u8; 32]>, Option<EntryCopy>)>,
    out: Outbox,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Takes what the last run of the thread has left.
    pub(super) fn take() -> Box<Self> {
        SCRATCH.take().unwrap_or_default()
    }

    /// Leaves the memory to the next run, unless it is much.
    pub(super) fn leave(mut self: Box<Self>) {
        self.journal.clear();
        if self.journal.capacity() <= JOURNAL_MAX && self.out.inline().capacity() <= REPLY_BYTES_MAX {
            SCRATCH.set(Some(self));
        }
    }
}

impl<S: Store + 'static> ScriptHost<'_, '_, S> {
    /// Finds the command, and checks what can be checked before it runs.
    fn admit(&self, args: &[&[u8]]) -> Result<(usize, &'static Command), Refusal> {
        let unknown = || Refusal::new("ERR Unknown Redis command called from script");
        let mut number = command_table::find(args[0]).ok_or_else(unknown)?;
        if TABLE[number].flags.has(Flags::CONTAINER)
            && let Some(subcommand) = args.get(1)
        {
            number = command_table::find(&[args[0], b"|", subcommand].concat()).ok_or_else(unknown)?;
        }
        let command = &TABLE[number];
        let refusal = if !command.has_arity(args.len()) {
            "ERR Wrong number of args calling Redis command from script"
        } else if command.flags.has(Flags::NOSCRIPT) {
            "ERR This Redis command is not allowed from script"
        } else if self.is_read_only && command.flags.has(Flags::WRITE) {
            "ERR Write commands are not allowed from read-only scripts."
        } else if let Some(map) = &self.state.info.slot_map
            && !command.keys_among(args).all(|key| map.has_key(key))
        {
            "ERR Script attempted to access a non local key in a cluster node"
        } else {
            return Ok((number, command));
        };
        self.state.statistics.add_rejection(number);
        Err(Refusal::new(refusal))
    }

    /// Sees to it that a command can be undone, and that the keys that it needs are locked.
    fn prepare(&mut self, command: &Command, args: &[&[u8]]) -> Result<(), Interrupt> {
        self.spend(CALL_WORK)?;
        let is_write = command.flags.has(Flags::WRITE);
        // A message that has been sent cannot be taken back.
        let notifications = &self.state.notifications;
        let has_events = if is_write { notifications.is_on() } else { notifications.has_events_of_reads() };
        if command.flags.has(Flags::PUBSUB) || has_events {
            return Err(self.restart(Restart::Apart));
        }
        let has_keys = command.has_keys();
        // The target of these may be in another database.
        let has_hidden_keys = matches!(command.name, "copy" | "move");
        if is_write && (!has_keys || has_hidden_keys) {
            return Err(self.restart(Restart::Apart));
        }
        let is_about_keys = has_keys || command.group != "connection" && command.name != "time";
        let names_all_keys = has_keys && !has_hidden_keys;
        if is_about_keys
            && !self.keys.has_locked_every_shard()
            && !(names_all_keys && command.keys_among(args).all(|key| self.keys.has_locked(key)))
        {
            return Err(self.restart(Restart::AllShards));
        }
        if is_write {
            for key in command.keys_among(args) {
                self.record(key)?;
            }
        }
        Ok(())
    }

    /// Records the entry of a key, unless it would take long to copy or has been recorded.
    fn record(&mut self, key: &[u8]) -> Result<(), Interrupt> {
        let object_bytes = self.keys.object_bytes(key);
        if object_bytes > 0 {
            let database = self.keys.database;
            if self.scratch.journal.iter().any(|(of, recorded, _)| *of == database && **recorded == *key) {
                return Ok(());
            }
            if object_bytes > OBJECT_BYTES_MAX {
                return Err(self.restart(Restart::Apart));
            }
        }
        let before = self.keys.stored(key);
        self.scratch.journal.push((self.keys.database, SmallVec::from_slice(key), before));
        Ok(())
    }

    fn spend(&mut self, work: u32) -> Result<(), Interrupt> {
        self.work = self.work.saturating_add(work);
        if self.work > WORK_MAX { Err(self.restart(Restart::Apart)) } else { Ok(()) }
    }

    fn restart(&mut self, restart: Restart) -> Interrupt {
        self.restart = Some(restart);
        Interrupt::Restarted
    }

    /// Puts back whatever the script has changed.
    pub(super) fn roll_back(&mut self) {
        for (database, key, before) in self.scratch.journal.drain(..).rev() {
            self.keys.put_back(database, &key, before);
        }
    }
}

impl<S: Store + 'static> Host for ScriptHost<'_, '_, S> {
    fn call(&mut self, args: &[&[u8]], reply: &mut Vec<u8>) -> Result<(), Interrupt> {
        let (number, command) = match self.admit(args) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                reply::error(reply, refusal.0.as_bytes());
                return Ok(());
            }
        };
        if !self.client.is_detached {
            self.prepare(command, args)?;
        } else if command.flags.has(Flags::WRITE) {
            if self.state.scripts.running.must_end() {
                return Err(Interrupt::Killed);
            }
            self.state.scripts.running.note_write();
        }
        let mut call = Call {
            state: self.state,
            client: &mut *self.client,
            keys: &mut *self.keys,
            args,
            now: self.now,
            reply: Reply { out: &mut self.scratch.out, version: self.version },
            flow: Flow::Open,
            is_handed_over: false,
        };
        if let Err(refusal) = call.run(number) {
            call.refuse(&refusal);
        }
        let out = &mut self.scratch.out;
        if out.is_inline() {
            reply.append(out.inline());
        } else {
            // A large value is shared with the store, and copied here, as Lua needs it in one piece.
            let whole = std::mem::take(out);
            reply.extend(whole.memory().flatten());
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<(), Interrupt> {
        if !self.client.is_detached {
            return self.spend(POLL_WORK);
        }
        let running = &self.state.scripts.running;
        if running.elapsed().is_some_and(|time| time >= self.state.scripts.time_limit())
            && !self.state.clients.pause.is_busy()
        {
            self.state.clients.pause.become_busy();
        }
        if running.must_end() && (!running.has_written() || running.is_stopping()) {
            return Err(Interrupt::Killed);
        }
        Ok(())
    }

    fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match level {
            LogLevel::Debug => tracing::trace!(target: "script", "{text}"),
            LogLevel::Verbose => tracing::debug!(target: "script", "{text}"),
            LogLevel::Notice => tracing::info!(target: "script", "{text}"),
            LogLevel::Warning => tracing::warn!(target: "script", "{text}"),
        }
    }

    fn has_command(&self, args: &[&[u8]]) -> bool {
        match command_table::find(args[0]).map(|number| &TABLE[number]) {
            Some(command) if command.flags.has(Flags::CONTAINER) => {
                args.get(1).is_some_and(|name| command_table::find(&[args[0], b"|", name].concat()).is_some())
            }
            command => command.is_some(),
        }
    }
}
