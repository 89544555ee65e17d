//! Summary of a run: from what the engine measured to the result that is printed and stored.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use hdrhistogram::Histogram;

use crate::{
    clock,
    engine::{Interval, LATENCY_NANOS_MAX, Limit, Load, Measured, Pacing, Tally, Timeline},
    error::ErrorClass,
    histogram::encode,
    result::{
        self, Backlog, Handshakes, Latency, Origin, ProtocolKind, RunResult, SCHEMA, Saturation, ServerUsage,
        TimelineRow,
    },
    units,
    usage::ServerProbe,
};

/// Share of a core above which a thread or a single-threaded server could do no more.
const SATURATED: f64 = 0.9;
/// Share of the generator's ceiling above which a throughput may be the generator's own.
const NEAR_CEILING: f64 = 0.8;

/// Lag in microseconds above which the generator's own delays are a part of what is measured.
const LAG_P99_MAX_US: f64 = 1e3;

/// Share of failed requests above which a server does not keep up with a rate.
const FAILED_SHARE_MAX: f64 = 0.01;
/// Length of a step, as a multiple of the planned one, that is still in time.
const OVERTIME_SHARE_MAX: f64 = 1.02;
/// Seconds beyond that length after which a server does not keep up.
const OVERTIME_S: f64 = 0.1;
/// The same where requests waited longer and longer, so that it is no single late reply.
const OVERTIME_QUEUE_S: f64 = 0.01;

/// Facts about a run that the engine does not know.
#[derive(Clone, Debug)]
pub struct RunDescription {
    pub kind: ProtocolKind,
    pub target: String,
    pub config: BTreeMap<String, serde_json::Value>,
    pub pacing: Pacing,
    pub replies: ReplyKinds,
}

/// Kinds of verified replies that a protocol tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKinds {
    One,
    /// Replies that found something, and replies that rightly found nothing.
    HitsMisses,
    /// The same, and replies to requests that store.
    HitsMissesStores,
}

/// Makes the result of a run from what was measured.
#[must_use]
pub fn summarize<P>(run: RunDescription, measured: &Measured<P>, server: Option<&ServerProbe>) -> RunResult {
    let tally = &measured.tally;
    let duration_s = measured.window.as_secs_f64();
    let is_open = run.pacing != Pacing::Closed;
    let server = server.zip(measured.server.as_ref()).map(|(probe, (before, after))| probe.between(before, after));
    let leading = if is_open { &tally.response } else { &tally.service };
    let errors: BTreeMap<_, _> =
        tally.errors().filter(|&(_, count)| count > 0).map(|(class, count)| (class.name().to_owned(), count)).collect();
    let has_tls = run.config.get("tls").is_some_and(|value| value == true);
    RunResult {
        schema: SCHEMA,
        kind: run.kind,
        target: run.target,
        config: run.config,
        duration_s,
        warmup_s: (measured.warm_up.duration > 0).then(|| clock::seconds(measured.warm_up.duration)),
        warmup_steady: measured.warm_up.is_steady,
        requests: tally.ok + tally.failed(),
        ok: tally.ok,
        errors,
        error_details: tally.details().iter().map(|(class, of)| (class.name().to_owned(), of.clone())).collect(),
        connections_opened: measured.connections_opened,
        hits: (run.replies != ReplyKinds::One).then_some(tally.hits),
        misses: (run.replies != ReplyKinds::One).then_some(tally.misses),
        stores: (run.replies == ReplyKinds::HitsMissesStores).then(|| tally.ok - tally.hits - tally.misses),
        reconnects: tally.reconnects,
        bytes_in: tally.bytes_in,
        bytes_out: tally.bytes_out,
        throughput_rps: throughput(measured),
        latency_us: Latency::from_histogram(leading),
        service_us: Latency::if_recorded(&tally.service).filter(|_| is_open),
        first_byte_us: Latency::if_recorded(&tally.first_byte),
        corrected_us: if is_open { None } else { Latency::if_recorded(&corrected(measured)) },
        lag_us: Latency::if_recorded(&tally.lag).filter(|_| is_open),
        backlog: Backlog::if_recorded(&tally.backlog),
        handshakes: has_tls.then(|| Handshakes::new(&tally.handshake, tally.resumed, duration_s)),
        tls_sessions: tally.agreed.iter().map(|&agreed| agreed.into()).collect(),
        client_cpu_s: measured.client_cpu.as_secs_f64(),
        client_user_s: Some(measured.client_cpu.saturating_sub(measured.client_system_cpu).as_secs_f64()),
        client_system_s: Some(measured.client_system_cpu.as_secs_f64()),
        saturation: saturation(measured, server.as_ref()),
        server,
        clipped: leading.count_between(LATENCY_NANOS_MAX, u64::MAX),
        origin: origin(measured),
        histogram: encode(leading),
        service_histogram: is_open.then(|| encode(&tally.service)),
        lag_histogram: is_open.then(|| encode(&tally.lag)),
        backlog_histogram: (!tally.backlog.is_empty()).then(|| encode(&tally.backlog)),
        first_byte_histogram: (!tally.first_byte.is_empty()).then(|| encode(&tally.first_byte)),
        handshake_histogram: (!tally.handshake.is_empty()).then(|| encode(&tally.handshake)),
        bodies: measured.bodies.clone(),
        agents: Vec::new(),
        timeline: measured.timeline.as_ref().map(|timeline| rows(timeline, is_open)),
        capacity: None,
        steps: Vec::new(),
    }
}

