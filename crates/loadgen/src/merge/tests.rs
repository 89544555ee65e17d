use hdrhistogram::Histogram;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    engine::LATENCY_NANOS_MAX,
    instructions::CountedModes,
    result::{Origin, ProtocolKind, samples},
};

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("valid");
    values.iter().for_each(|&value| histogram.saturating_record(value));
    histogram
}

/// Makes the result of an open loop with these latencies, and as many failures of each class.
fn part(name: &str, values: &[u64], failures: &[(&str, u64)]) -> NamedResult {
    let recorded = histogram(values);
    let latency = Latency::from_histogram(&recorded);
    let (ok, failed) = (values.len() as u64, failures.iter().map(|(_, count)| count).sum::<u64>());
    let config = [("connections", json!(4)), ("mode", json!("open")), ("rate", json!(100.0)), ("seed", json!(name))];
    let result = RunResult {
        config: config.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        duration_s: 2.0,
        requests: ok + failed,
        ok,
        errors: failures.iter().map(|(class, count)| ((*class).to_owned(), *count)).collect(),
        reconnects: 1,
        bytes_in: 10 * ok,
        bytes_out: 5 * ok,
        throughput_rps: per_second(ok, 2.0),
        latency_us: latency,
        service_us: Some(latency),
        lag_us: Some(latency),
        backlog: Backlog::if_recorded(&recorded),
        client_cpu_s: 0.25,
        saturation: Saturation { client_cpu_fraction: 0.5, ..Saturation::default() },
        histogram: encode(&recorded),
        service_histogram: Some(encode(&recorded)),
        lag_histogram: Some(encode(&recorded)),
        backlog_histogram: Some(encode(&recorded)),
        ..samples::nothing()
    };
    NamedResult { name: name.to_owned(), result }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn merged_results_equal_those_of_one_generator(
        samples in prop::collection::vec(prop::collection::vec(1..2 * LATENCY_NANOS_MAX, 0..60), 1..5),
    ) {
        let parts: Vec<_> = samples.iter().enumerate().map(|(n, values)| part(&n.to_string(), values, &[("reset", n as u64)])).collect();
        let whole = merge(&parts, Order::Concurrent).expect("they agree").result;
        let all = samples.concat();
        prop_assert_eq!(decode(&whole.histogram), Some(histogram(&all)));
        prop_assert_eq!(whole.latency_us, Latency::from_histogram(&histogram(&all)));
        let known = (!all.is_empty()).then_some(whole.latency_us);
        prop_assert_eq!(whole.service_us, known);
        prop_assert_eq!(whole.lag_us, known);
        prop_assert_eq!(whole.backlog, Backlog::if_recorded(&histogram(&all)));
        prop_assert_eq!(whole.ok, all.len() as u64);
        prop_assert_eq!(whole.requests, whole.ok + whole.errors.values().sum::<u64>());
        prop_assert!((whole.throughput_rps * whole.duration_s - whole.ok as f64).abs() < 1e-6);
        // In whatever order, and in whatever groups.
        let reversed: Vec<_> = parts.iter().rev().cloned().collect();
        prop_assert_eq!(decode(&merge(&reversed, Order::Concurrent).expect("they agree").result.histogram), Some(histogram(&all)));
        if let Some((last, head)) = parts.split_last().filter(|(_, head)| !head.is_empty()) {
            let grouped = NamedResult { name: "head".to_owned(), result: merge(head, Order::Concurrent).expect("they agree").result };
            let regrouped = merge(&[grouped, last.clone()], Order::Concurrent).expect("they agree").result;
            prop_assert_eq!(regrouped.histogram, whole.histogram);
            prop_assert_eq!(&regrouped.config["merged"], &json!(parts.len()));
            prop_assert_eq!(&regrouped.config["rate"], &json!(100.0 * parts.len() as f64));
        }
    }
}

#[test]
fn a_single_result_stays_as_it_is() {
    let alone = part("a", &[5, 1_000_000], &[("reset", 2)]);
    assert_eq!(merge(std::slice::from_ref(&alone), Order::Concurrent).expect("one").result, alone.result);
}

#[test]
fn concurrent_throughputs_and_consecutive_windows_add_up() {
    let parts = [part("a", &[1_000; 100], &[]), part("b", &[2_000; 300], &[("timeout", 1)])];
    let beside = merge(&parts, Order::Concurrent).expect("they agree").result;
    assert_eq!((beside.duration_s, beside.throughput_rps, beside.requests), (2.0, 200.0, 401));
    assert_eq!((&beside.config["connections"], &beside.config["rate"]), (&json!(8), &json!(200.0)));
    assert_eq!((&beside.config["seed"], &beside.config["merged_as"]), (&json!(null), &json!("concurrent")));
    let behind = merge(&parts, Order::Consecutive).expect("they agree").result;
    assert_eq!((behind.duration_s, behind.throughput_rps), (4.0, 100.0));
    assert_eq!((&behind.config["connections"], &behind.config["rate"]), (&json!(4), &json!(100.0)));
    assert_eq!(behind.saturation.client_cpu_fraction, 0.5);
    assert_eq!(behind.errors, [("timeout".to_owned(), 1)].into());
}

