//! Dispatch: from the arguments of a request to the handler that answers it.
//!
//! EXEC is here because it dispatches commands itself.

use std::{marker::PhantomData, time::Instant};

use proto::{Flow, Now, Outbox};
use store::Store;

use super::{
    acl, bitfield, bits,
    call::{Call, millis},
    client, cluster, command_info, config, connection, counters, debug, expiry, field_expiry, field_values, generic,
    hash_samples, hashes, help, info, latency, lcs, objects, perf, persistence, pubsub, ranges, scan, scripting,
    server, set_algebra, sets, slowlog, sorted_set_algebra, sorted_set_pops, sorted_set_ranges, sorted_sets, strings,
    transactions,
};
use crate::{
    command_table::{self, Command, Flags, TABLE, with_command_rows},
    reply::{Outcome, Refusal, Reply},
    state::{Client, Keyspace, LatencySample, PauseMode, ReplyMode, ServerState, with_origin},
};

/// Function that answers one command.
type Handler<S> = fn(&mut Call<'_, '_, S>) -> Outcome;

macro_rules! handlers {
    ($(#[doc = $summary:literal] $name:literal ($arity:literal) [$($flag:ident)*] $keys:expr, $group:literal $since:literal => $handler:path;)+) => {
        /// Handlers of all commands, by number.
        struct Handlers<S>(PhantomData<S>);

        impl<S: Store + 'static> Handlers<S> {
            const ALL: &[Handler<S>] = &[$($handler,)+];
        }
    };
}

with_command_rows!(handlers);

/// Answers one request. `args` has at least the command's name.
pub(crate) fn answer<S: Store + 'static>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    keys: &mut Keyspace<'_, S>,
    args: &[&[u8]],
    now: Now,
    out: &mut Outbox,
) -> Flow {
    (keys.database, keys.is_no_touch) = (client.database, client.is_no_touch);
    let flow = match client.replies {
        ReplyMode::On | ReplyMode::SkipNext if client.tracking.is_some() => {
            let id = client.registration.id();
            with_origin(id, || answer_into(state, client, keys, args, now, out))
        }
        ReplyMode::On | ReplyMode::SkipNext => answer_into(state, client, keys, args, now, out),
        ReplyMode::Off | ReplyMode::Skip => {
            let mut dropped = Outbox::default();
            let flow = answer_into(state, client, keys, args, now, &mut dropped);
            // The reply to CLIENT REPLY ON is sent, since it has taken effect.
            if client.replies == ReplyMode::On {
                out.inline().extend_from_slice(dropped.inline());
            }
            flow
        }
    };
    client.replies = match client.replies {
        ReplyMode::SkipNext => ReplyMode::Skip,
        ReplyMode::Skip => ReplyMode::On,
        replies @ (ReplyMode::On | ReplyMode::Off) => replies,
    };
    keys.is_no_touch = false;
    // The next command of the batch needs one shard at a time again.
    if keys.has_locked_all() {
        keys.unlock();
    }
    flow
}

fn answer_into<S: Store + 'static>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    keys: &mut Keyspace<'_, S>,
    args: &[&[u8]],
    now: Now,
    out: &mut Outbox,
) -> Flow {
    let reply = Reply { out, version: client.version };
    let mut call = Call { state, client, keys, args, now, reply, flow: Flow::Open, is_handed_over: false };
    match call.admit() {
        Ok(Admission::Run(number)) => {
            if let Err(refusal) = call.run(number) {
                call.refuse(&refusal);
            }
            call.client.publish(number);
            call.end_caching(number);
        }
        Ok(Admission::Queue(number)) => {
            call.queue(number);
            call.client.publish(number);
        }
        Err(refusal) => call.reject(&refusal),
    }
    call.flow
}

/// True if CLIENT PAUSE or a script makes this request wait.
pub(crate) fn is_paused<S: Store>(state: &ServerState<S>, client: &Client<S>, args: &[&[u8]]) -> bool {
    if !state.clients.are_paused() || client.is_detached {
        return false;
    }
    if state.clients.pause.has_script() && !state.clients.pause.is_busy() && client.is_authenticated {
        return !scripting::runs_beside_script(args);
    }
    let is_write = || match command_table::find(args[0]) {
        Some(number) if TABLE[number].name == "exec" => client.has_queued_writes(),
        // Scripts may write unless their command says otherwise.
        Some(number) if TABLE[number].flags.has(Flags::READONLY) => false,
        Some(number) => TABLE[number].flags.has(Flags::WRITE) || scripting::runs_script(number),
        None => false,
    };
    match state.clients.pause.mode() {
        PauseMode::None => false,
        PauseMode::Writes => client.is_authenticated && is_write(),
        PauseMode::All => client.is_authenticated && command_table::find(args[0]).is_some(),
    }
}