/// Makes the result of a run that did not begin because the server could not be connected to.
#[must_use]
pub fn unreachable(run: RunDescription, class: ErrorClass) -> RunResult {
    let mut tally = Tally::new();
    tally.fail(class, 1);
    let measured = Measured::<()> { tally, opened: clock::now(), threads: 1, concurrency: 1, ..Measured::default() };
    summarize(run, &measured, None)
}

/// Returns the name of this machine.
#[must_use]
pub fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

fn origin<P>(measured: &Measured<P>) -> Origin {
    let since = Duration::from_nanos(clock::now().saturating_sub(measured.opened));
    let started = SystemTime::now().checked_sub(since);
    Origin {
        started_utc: started.map(|started| humantime::format_rfc3339_millis(started).to_string()),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        host: host_name(),
        interrupted: measured.was_interrupted,
    }
}

/// Corrects service times as wrk does: a request that took n times the mean interval between two requests kept n - 1 others from
/// being sent, which would have waited for the rest of it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of nanoseconds"
)]
fn corrected<P>(measured: &Measured<P>) -> Histogram<u64> {
    let interval = clock::nanos(measured.window) as f64 * measured.concurrency as f64 / measured.tally.ok.max(1) as f64;
    measured.tally.service.clone_correct((interval as u64).max(1))
}