#[test]
fn different_measurements_are_refused_by_name() {
    type Change = fn(&mut RunResult);
    let first = part("a", &[1], &[]);
    let changes: [(&str, Change); 5] = [
        ("schema", |result| result.schema = 2),
        ("kind", |result| result.kind = ProtocolKind::Kv),
        ("target", |result| result.target.push('x')),
        ("mode", |result| {
            result.config.insert("mode".to_owned(), json!("closed"));
        }),
        ("verify", |result| {
            result.config.insert("verify".to_owned(), json!("none"));
        }),
    ];
    for (what, change) in changes {
        let mut other = part("b", &[1], &[]);
        change(&mut other.result);
        let error = merge(&[first.clone(), other], Order::Concurrent).expect_err("they differ").to_string();
        assert!(error.starts_with(what) && error.contains("a has") && error.contains("b has"), "{error}");
    }
    let mut damaged = part("b", &[1], &[]);
    damaged.result.histogram.truncate(8);
    let error = merge(&[first, damaged], Order::Concurrent).expect_err("it is damaged");
    assert_eq!(error.to_string(), "b: its histogram cannot be read");
}

#[test]
fn the_usage_of_one_server_is_counted_once() {
    let usage = |pid, cpu_s| ServerUsage {
        pid,
        cpu_s,
        user_s: cpu_s,
        system_s: 0.0,
        rss_bytes: 1,
        context_switches_voluntary: 2,
        context_switches_involuntary: 3,
        instructions: Some(1_000).filter(|_| pid == 7),
        instructions_modes: Some(CountedModes::User).filter(|_| pid == 7),
        instructions_unknown: None,
    };
    let seen = |pids: [Option<u32>; 2], order| {
        let mut parts = [part("a", &[1], &[]), part("b", &[1], &[])];
        parts.iter_mut().zip(pids).for_each(|(part, pid)| part.result.server = pid.map(|pid| usage(pid, 1.5)));
        let merged = merge(&parts, order).expect("they agree").result;
        merged.server.map(|server| (server.cpu_s, server.instructions))
    };
    assert_eq!(seen([Some(7), Some(7)], Order::Concurrent), Some((1.5, Some(1_000))));
    assert_eq!(seen([Some(7), None], Order::Concurrent), Some((1.5, Some(1_000))));
    assert_eq!(seen([Some(7), Some(8)], Order::Concurrent), None);
    assert_eq!(seen([Some(7), Some(7)], Order::Consecutive), Some((3.0, Some(2_000))));
    assert_eq!(seen([Some(6), Some(6)], Order::Consecutive), Some((3.0, None)));
    assert_eq!(seen([Some(7), None], Order::Consecutive), None);
}

#[test]
fn rates_are_merged_one_by_one() {
    let with_steps = |name: &str, rates: &[f64]| {
        let mut whole = part(name, &[1, 2, 3], &[]);
        let step = |&rate: &f64| Step {
            rate,
            share: None,
            is_served: true,
            note: String::new(),
            result: part(name, &[rate as u64 * 1_000], &[]).result,
        };
        whole.result.steps = rates.iter().map(step).collect();
        whole
    };
    let merged = merge(&[with_steps("a", &[10.0, 20.0]), with_steps("b", &[10.0, 20.0])], Order::Concurrent);
    let steps = merged.expect("they agree").result.steps;
    assert_eq!(steps.iter().map(|step| (step.rate, step.result.ok)).collect::<Vec<_>>(), [(20.0, 2), (40.0, 2)]);
    let error = merge(&[with_steps("a", &[10.0]), with_steps("b", &[10.0, 20.0])], Order::Concurrent);
    assert!(error.expect_err("they differ").to_string().starts_with("number of rates"));
}

/// Makes a result whose window was open from `begin` to `begin + 2` seconds.
fn at(name: &str, begin: u64) -> NamedResult {
    let mut part = part(name, &[1_000], &[]);
    part.result.origin = Origin {
        started_utc: Some(format!("2026-01-01T00:00:{begin:02}.000Z")),
        version: Some("1".to_owned()),
        host: Some(name.to_owned()),
        interrupted: begin == 1,
    };
    part
}

#[test]
fn concurrent_windows_must_overlap() {
    let beside = merge(&[at("a", 1), at("b", 2)], Order::Concurrent).expect("a second in common");
    let origin = &beside.result.origin;
    assert_eq!(origin.started_utc.as_deref(), Some("2026-01-01T00:00:01.000Z"));
    assert_eq!((origin.version.as_deref(), origin.host.as_deref(), origin.interrupted), (Some("1"), None, true));
    assert!(
        beside.notes.iter().any(|note| note.starts_with("of 3.0 s") && note.contains("for 1.0 s")),
        "{:?}",
        beside.notes
    );
    assert!(merge(&[at("a", 1), at("b", 1)], Order::Concurrent).expect("all of it").notes.is_empty());
    for parts in [[at("a", 1), at("b", 9)], [at("b", 9), at("a", 1)]] {
        let error = merge(&parts, Order::Concurrent).expect_err("they are apart").to_string();
        assert!(
            error.starts_with("a had ended at 2026-01-01T00:00:03.000Z when b began at 2026-01-01T00:00:09"),
            "{error}"
        );
        assert!(error.contains("--merge=consecutive"), "{error}");
        assert_eq!(merge(&parts, Order::Consecutive).expect("one after another").result.ok, 2);
    }
    let whole = NamedResult { name: "whole".to_owned(), result: beside.result };
    assert!(merge(&[whole, at("c", 9)], Order::Concurrent).is_err(), "a whole has a window, too");
}

#[test]
fn equal_results_are_refused() {
    let (one, other) = (at("a", 1), NamedResult { name: "copy".to_owned(), ..at("a", 1) });
    for order in [Order::Concurrent, Order::Consecutive] {
        let error = merge(&[one.clone(), at("b", 1), other.clone()], order).expect_err("two are the same").to_string();
        assert_eq!(error, "a and copy are the same result, which would count twice");
    }
}
