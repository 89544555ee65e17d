//! From what the engine measured to the result that is printed and stored.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::clock;
use crate::engine::{Interval, Limit, Load, Measured, Pacing, Timeline};
use crate::result::{self, Latency, RunResult, SCHEMA, Saturation, ServerUsage, TimelineRow};
use crate::stored;
use crate::usage::ServerProbe;

/// Above this share of a core, a thread or a single-threaded server could do no more.
const SATURATED: f64 = 0.9;
/// Above this share of what the generator can do, a throughput may be its own.
const NEAR_CEILING: f64 = 0.8;

/// Of a step with a rate of its own: more failures than this share, or an end later than this, is not keeping up.
const FAILED_SHARE_MAX: f64 = 0.01;
const OVERTIME_SHARE_MAX: f64 = 1.02;
const OVERTIME_S: f64 = 0.1;

/// Of a run with a timeline only.
pub const TIMELINE_FILE: &str = "timeline.hlog";

/// What the engine does not know about its run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The protocol, as in [`RunResult::kind`].
    pub kind: String,
    pub target: String,
    pub config: BTreeMap<String, serde_json::Value>,
    pub pacing: Pacing,
    pub kinds: Kinds,
}

/// What verified replies are told apart by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kinds {
    None,
    /// They found what was asked for, or there is no such thing.
    HitsMisses,
    /// Or it was not a question.
    HitsMissesStores,
}

/// Makes the result of a run.
#[must_use]
pub fn summarize<P>(subject: Subject, measured: &Measured<P>, server: Option<&ServerProbe>) -> RunResult {
    let tally = &measured.tally;
    let duration_s = measured.window.as_secs_f64();
    let is_open = subject.pacing != Pacing::Closed;
    let server = server.zip(measured.server.as_ref()).map(|(probe, (before, after))| probe.between(before, after));
    let leading = if is_open { &tally.response } else { &tally.service };
    let errors: BTreeMap<_, _> =
        tally.errors().filter(|&(_, count)| count > 0).map(|(class, count)| (class.name().to_owned(), count)).collect();
    RunResult {
        schema: SCHEMA,
        kind: subject.kind,
        target: subject.target,
        config: subject.config,
        duration_s,
        requests: tally.ok + tally.failed(),
        ok: tally.ok,
        errors,
        hits: (subject.kinds != Kinds::None).then_some(tally.hits),
        misses: (subject.kinds != Kinds::None).then_some(tally.misses),
        stores: (subject.kinds == Kinds::HitsMissesStores).then(|| tally.ok - tally.hits - tally.misses),
        reconnects: tally.reconnects,
        bytes_in: tally.bytes_in,
        bytes_out: tally.bytes_out,
        throughput_rps: rate(measured),
        latency_us: latency(leading),
        service_us: is_open.then(|| latency(&tally.service)),
        first_byte_us: (!tally.first_byte.is_empty()).then(|| latency(&tally.first_byte)),
        corrected_us: (!is_open).then(|| latency(&corrected(measured))),
        lag_us: is_open.then(|| latency(&tally.lag)),
        client_cpu_s: measured.client_cpu.as_secs_f64(),
        client_user_s: Some(measured.client_cpu.saturating_sub(measured.client_system_cpu).as_secs_f64()),
        client_system_s: Some(measured.client_system_cpu.as_secs_f64()),
        saturation: saturation(measured, server.as_ref()),
        server,
        histogram: encode(leading),
        service_histogram: is_open.then(|| encode(&tally.service)),
        lag_histogram: is_open.then(|| encode(&tally.lag)),
        first_byte_histogram: (!tally.first_byte.is_empty()).then(|| encode(&tally.first_byte)),
        timeline: measured.timeline.as_ref().map(|timeline| rows(timeline, is_open)),
        capacity: None,
        steps: Vec::new(),
    }
}

