//! `--turns`: the load of another program that compares two servers, which says on standard input when it may run.

use std::{
    io::BufRead as _,
    sync::{Arc, mpsc::channel},
    time::Duration,
};

use loadgen::engine::{Limit, Load, Pacing, TurnOrder, Turns};

use super::{Failure, eprint_line, print};

/// Returns the load in turns, by the lines of standard input.
pub(super) fn in_turns(load: Load) -> Result<Load, Failure> {
    let is_plain = load.pacing == Pacing::Closed
        && matches!(load.limit, Limit::Duration(_))
        && load.requestor.is_none()
        && load.ramp.is_zero()
        && load.warmup_max.is_none();
    if !is_plain {
        return Err(Failure::usage(
            "--turns is for a closed loop with a duration, without --max-warmup, --ramp and pauses: turns are as long as they are told to be",
        ));
    }
    let ((orders, received), (reports, reported)) = (channel(), channel());
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order = match line.trim() {
                "go" => TurnOrder::Go,
                "hold" => TurnOrder::Hold,
                other => {
                    eprint_line(&format!("standard input: `{other}` is neither `go` nor `hold`"));
                    break;
                }
            };
            if orders.send(order).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for report in reported {
            let Ok(line) = serde_json::to_string(&report) else { return };
            if print(line + "\n").is_err() {
                return;
            }
        }
    });
    Ok(Load { turns: Some(Arc::new(Turns::new(received, reports))), warmup: Duration::ZERO, ..load })
}
