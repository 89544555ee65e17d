//! From the arguments of a request to its reply.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use proto::{Flow, Now, Outbox};
use store::{OutOfMemory, Store};

use crate::connection::Conn;
use crate::connection::Replies;
use crate::state::slow_log;
use crate::state::slow_log::Delay;
use crate::state::slow_log::SlowCommand;
use crate::state::pause::Paused;
use crate::reply::Reply;
use crate::server::KvServer;
use crate::state::space::Item;
use crate::state::space::Keyspace;
use crate::{command_table::{self as table, Command, Flags, Handlers, TABLE}, reply::quote::{self, quote}};
use super::{client, transactions};

/// Arguments quoted in the error about an unknown command, in bytes, as in Redis.
const QUOTED_MAX: usize = 128;

/// What a client is told instead of an answer, its class first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

/// A handler that succeeds has written one reply, one that fails has written nothing.
pub(crate) type Outcome = Result<(), Refusal>;

impl Refusal {
    pub(crate) const SYNTAX: Self = Self(Cow::Borrowed("ERR syntax error"));
    pub(crate) const NOT_AN_INTEGER: Self = Self(Cow::Borrowed("ERR value is not an integer or out of range"));
    pub(crate) const NOT_A_FLOAT: Self = Self(Cow::Borrowed("ERR value is not a valid float"));
    pub(crate) const NO_SUCH_KEY: Self = Self(Cow::Borrowed("ERR no such key"));
    pub(crate) const OUT_OF_MEMORY: Self =
        Self(Cow::Borrowed("OOM command not allowed when used memory > 'maxmemory'."));

    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    fn arity(command: &Command) -> Self {
        Self::new(format!("ERR wrong number of arguments for '{}' command", command.name))
    }

    fn unknown(args: &[&[u8]]) -> Self {
        let mut quoted = Vec::new();
        for arg in &args[1..] {
            if quoted.len() >= QUOTED_MAX {
                break;
            }
            let arg = quote::until_zero(arg, QUOTED_MAX - quoted.len());
            quoted.extend_from_slice(&[b"'", arg, b"' "].concat());
        }
        let (name, quoted) = (quote(args[0], QUOTED_MAX), quote(&quoted, usize::MAX));
        Self::new(format!("ERR unknown command '{name}', with args beginning with: {quoted}"))
    }

    fn unknown_subcommand(container: &str, name: &[u8]) -> Self {
        let (name, container) = (quote(name, QUOTED_MAX), container.to_uppercase());
        Self::new(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
    }
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Self::OUT_OF_MEMORY
    }
}

/// One command being answered.
pub(crate) struct Call<'c, 's, S: Store + 'static> {
    pub(crate) server: &'c KvServer<S>,
    pub(crate) conn: &'c mut Conn<S>,
    pub(crate) keys: &'c mut Keyspace<'s, S>,
    /// The command's name first.
    pub(crate) args: &'c [&'c [u8]],
    pub(crate) now: Now,
    pub(crate) reply: Reply<'c>,
    /// What becomes of the connection after this command.
    pub(crate) flow: Flow,
}

/// Answers one request. `args` has at least the command's name.
pub(crate) fn answer<S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    keys: &mut Keyspace<'_, S>,
    args: &[&[u8]],
    now: Now,
    out: &mut Outbox,
) -> Flow {
    (keys.database, keys.no_touch) = (conn.database, conn.no_touch);
    let flow = match conn.replies {
        Replies::On | Replies::SkipNext => answer_into(server, conn, keys, args, now, out),
        Replies::Off | Replies::Skip => {
            let mut unheard = Outbox::default();
            let flow = answer_into(server, conn, keys, args, now, &mut unheard);
            // Only CLIENT REPLY ON is heard, since it has taken effect.
            if conn.replies == Replies::On {
                out.inline().extend_from_slice(unheard.inline());
            }
            flow
        }
    };
    conn.replies = match conn.replies {
        Replies::SkipNext => Replies::Skip,
        Replies::Skip => Replies::On,
        replies @ (Replies::On | Replies::Off) => replies,
    };
    keys.no_touch = false;
    // What comes next in the batch needs one shard at a time again.
    if keys.holds_all() {
        keys.release();
    }
    conn.refresh(server);
    flow
}

fn answer_into<S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    keys: &mut Keyspace<'_, S>,
    args: &[&[u8]],
    now: Now,
    out: &mut Outbox,
) -> Flow {
    let reply = Reply { out, version: conn.version };
    let mut call = Call { server, conn, keys, args, now, reply, flow: Flow::Open };
    match call.admit() {
        Ok(Admitted::Run(number)) => {
            if let Err(refusal) = call.run(number) {
                call.refuse(&refusal);
            }
            call.conn.publish(number);
        }
        Ok(Admitted::Queue(number)) => {
            call.queue(number);
            call.conn.publish(number);
        }
        Err(refusal) => call.reject(&refusal),
    }
    call.flow
}

/// CLIENT PAUSE concerns this request.
pub(crate) fn must_wait<S: Store + 'static>(server: &KvServer<S>, conn: &mut Conn<S>, args: &[&[u8]]) -> bool {
    let writes = |conn: &Conn<S>| match table::find(args[0]) {
        Some(number) if TABLE[number].name == "exec" => conn.has_queued_writes(),
        Some(number) => TABLE[number].flags.has(Flags::WRITE),
        None => false,
    };
    match server.clients.pause.what() {
        Paused::Nothing => false,
        Paused::Writes => conn.authenticated && writes(conn),
        Paused::All => conn.authenticated && table::find(args[0]).is_some(),
    }
}