#[expect(clippy::cast_precision_loss, reason = "a number of intervals, and at most minutes in nanoseconds")]
fn rows(timeline: &Timeline, is_open: bool) -> result::Timeline {
    let width = clock::seconds(timeline.width());
    let row = |start_s: f64, interval: &Interval| {
        let latency = Latency::from_histogram(&if is_open { interval.response() } else { interval.service() });
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

fn saturation<P>(measured: &Measured<P>, server: Option<&ServerUsage>) -> Saturation {
    let share = |cpu: Duration| {
        let window = measured.window.as_secs_f64();
        if window > 0.0 { cpu.as_secs_f64() / window } else { 0.0 }
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of threads is small")]
    let client_cpu_fraction = share(measured.client_cpu) / measured.threads as f64;
    let server_cores = server.map(|server| share(Duration::from_secs_f64(server.cpu_s.max(0.0))));
    let busy = saturation_note(share(measured.busiest_thread_cpu), server_cores);
    let notes = [busy, lag_note(Latency::from_histogram(&measured.tally.lag).p99)];
    let note = notes.iter().filter(|note| !note.is_empty()).map(String::as_str).collect::<Vec<_>>().join("; ");
    Saturation { client_cpu_fraction, note, ceiling_rps: None, ceiling_fraction: None, ceiling_unknown: None }
}

/// Adds the most that the generator could do, and a note if the run came near to it.
pub fn note_ceiling(result: &mut RunResult, ceiling_rps: f64) {
    let fraction = result.throughput_rps / ceiling_rps;
    let saturation = &mut result.saturation;
    (saturation.ceiling_rps, saturation.ceiling_fraction) = (Some(ceiling_rps), Some(fraction));
    if fraction > NEAR_CEILING {
        let separator = if saturation.note.is_empty() { "" } else { "; " };
        saturation.note.push_str(&format!(
            "{separator}the throughput is {:.0} % of what the generator itself can do here, {} requests/s",
            fraction * 100.0,
            units::rate(ceiling_rps)
        ));
    }
}

/// Returns why a server has not kept up with a rate that was offered, if it has not: requests failed, or the last reply came long
/// after the planned time, or somewhat after it while requests waited longer and longer.
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
    let overtime_s = result.duration_s - planned * OVERTIME_SHARE_MAX;
    let latency = &result.latency_us;
    // In a growing queue a request waits the longer the later it came; a slow but steady server takes as long for all.
    let queue_grows = (latency.p50 - latency.min) / 1e6 > (result.duration_s - planned) / 4.0;
    let grace_s = if queue_grows { OVERTIME_QUEUE_S } else { OVERTIME_S };
    (overtime_s > grace_s).then(|| {
        let busy =
            if result.saturation.client_cpu_fraction > SATURATED { " (the generator was busy, too)" } else { "" };
        format!("only {} requests/s were served{busy}", units::rate(result.throughput_rps))
    })
}

/// Computes the verified requests per second.
#[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
fn throughput<P>(measured: &Measured<P>) -> f64 {
    let seconds = measured.window.as_secs_f64();
    if seconds > 0.0 { measured.tally.ok as f64 / seconds } else { 0.0 }
}

/// Warns of requests of an open loop that left late although they had a connection; empty if they did not.
fn lag_note(lag_us_p99: f64) -> String {
    if lag_us_p99 <= LAG_P99_MAX_US {
        return String::new();
    }
    format!(
        "1 % of the requests were sent at least {:.1} ms late by the generator itself and response times include that (a busy \
         machine or too few --threads)",
        lag_us_p99 / 1e3
    )
}

/// Warns of a busy generator; empty if it was not. `client` is the CPU seconds per second of the busiest generator thread, `server`
/// those of all the server's threads.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_generator_is_noted_with_what_the_server_did() {
        assert_eq!(saturation_note(0.5, None), "");
        assert!(saturation_note(0.95, None).contains("--server-pid"));
        assert!(saturation_note(0.95, Some(0.4)).contains("not the server's"));
        assert!(saturation_note(0.95, Some(0.97)).contains("so was the server"));
    }

    #[test]
    fn a_late_generator_is_noted() {
        assert_eq!(lag_note(0.0), "");
        assert_eq!(lag_note(999.0), "");
        assert!(lag_note(6_400.0).contains("6.4 ms late"));
    }

    /// Makes the result of an open loop at 1,000 requests/s for half a second that took this long and had these response times.
    fn half_a_second(window_ms: u64, response_ms: impl Fn(u64) -> u64) -> (Load, RunResult) {
        let mut tally = Tally::new();
        tally.ok = 500;
        (0..500).for_each(|n| tally.response.saturating_record(1_000 + response_ms(n) * 1_000_000));
        let pacing = Pacing::Open { rate: 1_000.0, arrivals: crate::engine::Arrivals::Constant };
        let load = Load { pacing, limit: Limit::Duration(Duration::from_millis(500)), ..Load::of_tests() };
        let window = Duration::from_millis(window_ms);
        (
            load,
            summarize(
                description(pacing),
                &Measured::<()> { window, tally, threads: 1, concurrency: 1, ..Measured::default() },
                None,
            ),
        )
    }

    fn description(pacing: Pacing) -> RunDescription {
        let (target, config) = (String::new(), BTreeMap::new());
        RunDescription { kind: ProtocolKind::Http, target, config, pacing, replies: ReplyKinds::One }
    }

    #[test]
    fn a_growing_queue_is_not_kept_up_with_and_a_slow_server_is() {
        let note = |window_ms, response_ms: fn(u64) -> u64| {
            let (load, result) = half_a_second(window_ms, response_ms);
            shortfall(1_000.0, &load, &result)
        };
        assert_eq!(note(580, |n| n * 80 / 500).as_deref(), Some("only 862 requests/s were served"));
        assert!(note(525, |n| n * 25 / 500).is_some(), "a twentieth too slow");
        assert_eq!(note(580, |_| 80), None, "as slow for all");
        assert_eq!(note(580, |n| if n == 499 { 80 } else { 0 }), None, "one late reply");
        assert_eq!(note(502, |n| n * 2 / 500), None, "within the grace");
        assert!(note(620, |_| 120).is_some(), "later than the grace");
    }

    #[test]
    fn latencies_beyond_the_histogram_are_counted() {
        let (_, result) = half_a_second(500, |n| if n < 3 { 61_000 + 100_000 * n } else { 59_000 });
        assert_eq!(result.clipped, 3);
        assert!(result.latency_us.max < 70_000_000.0, "{:?}", result.latency_us);
    }

    #[test]
    fn without_a_reply_there_is_no_latency() {
        let open = Pacing::Open { rate: 1.0, arrivals: crate::engine::Arrivals::Constant };
        for pacing in [Pacing::Closed, open] {
            let result = unreachable(description(pacing), ErrorClass::ConnectRefused);
            assert_eq!((result.requests, result.ok, result.errors["connect_refused"]), (1, 0, 1));
            let json = serde_json::to_value(&result).expect("JSON");
            for name in ["latency_us", "service_us", "corrected_us", "lag_us"] {
                assert!(json[name].is_null(), "{name}: {json:#}");
            }
            assert_eq!(serde_json::from_value::<RunResult>(json).expect("a result"), result);
        }
    }
}
