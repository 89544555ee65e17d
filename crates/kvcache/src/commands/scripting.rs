//! EVAL and its variants, and SCRIPT. FUNCTION: there are no functions, so commands that list or delete them find none.

use std::sync::Arc;

use parking_lot::Mutex;
use script::{Digest, Engine, Finished, Interrupt};
use store::Store;

use super::{
    call::{Call, parse_integer},
    script_host::{Restart, Scratch, ScriptHost},
};
use crate::{
    command_table::{self, TABLE},
    reply::{Outcome, Refusal, quote::quote},
    state::{HandedOver, LocalScript, ScriptError, ScriptJob, ScriptMessage},
};

/// True if a command of this number runs a script.
pub(crate) fn runs_script(number: usize) -> bool {
    matches!(TABLE[number].name, "eval" | "evalsha" | "eval_ro" | "evalsha_ro")
}

/// Returns the keys that a call of a script names.
pub(super) fn keys_of_script<'a>(args: &'a [&'a [u8]]) -> &'a [&'a [u8]] {
    let count = args.get(2).and_then(|count| parse_integer(count)).and_then(|count| usize::try_from(count).ok());
    count.and_then(|count| args.get(3..)?.get(..count)).unwrap_or_default()
}

/// True for commands that are answered while a script runs that keeps all others waiting. None of them needs a key.
pub(super) fn runs_beside_script(args: &[&[u8]]) -> bool {
    let name = command_table::find(args[0]).map(|number| TABLE[number].name);
    let is_subcommand = |names: &[&str]| {
        let name = args.get(1).copied().unwrap_or_default();
        names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    match name {
        Some("script") => is_subcommand(&["kill"]),
        Some("function") => is_subcommand(&["kill", "stats"]),
        Some(name) => matches!(name, "auth" | "hello" | "multi" | "quit" | "shutdown"),
        None => true,
    }
}

// --- EVAL -------------------------------------------------------------------------------------

pub(super) fn eval<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    evaluate(call, None, false)
}

pub(super) fn eval_ro<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    evaluate(call, None, true)
}

pub(super) fn evalsha<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let digest = Digest::parse(call.args[1]).ok_or(Refusal::NO_SCRIPT)?;
    evaluate(call, Some(digest), false)
}

pub(super) fn evalsha_ro<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let digest = Digest::parse(call.args[1]).ok_or(Refusal::NO_SCRIPT)?;
    evaluate(call, Some(digest), true)
}

/// Runs the script of this digest, or the one whose text is an argument.
fn evaluate<S: Store>(call: &mut Call<'_, '_, S>, digest: Option<Digest>, is_read_only: bool) -> Outcome {
    let (state, args) = (call.state, call.args);
    let keys = call.integer(2)?;
    let keys = usize::try_from(keys).map_err(|_| Refusal::new("ERR Number of keys can't be negative"))?;
    let Some((keys, argv)) = args[3..].split_at_checked(keys) else {
        return Err(Refusal::new("ERR Number of keys can't be greater than number of args"));
    };
    let text = if digest.is_none() { Some(args[1]) } else { None };
    let digest = digest.unwrap_or_else(|| Digest::of(args[1]));
    let run = |engine: &Engine, local: &LocalScript| {
        let is_read_only = is_read_only || local.script.source.flags.is_read_only;
        Run { engine, local, digest, keys, argv, is_read_only }.run(call)
    };
    state.scripts.with_engine(digest, text, run).map_err(refusal_of)?
}

fn refusal_of(error: ScriptError) -> Refusal {
    Refusal::new(error.to_string())
}

/// One script with its arguments.
struct Run<'r> {
    engine: &'r Engine,
    local: &'r LocalScript,
    digest: Digest,
    keys: &'r [&'r [u8]],
    argv: &'r [&'r [u8]],
    is_read_only: bool,
}

impl Run<'_> {
    /// Runs the script here, if it is short, and has it run apart otherwise.
    fn run<S: Store>(&self, call: &mut Call<'_, '_, S>) -> Outcome {
        if call.client.is_detached {
            return self.attempt(call).1;
        }
        if self.local.script.is_long() {
            return hand_over(call);
        }
        if self.local.script.has_undeclared_keys() {
            call.keys.pin_all()
        } else {
            call.keys.pin(self.keys)
        }
        let (mut restart, mut outcome) = self.attempt(call);
        if restart == Some(Restart::AllShards) {
            self.local.script.set_undeclared_keys();
            call.keys.unpin();
            call.keys.pin_all();
            (restart, outcome) = self.attempt(call);
        }
        call.keys.unpin();
        if restart.is_some() {
            self.local.script.set_long();
            return hand_over(call);
        }
        outcome
    }

    /// Runs the script with the locks that are held. If it has to be run in another way, nothing has been changed.
    fn attempt<S: Store>(&self, call: &mut Call<'_, '_, S>) -> (Option<Restart>, Outcome) {
        let (database, client_version) = (call.client.database, call.reply.version);
        let mut host = ScriptHost {
            state: call.state,
            client: &mut *call.client,
            keys: &mut *call.keys,
            now: call.now,
            version: wire::resp::Version::Resp2,
            is_read_only: self.is_read_only,
            restart: None,
            work: 0,
            scratch: Scratch::take(),
        };
        let out = call.reply.out.inline();
        let begin = out.len();
        let finished = self.engine.run(&self.local.compiled, self.keys, self.argv, &mut host, client_version, out);
        if finished == Finished::Interrupted(Interrupt::Restarted) {
            host.roll_back();
        }
        let restart = host.restart;
        host.scratch.leave();
        // SELECT in a script ends with it.
        (call.client.database, call.keys.database) = (database, database);
        let outcome = match finished {
            Finished::Replied { is_error: false } => Ok(()),
            Finished::Replied { is_error: true } => {
                let reply = out.split_off(begin);
                let text = reply.strip_prefix(b"-").and_then(|reply| reply.strip_suffix(b"\r\n")).unwrap_or(&reply);
                Err(Refusal::new(quote(text, usize::MAX)))
            }
            Finished::Interrupted(_) => {
                let digest = self.digest.hex();
                let text = format!("ERR Error running script {digest}, Script killed by user with SCRIPT KILL.");
                Err(Refusal::new(text))
            }
        };
        (restart, outcome)
    }
}