/// As wrk does it: a request that took n times the mean interval between two requests kept n - 1 others from being sent,
/// which would have waited for the rest of it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of nanoseconds"
)]
fn corrected<P>(measured: &Measured<P>) -> Histogram<u64> {
    let interval = clock::nanos(measured.window) as f64 * measured.lanes as f64 / measured.tally.ok.max(1) as f64;
    measured.tally.service.clone_correct((interval as u64).max(1))
}

#[expect(clippy::cast_precision_loss, reason = "a number of intervals, and at most minutes in nanoseconds")]
fn rows(timeline: &Timeline, is_open: bool) -> result::Timeline {
    let width = clock::seconds(timeline.width());
    let row = |start_s: f64, interval: &Interval| {
        let latency = latency(&if is_open { interval.response() } else { interval.service() });
        TimelineRow {
            start_s,
            ok: interval.ok,
            errors: interval.failed,
            p50_us: latency.p50,
            p99_us: latency.p99,
            max_us: latency.max,
            lag_us_max: interval.lag_max as f64 / 1e3,
        }
    };
    let start_s = |count: u64| clock::seconds(count * timeline.width());
    result::Timeline {
        interval_s: width,
        rows: timeline.intervals().map(|(index, interval)| row(start_s(index), &interval)).collect(),
        warmup: timeline.warm_up().map(|(back, interval)| row(-start_s(back), &interval)).collect(),
    }
}

pub(crate) fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    #[expect(clippy::cast_precision_loss, reason = "at most a minute in nanoseconds")]
    let quantile = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        mean: histogram.mean() / 1e3,
        stddev: histogram.stdev() / 1e3,
        min: quantile(0.0),
        p50: quantile(0.5),
        p75: quantile(0.75),
        p90: quantile(0.9),
        p99: quantile(0.99),
        p999: quantile(0.999),
        p9999: quantile(0.9999),
        p99999: quantile(0.99999),
        max: quantile(1.0),
    }
}

fn saturation<P>(measured: &Measured<P>, server: Option<&ServerUsage>) -> Saturation {
    let share = |cpu: Duration| {
        let window = measured.window.as_secs_f64();
        if window > 0.0 { cpu.as_secs_f64() / window } else { 0.0 }
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of threads is small")]
    let client_cpu_fraction = share(measured.client_cpu) / measured.threads as f64;
    let server_cores = server.map(|server| share(Duration::from_secs_f64(server.cpu_s.max(0.0))));
    let note = saturation_note(share(measured.busiest_thread_cpu), server_cores);
    Saturation { client_cpu_fraction, note, ceiling_rps: None, ceiling_fraction: None }
}

/// Adds what the generator could do at most, and says if the run came near to it.
pub fn note_ceiling(result: &mut RunResult, ceiling_rps: f64) {
    let fraction = result.throughput_rps / ceiling_rps;
    let saturation = &mut result.saturation;
    (saturation.ceiling_rps, saturation.ceiling_fraction) = (Some(ceiling_rps), Some(fraction));
    if fraction > NEAR_CEILING {
        let separator = if saturation.note.is_empty() { "" } else { "; " };
        saturation.note.push_str(&format!(
            "{separator}the throughput is {:.0} % of what the generator itself can do here, {ceiling_rps:.0} requests/s",
            fraction * 100.0
        ));
    }
}

/// Why a server has not kept up with a rate that was offered, if it has not: replies failed, or the last of them came when
/// the time was long over.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
pub fn shortfall(rate: f64, load: &Load, result: &RunResult) -> Option<String> {
    let failed = (result.requests - result.ok) as f64 / result.requests.max(1) as f64;
    if failed > FAILED_SHARE_MAX {
        return Some(format!("{:.1} % of the requests failed", failed * 100.0));
    }
    let planned = match load.limit {
        Limit::Duration(duration) => duration.as_secs_f64(),
        Limit::Requests(requests) => requests as f64 / rate,
    };
    (result.duration_s > planned * OVERTIME_SHARE_MAX + OVERTIME_S).then(|| {
        let busy =
            if result.saturation.client_cpu_fraction > SATURATED { " (the generator was busy, too)" } else { "" };
        format!("only {:.0} requests/s were served{busy}", result.throughput_rps)
    })
}

/// Verified requests per second.
#[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
fn rate<P>(measured: &Measured<P>) -> f64 {
    let seconds = measured.window.as_secs_f64();
    if seconds > 0.0 { measured.tally.ok as f64 / seconds } else { 0.0 }
}

/// `client`: CPU seconds per second of the busiest generator thread; `server`: of all the server's threads.
fn saturation_note(client: f64, server: Option<f64>) -> String {
    let client_percent = client * 100.0;
    match server {
        _ if client <= SATURATED => String::new(),
        None => format!(
            "a generator thread was {client_percent:.0} % busy: the throughput may be the generator's limit \
             (--server-pid would tell)"
        ),
        Some(server) if server < SATURATED => format!(
            "a generator thread was {client_percent:.0} % busy and the server used {:.0} % of a core: the throughput \
             is the generator's limit, not the server's",
            server * 100.0
        ),
        Some(_) => format!("a generator thread was {client_percent:.0} % busy, and so was the server"),
    }
}

/// HdrHistogram V2 + DEFLATE, base64.
pub(crate) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing into memory cannot fail, and the histogram is far below the format's limits.
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    debug_assert!(written.is_ok());
    STANDARD.encode(bytes)
}