/// Decision about a command that may run.
enum Admission {
    Run(usize),
    /// The command is queued, since a transaction is open.
    Queue(usize),
}

impl<S: Store + 'static> Call<'_, '_, S> {
    /// Finds the command and checks everything that can be checked before it runs.
    fn admit(&self) -> Result<Admission, Refusal> {
        let (number, command) = self.command()?;
        self.admit_command(number, command).inspect_err(|_| self.state.statistics.add_rejection(number))
    }

    fn admit_command(&self, number: usize, command: &'static Command) -> Result<Admission, Refusal> {
        if !command.has_arity(self.args.len()) {
            return Err(Refusal::wrong_arity(command.name));
        }
        if !self.client.is_authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(Refusal::new("NOAUTH Authentication required."));
        }
        if let Some(map) = &self.state.info.slot_map
            && !self.client.is_detached
        {
            cluster::check_keys(map, command.keys_among(self.args))?;
        }
        if self.is_kept_out() {
            return Err(Refusal::BUSY);
        }
        if pubsub::keeps_out(self.client, command.name) {
            return Err(Refusal::new(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
                 this context",
                command.name
            )));
        }
        match self.client.is_in_transaction() && !transactions::is_immediate(command.name) {
            true if command.flags.has(Flags::NO_MULTI) => {
                Err(Refusal::new("ERR Command not allowed inside a transaction"))
            }
            true => Ok(Admission::Queue(number)),
            false => Ok(Admission::Run(number)),
        }
    }

    /// True if a script has run for so long that this command is refused instead of waiting.
    fn is_kept_out(&self) -> bool {
        self.state.clients.pause.is_busy() && !self.client.is_detached && !scripting::runs_beside_script(self.args)
    }

    fn command(&self) -> Result<(usize, &'static Command), Refusal> {
        let name = self.args[0];
        let number = command_table::find(name).ok_or_else(|| Refusal::unknown_command(self.args))?;
        let command = &TABLE[number];
        match self.args.get(1) {
            Some(subcommand) if command.flags.has(Flags::CONTAINER) => {
                let number = self.number().ok_or_else(|| Refusal::unknown_subcommand(command.name, subcommand))?;
                Ok((number, &TABLE[number]))
            }
            _ => Ok((number, command)),
        }
    }

    /// Runs a command whose arguments have been counted, and measures it.
    pub(super) fn run(&mut self, number: usize) -> Outcome {
        if self.client.tracking.is_some() {
            self.remember_keys(number, self.args);
        }
        let began = Instant::now();
        let outcome = Handlers::<S>::ALL[number](self);
        if self.is_handed_over {
            return outcome;
        }
        let duration = began.elapsed();
        self.state.statistics.add_call(number, duration, outcome.is_ok());
        if self.state.slow_log.is_slow(duration) && !TABLE[number].flags.has(Flags::SKIP_SLOWLOG) {
            self.state.slow_log.add(self.slow_command(number, duration));
        }
        if self.state.latency_monitor.is_recorded(duration) {
            let event = if TABLE[number].flags.has(Flags::FAST) { "fast-command" } else { "command" };
            let sample = LatencySample { unix_s: self.now.unix.as_secs(), ms: millis(duration) };
            self.state.latency_monitor.add(event, sample);
        }
        outcome
    }

    /// Checks that there is memory for what a command may add.
    fn check_memory(&mut self, number: usize, args: &[&[u8]]) -> Outcome {
        let command = &TABLE[number];
        if self.state.settings.memory_max().is_none() || !command.flags.has(Flags::DENYOOM) {
            return Ok(());
        }
        let value_len = args.iter().map(|arg| arg.len()).max().unwrap_or_default();
        for key in command.keys_among(args) {
            self.keys.item(key).reserve(value_len)?;
        }
        Ok(())
    }

    /// Refuses a transaction whose keys lie in several slots of a cluster.
    fn check_slots_of_queue(&mut self) -> Outcome {
        let Some(map) = self.state.info.slot_map.as_ref().filter(|_| !self.client.is_detached) else { return Ok(()) };
        let transaction = self.client.transaction(&self.state.space);
        if transaction.is_aborted() {
            return Ok(()); // EXEC says so.
        }
        let queue = transaction.queue_so_far();
        let args: Vec<Vec<&[u8]>> =
            queue.iter().map(|command| command.args.iter().map(|arg| &**arg).collect()).collect();
        let keys = queue.iter().zip(&args).flat_map(|(command, args)| TABLE[command.number].keys_among(args));
        cluster::check_keys(map, keys)
    }

    fn queue(&mut self, number: usize) {
        if let Err(refusal) = self.check_memory(number, self.args) {
            self.client.abort_transaction();
            return self.refuse(&refusal);
        }
        let is_write = TABLE[number].flags.has(Flags::WRITE);
        let transaction = self.client.transaction(&self.state.space);
        match transaction.queue(number, is_write, self.args, self.state.limits.bulk_bytes_max) {
            true => self.reply.simple("QUEUED"),
            false => self.refuse(&Refusal::new("ERR the transaction is larger than the longest request")),
        }
    }

    /// Refuses a command that has not been admitted, and with it the transaction that it was meant for.
    fn reject(&mut self, refusal: &Refusal) {
        if self.is(0, "POST") || self.is(0, "Host:") {
            self.state.warn_of_http(self.client.registration.profile());
            self.flow = Flow::Close;
            return;
        }
        self.client.abort_transaction();
        if !self.is(0, "EXEC") {
            return self.refuse(refusal);
        }
        match self.state.clients.pause.has_script() {
            // The script has all keys.
            true => drop(self.client.take_transaction()),
            false => drop(self.end_transaction()),
        }
        let why = refusal.0.strip_prefix("ERR ").unwrap_or(&refusal.0);
        self.refuse(&Refusal::new(format!("EXECABORT Transaction discarded because of: {why}")));
    }
}