/// Has the command run on the thread of scripts; requests that follow on the connection wait.
pub(super) fn hand_over<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let number = command_table::find(call.args[0]).filter(|_| call.state.scripts.has_thread());
    let number = number.ok_or_else(|| Refusal::new("ERR no thread to run a long script on"))?;
    let result = Arc::new(Mutex::new(None));
    let transaction = if runs_script(number) { None } else { call.client.take_transaction() };
    let job = ScriptJob {
        number,
        args: call.args.iter().map(|&arg| arg.into()).collect(),
        client: HandedOver {
            database: call.client.database,
            version: call.client.version,
            is_no_touch: call.client.is_no_touch,
            transaction,
        },
        promise: call.reply.out.defer(),
        result: Arc::clone(&result),
    };
    (call.client.is_held, call.client.change, call.is_handed_over) = (true, Some(result), true);
    // Without a thread the promise is dropped, and the connection closes.
    call.state.scripts.send(ScriptMessage::Job(job));
    Ok(())
}

// --- SCRIPT -----------------------------------------------------------------------------------

pub(super) fn script_load<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let digest = call.state.scripts.load(call.args[2]).map_err(refusal_of)?;
    call.reply.bulk(digest.hex().as_bytes());
    Ok(())
}

pub(super) fn script_exists<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let digests = &call.args[2..];
    call.reply.array(digests.len());
    for digest in digests {
        let exists = Digest::parse(digest).is_some_and(|digest| call.state.scripts.has(digest));
        call.reply.integer(exists.into());
    }
    Ok(())
}

pub(super) fn script_flush<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_flush_mode("ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
    call.state.scripts.flush();
    call.reply.ok();
    Ok(())
}

pub(super) fn script_kill<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if !call.state.clients.pause.has_script() {
        return Err(Refusal::NOT_BUSY);
    }
    if call.state.scripts.running.has_written() {
        return Err(Refusal::new(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
        ));
    }
    call.state.scripts.running.kill();
    call.reply.ok();
    Ok(())
}

/// Accepts NO alone: there is no debugger.
pub(super) fn script_debug<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    match () {
        () if call.is(2, "NO") => {
            call.reply.ok();
            Ok(())
        }
        () if call.is(2, "YES") || call.is(2, "SYNC") => Err(Refusal::new("ERR there is no debugger of scripts")),
        () => Err(Refusal::new("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

// --- FUNCTION ---------------------------------------------------------------------------------

impl<S: Store> Call<'_, '_, S> {
    /// Checks that argument 2 is missing, SYNC or ASYNC.
    fn check_flush_mode(&self, refusal: &'static str) -> Outcome {
        match self.args.len() {
            2 => Ok(()),
            3 if self.is(2, "SYNC") || self.is(2, "ASYNC") => Ok(()),
            _ => Err(Refusal::new(refusal)),
        }
    }
}

pub(super) fn function_flush<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.check_flush_mode("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
    call.reply.ok();
    Ok(())
}

pub(super) fn function_delete<S: Store>(_: &mut Call<'_, '_, S>) -> Outcome {
    Err(Refusal::new("ERR Library not found"))
}

pub(super) fn function_list<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut index = 2;
    while index < call.args.len() {
        if call.is(index, "WITHCODE") {
            index += 1;
        } else if call.is(index, "LIBRARYNAME") {
            if index + 1 == call.args.len() {
                return Err(Refusal::new("ERR library name argument was not given"));
            }
            index += 2;
        } else {
            let unknown = String::from_utf8_lossy(call.args[index]).into_owned();
            return Err(Refusal::new(format!("ERR Unknown argument {unknown}")));
        }
    }
    call.reply.array(0);
    Ok(())
}

pub(super) fn function_stats<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(0);
    Ok(())
}

pub(super) fn function_kill<S: Store>(_: &mut Call<'_, '_, S>) -> Outcome {
    Err(Refusal::NOT_BUSY)
}
