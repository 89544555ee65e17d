//! DEBUG, as far as the tests of clients need it.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use proto::Outbox;
use store::Store;

use super::call::{Call, millis};
use crate::{
    command_table,
    reply::{Outcome, Refusal},
    state::LatencySample,
};

pub(super) fn debug<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    match call.args.len() {
        3 if call.is(1, "SLEEP") => sleep(call),
        3 if call.is(1, "SET-ACTIVE-EXPIRE") => {
            call.state.settings.is_expiring_actively.store(call.args[2] != b"0", Relaxed);
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

/// Makes the connection sleep, and not the server: requests that follow on it wait.
fn sleep<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    // Text that is no number counts as 0, as for strtod(3).
    let seconds = std::str::from_utf8(call.args[2]).ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::ZERO);
    let Some(until) = Instant::now().checked_add(time).filter(|_| !time.is_zero()) else {
        call.reply.ok();
        return Ok(());
    };
    let promise = call.reply.out.defer();
    call.client.is_held = true;
    let (slow_log, latency_monitor) = (Arc::clone(&call.state.slow_log), Arc::clone(&call.state.latency_monitor));
    let slow = command_table::find(b"debug").map(|number| call.slow_command(number, time));
    let unix_s = (call.now.unix + time).as_secs();
    let scheduled = call.state.timer.at(until, move || {
        let mut answer = Outbox::default();
        answer.inline().extend_from_slice(b"+OK\r\n");
        if let Some(slow) = slow.filter(|_| slow_log.is_slow(time)) {
            slow_log.add(slow);
        }
        if latency_monitor.is_recorded(time) {
            latency_monitor.add("command", LatencySample { unix_s, ms: millis(time) });
        }
        promise.fulfil(answer);
    });
    // Without a thread the promise has been dropped by now, and the connection closes.
    scheduled.map_err(|error| Refusal::new(format!("ERR no thread to wake up from: {error}")))
}