enum Admitted {
    Run(usize),
    /// A transaction is being put together.
    Queue(usize),
}

impl<'c, 's, S: Store + 'static> Call<'c, 's, S> {
    /// Finds the command and checks everything that can be said before it runs.
    fn admit(&self) -> Result<Admitted, Refusal> {
        let (number, command) = self.command()?;
        self.admit_command(number, command).inspect_err(|_| self.server.statistics.rejected(number))
    }

    fn admit_command(&self, number: usize, command: &'static Command) -> Result<Admitted, Refusal> {
        if !command.takes(self.args.len()) {
            return Err(Refusal::arity(command));
        }
        if !self.conn.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(Refusal::new("NOAUTH Authentication required."));
        }
        match self.conn.is_in_transaction() && !transactions::is_immediate(command.name) {
            true if command.flags.has(Flags::NO_MULTI) => {
                Err(Refusal::new("ERR Command not allowed inside a transaction"))
            }
            true => Ok(Admitted::Queue(number)),
            false => Ok(Admitted::Run(number)),
        }
    }

    fn command(&self) -> Result<(usize, &'static Command), Refusal> {
        let name = self.args[0];
        let number = table::find(name).ok_or_else(|| Refusal::unknown(self.args))?;
        let command = &TABLE[number];
        match self.args.get(1) {
            Some(subcommand) if command.flags.has(Flags::CONTAINER) => {
                let full = [command.name.as_bytes(), b"|", subcommand].concat();
                let number = table::find(&full).ok_or_else(|| Refusal::unknown_subcommand(command.name, subcommand))?;
                Ok((number, &TABLE[number]))
            }
            _ => Ok((number, command)),
        }
    }

    /// Runs a command whose arguments have been counted, and measures it.
    pub(crate) fn run(&mut self, number: usize) -> Outcome {
        let began = Instant::now();
        let outcome = Handlers::<S>::ALL[number](self);
        let took = began.elapsed();
        self.server.statistics.command(number, took, outcome.is_ok());
        let journal = &self.server.journal;
        if journal.is_slow(took) && !TABLE[number].flags.has(Flags::SKIP_SLOWLOG) {
            journal.add_slow(self.slow_command(number, took));
        }
        if journal.is_delay(took) {
            let event = if TABLE[number].flags.has(Flags::FAST) { "fast-command" } else { "command" };
            journal.add_delay(event, Delay { unix_s: self.now.unix.as_secs(), ms: millis(took) });
        }
        outcome
    }

    /// What the slow log keeps of this command.
    fn slow_command(&self, number: usize, took: Duration) -> SlowCommand {
        let profile = self.conn.client.profile();
        SlowCommand {
            id: 0,
            unix_s: self.now.unix.as_secs(),
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            args: journal::kept(TABLE[number].name, self.args),
            client: client::address_of(profile),
            client_name: profile.texts().name.clone(),
        }
    }

    /// Refuses a command that has not been admitted, and with it the transaction that it should have been part of.
    fn reject(&mut self, refusal: &Refusal) {
        self.conn.spoil_transaction();
        if !self.is(0, "EXEC") {
            return self.refuse(refusal);
        }
        self.end_transaction();
        let why = refusal.0.strip_prefix("ERR ").unwrap_or(&refusal.0);
        self.refuse(&Refusal::new(format!("EXECABORT Transaction discarded because of: {why}")));
    }

    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.server.statistics.error(&refusal.0);
        self.reply.error(&refusal.0);
    }

    // --- what handlers use ----------------------------------------------------------------

    /// The item under the key that is argument `index`.
    pub(crate) fn item(&mut self, index: usize) -> Item<'_, 'c, S> {
        self.keys.item(self.args[index])
    }

    /// More than one key, and one moment for all of them.
    pub(crate) fn hold_all(&mut self) {
        self.keys.hold_all();
    }

    /// Argument `index` is this word, in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, Refusal> {
        self.args.get(index).and_then(|arg| parse_integer(arg)).ok_or(Refusal::NOT_AN_INTEGER)
    }

    /// The longest string that a command may make, in bytes; proto-max-bulk-len.
    pub(crate) fn string_bytes_max(&self) -> usize {
        self.server.limits.bulk_bytes_max
    }

    /// The name of the command in lower case.
    fn name(&self) -> String {
        String::from_utf8_lossy(self.args[0]).to_lowercase()
    }

    /// The arguments are too few, or an odd number.
    pub(crate) fn wrong_arity(&self) -> Refusal {
        Refusal::new(format!("ERR wrong number of arguments for '{}' command", self.name()))
    }

    /// A time that is not positive, or too far away to be counted in milliseconds.
    pub(crate) fn invalid_expiry(&self) -> Refusal {
        Refusal::new(format!("ERR invalid expire time in '{}' command", self.name()))
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.keys.now.unix_ms
    }
}

/// Whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A decimal number as Redis takes it: no plus, no leading zeros, no spaces.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_taken_in_one_spelling_only() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
        }
    }
}
