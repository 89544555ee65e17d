//! DEBUG, as far as tests of clients need it.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use proto::Outbox;
use store::Store;

use super::{Call, Outcome, Refusal, millis, table};
use crate::state::slow_log::Delay;

pub(super) fn debug<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    match call.args.len() {
        3 if call.is(1, "SLEEP") => sleep(call),
        3 if call.is(1, "SET-ACTIVE-EXPIRE") => {
            call.server.settings.expires_actively.store(call.args[2] != b"0", Relaxed);
            call.reply.ok();
            Ok(())
        }
        2 if call.is(1, "HELP") => super::help::help(call),
        _ => {
            let name = String::from_utf8_lossy(call.args[1]).into_owned();
            let text = format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.");
            Err(Refusal::new(text))
        }
    }
}

/// The connection sleeps, and the server does not: what follows on it waits.
fn sleep<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    // What is no number is no time at all, as with strtod(3).
    let seconds = std::str::from_utf8(call.args[2]).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::ZERO);
    let Some(until) = Instant::now().checked_add(time).filter(|_| !time.is_zero()) else {
        call.reply.ok();
        return Ok(());
    };
    let promise = call.reply.out.defer();
    call.conn.held = true;
    let journal = Arc::clone(&call.server.journal);
    let slow = table::find(b"debug").map(|number| call.slow_command(number, time));
    let unix_s = (call.now.unix + time).as_secs();
    let woken = call.server.timer.at(until, move || {
        let mut answer = Outbox::default();
        answer.inline().extend_from_slice(b"+OK\r\n");
        if let Some(slow) = slow.filter(|_| journal.is_slow(time)) {
            journal.add_slow(slow);
        }
        if journal.is_delay(time) {
            journal.add_delay("command", Delay { unix_s, ms: millis(time) });
        }
        promise.fulfil(answer);
    });
    // Without a thread the promise is broken by now, and the connection closes.
    woken.map_err(|error| Refusal::new(format!("ERR no thread to wake up from: {error}")))
}