fn exec<S: Store + 'static>(call: &mut Call<'_, '_, S>) -> Outcome {
    if !call.client.is_in_transaction() {
        return Err(Refusal::new("ERR EXEC without MULTI"));
    }
    if let Err(refusal) = call.check_slots_of_queue() {
        call.end_transaction();
        return Err(refusal);
    }
    if !call.client.is_detached && call.client.has_queued(scripting::runs_script) {
        if call.client.has_queued(pubsub::changes_subscriptions) {
            call.end_transaction();
            let why = "a transaction with scripts cannot change subscriptions";
            return Err(Refusal::new(format!("EXECABORT Transaction discarded because of: {why}")));
        }
        call.remember_queued_keys();
        return scripting::hand_over(call);
    }
    call.lock_all();
    let transaction = call.client.transaction(&call.state.space);
    let (queue, is_aborted) = (transaction.take_queue(), transaction.is_aborted());
    if call.end_transaction() && !is_aborted {
        call.reply.null_array();
        return Ok(());
    }
    if is_aborted {
        return Err(Refusal::new("EXECABORT Transaction discarded because of previous errors."));
    }
    let queue: Vec<(usize, Vec<&[u8]>)> =
        queue.iter().map(|command| (command.number, command.args.iter().map(|arg| &**arg).collect())).collect();
    for (number, args) in &queue {
        if let Err(Refusal(why)) = call.check_memory(*number, args) {
            return Err(Refusal::new(format!("EXECABORT Transaction discarded because of: {why}")));
        }
    }
    let added = queue.iter().flat_map(|(_, args)| args).map(|arg| arg.len()).sum();
    call.reply.array(queue.len());
    call.client.is_executing = true;
    call.keys.with_allowance(added, |keys| {
        for (number, args) in &queue {
            let mut inner = Call {
                state: call.state,
                client: &mut *call.client,
                keys,
                args,
                now: call.now,
                reply: Reply { out: &mut *call.reply.out, version: call.reply.version },
                flow: Flow::Open,
                is_handed_over: false,
            };
            if let Err(refusal) = inner.run(*number) {
                inner.refuse(&refusal);
            }
            let (flow, version) = (inner.flow, inner.reply.version);
            call.reply.version = version;
            if flow != Flow::Open {
                call.flow = flow;
            }
        }
    });
    call.client.is_executing = false;
    Ok(())
}
