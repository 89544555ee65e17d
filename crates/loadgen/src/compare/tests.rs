use serde_json::json;

use super::*;
use crate::result::{Latency, Origin, samples};

/// Makes the result of a closed loop with this throughput and this latency everywhere.
fn part(name: &str, throughput_rps: f64, latency: f64) -> NamedResult {
    let latency =
        Latency { p50: latency, p90: latency, p99: latency, p999: latency, p9999: latency, ..Latency::default() };
    let result = RunResult {
        target: format!("http://{name}/"),
        config: [("connections", json!(4)), ("seed", json!(name))].map(|(name, value)| (name.to_owned(), value)).into(),
        requests: throughput_rps as u64,
        ok: throughput_rps as u64,
        throughput_rps,
        latency_us: latency,
        ..samples::nothing()
    };
    NamedResult { name: name.to_owned(), result }
}

fn row<'a>(section: &'a Section, name: &str) -> &'a Row {
    section.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {section:?}"))
}

#[test]
fn ratios_are_to_the_first_result() {
    let comparison = Comparison::of(&[part("a", 50_000.0, 100.0), part("b", 100_000.0, 50.0)]).expect("comparable");
    let section = &comparison.sections[0];
    assert_eq!(row(section, "throughput").ratios, [Some(1.0), Some(2.0)]);
    assert_eq!(row(section, "p99").ratios, [Some(1.0), Some(0.5)]);
    assert_eq!(row(section, "client CPU").values, [Some(10.0), Some(5.0)]);
    assert!(comparison.differing.is_empty(), "a seed is of no interest: {:?}", comparison.differing);
    assert!(section.rows.iter().all(|row| !row.name.starts_with("service")), "a closed loop has one latency");
}

#[test]
fn percentiles_of_few_replies_are_marked() {
    let comparison = Comparison::of(&[part("a", 1_000.0, 1.0), part("b", 999.0, 1.0)]).expect("comparable");
    assert_eq!(row(&comparison.sections[0], "p99").is_thin, [false, true]);
    assert_eq!(row(&comparison.sections[0], "p90").is_thin, [false, false]);
    assert_eq!(row(&comparison.sections[0], "throughput").is_thin, [false, false]);
}

#[test]
fn notes_name_differences_and_claim_no_significance() {
    let mut other = part("b", 10.0, 1.0);
    other.result.config.insert("connections".to_owned(), json!(8));
    other.result.service_us = Some(other.result.latency_us);
    other.result.config.insert("rate".to_owned(), json!(20.0));
    other.result.errors.insert("reset".to_owned(), 2);
    other.result.requests += 2;
    other.result.origin = Origin { interrupted: true, version: Some("9".to_owned()), ..Origin::default() };
    other.result.clipped = 3;
    let comparison = Comparison::of(&[part("a", 10.0, 1.0), other]).expect("comparable");
    assert_eq!(comparison.differing.iter().map(|setting| &setting.name).collect::<Vec<_>>(), ["connections", "rate"]);
    for expected in [
        "one run each",
        "not the same measure",
        "B: 2 of 12 requests failed",
        "B: 10 of 20 requests/s",
        "B: interrupted after 1.0 s",
        "B: 3 replies took 60 s or more",
        "the versions of loadgen differ: ?, 9",
    ] {
        assert!(comparison.notes.iter().any(|note| note.contains(expected)), "{expected}: {:?}", comparison.notes);
    }
}

#[test]
fn kinds_and_rates_must_be_equal() {
    let first = part("a", 10.0, 1.0);
    assert!(matches!(Comparison::of(std::slice::from_ref(&first)), Err(CompareError::TooFew)));
    let mut other = part("b", 10.0, 1.0);
    other.result.kind = ProtocolKind::Kv;
    assert!(matches!(Comparison::of(&[first.clone(), other]), Err(CompareError::Kinds { .. })));

    let series = |name: &str, steps: &[(f64, Option<f64>)]| {
        let mut whole = part(name, 10.0, 1.0);
        let step = |&(rate, share)| Step {
            rate,
            share,
            is_served: true,
            note: String::new(),
            result: part(name, rate, 1.0).result,
        };
        whole.result.steps = steps.iter().map(step).collect();
        whole
    };
    let (one, double) =
        (series("a", &[(10.0, Some(0.1)), (50.0, Some(0.5))]), series("b", &[(20.0, Some(0.1)), (100.0, Some(0.5))]));
    assert!(matches!(Comparison::of(&[first, one.clone()]), Err(CompareError::Rates { .. })));
    assert!(Comparison::of(&[series("a", &[(10.0, None)]), series("b", &[(20.0, None)])]).is_err());
    let comparison = Comparison::of(&[one, double]).expect("the same shares");
    let titles: Vec<_> = comparison.sections.iter().map(|section| section.title.as_str()).collect();
    assert_eq!(titles, ["at 10 % of its own capacity", "at 50 % of its own capacity"]);
    assert_eq!(row(&comparison.sections[1], "throughput").ratios, [Some(1.0), Some(2.0)]);
}
