//! LATENCY: delays, and histograms of commands.

use store::Store;

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    state::{CommandReading, LatencySeries, upper_ns},
};

/// Marks of a graph, from the lowest to the highest.
const MARKS: &[u8] = b"_.-~oO#";

pub(super) fn latest<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let events = call.state.latency_monitor.all();
    call.reply.array(events.len());
    for (event, LatencySeries { samples, max_ms }) in events {
        let last = samples.back().copied();
        call.reply.array(4);
        call.reply.bulk(event.as_bytes());
        let numbers = [last.map_or(0, |last| last.unix_s), last.map_or(0, |last| last.ms), max_ms];
        numbers.into_iter().for_each(|number| call.reply.integer(number as i64));
    }
    Ok(())
}

pub(super) fn history<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let samples = call.state.latency_monitor.get(call.args[2]).unwrap_or_default().samples;
    call.reply.array(samples.len());
    for sample in samples {
        call.reply.array(2);
        call.reply.integer(sample.unix_s as i64);
        call.reply.integer(sample.ms as i64);
    }
    Ok(())
}

pub(super) fn reset<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.count(call.state.latency_monitor.reset(&call.args[2..]));
    Ok(())
}

pub(super) fn graph<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let event = String::from_utf8_lossy(call.args[2]).into_owned();
    let series = call.state.latency_monitor.get(call.args[2]);
    let series = series.ok_or_else(|| Refusal::new(format!("ERR No samples available for event '{event}'")))?;
    call.reply.verbatim(&graph_text(&event.to_ascii_lowercase(), &series));
    Ok(())
}

/// Draws one mark per delay, the longest the highest.
fn graph_text(event: &str, series: &LatencySeries) -> String {
    let least = series.samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
    let most = series.samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
    let mark = |ms: u64| {
        let height = (ms - least) * (MARKS.len() as u64 - 1) / (most - least).max(1);
        char::from(MARKS[height as usize])
    };
    let marks: String = series.samples.iter().map(|sample| mark(sample.ms)).collect();
    format!("{event} - high {most} ms, low {least} ms (all time high {} ms)\n{marks}\n", series.max_ms)
}

pub(super) fn doctor<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let threshold_ms = call.state.latency_monitor.threshold_ms.load(std::sync::atomic::Ordering::Relaxed);
    let events = call.state.latency_monitor.all();
    let mut text = String::new();
    if threshold_ms == 0 {
        text += "Delays are not recorded: CONFIG SET latency-monitor-threshold <milliseconds> begins to.\n";
    } else if events.is_empty() {
        text = format!("No delay of {threshold_ms} ms or more has been recorded.\n");
    }
    for (event, LatencySeries { samples, max_ms }) in events {
        let mean = samples.iter().map(|sample| sample.ms).sum::<u64>() / samples.len().max(1) as u64;
        let count = samples.len();
        text += &format!("{event}: {count} delays remembered, {mean} ms on average, {max_ms} ms at most.\n");
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// Shows, for each command, the calls that took at most so many microseconds, for the powers of two that differ.
pub(super) fn histogram<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let names = &call.args[2..];
    let is_wanted = |name: &str| {
        // Redis's subcommands and the commands of our other protocols are written alike.
        let container = name.split('|').next().unwrap_or(name);
        let is_it = |wanted: &&[u8]| [name, container].iter().any(|name| name.as_bytes().eq_ignore_ascii_case(wanted));
        names.is_empty() || names.iter().any(is_it)
    };
    let commands: Vec<_> = call.state.statistics.readings().collect();
    let commands = commands.into_iter().map(|(command, reading)| (command.to_string(), reading));
    let called = |(name, reading): &(String, CommandReading)| reading.calls > 0 && is_wanted(name);
    let commands: Vec<_> = commands.filter(called).collect();
    call.reply.map(commands.len());
    for (name, reading) in commands {
        let steps = steps(&reading);
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(reading.calls as i64);
        call.reply.bulk(b"histogram_usec");
        call.reply.map(steps.len());
        for (us, calls) in steps {
            call.reply.integer(us as i64);
            call.reply.integer(calls as i64);
        }
    }
    Ok(())
}

/// Returns powers of two of microseconds, and the number of calls that took no longer.
fn steps(reading: &CommandReading) -> Vec<(u64, u64)> {
    let (mut steps, mut sum) = (Vec::<(u64, u64)>::new(), 0);
    for (bucket, &count) in reading.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        sum += count;
        let us = upper_ns(bucket).div_ceil(1000).next_power_of_two();
        match steps.last_mut().filter(|last| last.0 == us) {
            Some(last) => last.1 = sum,
            None => steps.push((us, sum)),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{BUCKETS, LatencySample};

    #[test]
    fn a_histogram_is_cumulative() {
        let mut buckets = [0; BUCKETS];
        (buckets[0], buckets[3], buckets[10]) = (5, 2, 1);
        let reading = CommandReading { calls: 8, failed: 0, rejected: 0, time_ns: 0, buckets };
        assert_eq!(steps(&reading), [(1, 7), (128, 8)]);
    }

    #[test]
    fn a_graph_has_a_mark_for_each_delay() {
        let samples = [5, 9, 5].map(|ms| LatencySample { unix_s: ms, ms }).into();
        let text = graph_text("command", &LatencySeries { samples, max_ms: 9 });
        assert!(text.ends_with("\n_#_\n"), "{text}");
    }
}
