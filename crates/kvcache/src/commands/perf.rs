//! PERF, a command of our own: the time that commands take inside the server, without the client and the network.

use std::fmt::Write;

use store::Store;

use super::call::Call;
use crate::{
    reply::Outcome,
    state::{BATCH_BUCKETS, PerfReport},
};

/// Shows the figures since PERF RESET or the start of the server.
pub(super) fn report<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let report = call.state.statistics.perf_report();
    call.reply.verbatim(&table(&report));
    Ok(())
}

pub(super) fn reset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.state.statistics.reset_perf();
    call.reply.ok();
    Ok(())
}

fn table(PerfReport { period, commands, batches }: &PerfReport) -> String {
    let calls: u64 = commands.iter().map(|(_, reading)| reading.calls).sum();
    let seconds = period.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text =
        format!("period_seconds:{seconds:.3}\nrequests:{calls}\nrequests_per_second:{:.0}\n", calls as f64 / seconds);
    for (name, reading) in commands {
        let us = |ns: f64| ns / 1000.0;
        let [p50, p99] = [0.5, 0.99].map(|share| us(reading.percentile_ns(share) as f64));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "command_{name}:calls={},per_second={:.0},mean_us={:.3},p50_us={p50:.3},p99_us={p99:.3}",
            reading.calls,
            reading.calls as f64 / seconds,
            us(reading.mean_ns()),
        );
    }
    for (bucket, &count) in batches.iter().enumerate().filter(|(_, count)| **count > 0) {
        let least = 1_u64 << bucket;
        let range = match bucket {
            0 => "1".to_owned(),
            _ if bucket == BATCH_BUCKETS - 1 => format!("{least}-"),
            _ => format!("{least}-{}", 2 * least - 1),
        };
        let _ = writeln!(text, "batches_of_{range}:{count}");
    }
    text
}