/// What [`encode`] wrote; `None` if it is something else.
pub(crate) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

/// Writes the files of [`stored::write`] into `directory`, which is created if need be, and [`TIMELINE_FILE`] if there is a
/// timeline.
///
/// # Errors
/// A file cannot be written.
pub fn store<P>(directory: &Path, result: &RunResult, measured: &Measured<P>) -> io::Result<()> {
    stored::write(directory, result)?;
    let Some(timeline) = &measured.timeline else { return Ok(()) };
    let width = timeline.width();
    let intervals = timeline.intervals().map(|(index, interval)| {
        let start = Duration::from_nanos(index * width);
        (start, Duration::from_nanos(width), (interval.service(), Some(interval.response())))
    });
    write_log(&directory.join(TIMELINE_FILE), intervals)
}

/// An HdrHistogram log (version 1.3) of intervals: where each starts, how long it is, its service and response times. Tag
/// `service`, and in an open loop `response`. Nanoseconds; the interval's maximum is in milliseconds, as such logs have it.
pub(crate) fn write_log(
    path: &Path,
    intervals: impl Iterator<Item = (Duration, Duration, (Histogram<u64>, Option<Histogram<u64>>))>,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("loadgen: latencies in nanoseconds")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)?;
    for (start, length, (service, response)) in intervals {
        let histograms = [("service", Some(service)), ("response", response)];
        for (name, histogram) in histograms.into_iter().filter_map(|(name, histogram)| Some((name, histogram?))) {
            if !histogram.is_empty() {
                log.write_histogram(&histogram, start, length, Tag::new(name))
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
            }
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_who_set_the_pace() {
        assert_eq!(saturation_note(0.5, None), "");
        assert!(saturation_note(0.95, None).contains("--server-pid"));
        assert!(saturation_note(0.95, Some(0.4)).contains("not the server's"));
        assert!(saturation_note(0.95, Some(0.97)).contains("so was the server"));
    }

    #[test]
    fn latencies_are_microseconds() {
        let mut histogram = Histogram::<u64>::new(3).expect("valid");
        histogram.record_n(2_000, 99).expect("in range");
        histogram.record(1_000_000).expect("in range");
        let latency = latency(&histogram);
        assert!((latency.p50 - 2.0).abs() < 0.01 && (latency.max - 1_000.0).abs() < 1.0, "{latency:?}");
    }
}
