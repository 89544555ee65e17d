//! The published schemas of a run's files are those of the types, and what is written follows them.

use std::path::PathBuf;

use results::{
    Remote, Report, SCHEMA,
    record::{CpuSource, Latency, Manifest, Planned, ProcessDuring, Visit, Window},
};
use schemars::{Schema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    commands::compare::{self, Changes},
    judge::analysis,
    plan::order,
    run::{instructions::InstructionCount, syscalls::Count},
    samples,
    store::Counts,
};

/// Set to write the schemas anew after a change of the types.
const UPDATE: &str = "QUINTET_UPDATE_SCHEMAS";

fn schemas() -> [(&'static str, Schema); 6] {
    [
        ("manifest", schema_for!(Manifest)),
        ("visit", schema_for!(Visit)),
        ("summary", schema_for!(Report)),
        ("syscalls", schema_for!(Count)),
        ("instructions", schema_for!(InstructionCount)),
        ("comparison", schema_for!(Changes)),
    ]
}

fn path(name: &str) -> PathBuf {
    crate::workspace::root().join("docs/schema").join(format!("bench-matrix-{name}.schema.json"))
}

fn published(name: &str) -> Value {
    let path = path(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    for (name, schema) in schemas() {
        let generated = serde_json::to_value(&schema).unwrap();
        if std::env::var_os(UPDATE).is_some() {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), serde_json::to_string_pretty(&generated).unwrap() + "\n").unwrap();
        }
        let is_published = published(name) == generated;
        assert!(is_published, "docs/schema: {name} is stale; {UPDATE}=1 cargo test -p matrix schema writes it anew");
    }
}

/// A visit that has everything there is.
fn full(visit: Visit) -> Visit {
    let mut measured = samples::measured(4.0);
    let latency = Latency { mean: 1.0, p50: 1.0, p90: 2.0, p99: 3.0, p999: 4.0, max: 5.0, histogram: String::new() };
    (measured.response, measured.service) = (Some(latency.clone()), Some(latency));
    measured.process = Some(ProcessDuring {
        elapsed_s: 2.0,
        cpu_s: 1.0,
        cpu_source: CpuSource::Schedstat,
        user_s: 0.5,
        system_s: 0.5,
        run_queue_wait_s: 0.1,
        switches_voluntary: 1,
        switches_involuntary: 2,
        minor_faults: 3,
        major_faults: 0,
        rss_bytes: 1,
        peak_rss_bytes: 2,
    });
    measured.windows = vec![Window { s: 0.0, rps: 1e5, errors: 0, p99_us: 3.0, lag_us: 1.0 }; 7];
    (measured.client_user_us, measured.client_system_us) = (Some(1.0), Some(2.5));
    (measured.lag_p99_us, measured.bytes_per_key, measured.hit_ratio) = (Some(1.0), Some(50.0), Some(0.5));
    (measured.warmup_s, measured.warmup_steady) = (Some(0.7), Some(false));
    measured.errors.insert("reset".to_owned(), 1);
    Visit { measured: Some(measured), ..visit }
}

fn run() -> (Manifest, Vec<Visit>) {
    let mut setup = samples::setup();
    setup.remote = Some(Remote {
        prefix: vec!["ssh".to_owned(), "host".to_owned()],
        host: "10.0.0.1".parse().unwrap(),
        agents: vec!["ssh other".to_owned()],
    });
    setup.time_budget_s = Some(60.0);
    let planned = Planned { plan: order::shuffled(&setup), setup };
    let mut visits = Vec::new();
    for (block, slots) in (0..).zip(&planned.plan) {
        for (slot, due) in (0..).zip(slots) {
            let (cell, workload) = (due.cell.clone(), due.workload.clone());
            visits.push(full(Visit { block, slot, cell, workload, ..samples::visit() }));
        }
    }
    (Manifest { schema: SCHEMA.to_owned(), matrices: vec![planned] }, visits)
}

fn check(name: &str, written: &impl Serialize) {
    let validator = jsonschema::validator_for(&published(name)).unwrap();
    let written = serde_json::to_value(written).unwrap();
    let errors: Vec<String> = validator.iter_errors(&written).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
}

#[test]
fn what_is_written_follows_the_schemas() {
    let (manifest, visits) = run();
    check("manifest", &manifest);
    check("visit", &visits[0]);
    check("visit", &Visit { measured: None, failure: Some("why".to_owned()), ..visits[0].clone() });
    let calls = Some([("read".to_owned(), 1.0)].into());
    let names = || ("http-server".to_owned(), "http-server/epoll".to_owned(), "closed".to_owned());
    let (matrix, cell, workload) = names();
    let count = Count { matrix, cell, workload, per_request: calls, failure: None };
    check("syscalls", &count);
    let (matrix, cell, workload) = names();
    let instructions = InstructionCount { matrix, cell, workload, per_request: Some(2_000.0), failure: None };
    check("instructions", &instructions);
    let counts = Counts { syscalls: vec![count], instructions: vec![instructions] };
    let report = analysis::with_counts(&manifest, &[visits], &counts);
    let figures = report.matrices[0].figures("http-server/epoll", "closed").unwrap();
    assert_eq!(figures.further.instructions_under_valgrind, Some(2_000.0));
    assert!(report.matrices[0].results.iter().any(|result| !matches!(result.outcome, results::Outcome::NotRun { .. })));
    check("summary", &report);
    check("comparison", &compare::changes(&report, &report));
}

#[test]
fn the_schemas_refuse_what_is_missing_or_of_another_type() {
    let (_, visits) = run();
    let validator = jsonschema::validator_for(&published("visit")).unwrap();
    let whole = serde_json::to_value(&visits[0]).unwrap();
    assert!(validator.is_valid(&whole));
    for (pointer, value) in [("cell", None), ("block", Some(json!("first"))), ("flags", Some(json!(["no-such-flag"])))]
    {
        let mut damaged = whole.clone();
        let object = damaged.as_object_mut().unwrap();
        match value {
            Some(value) => object.insert(pointer.to_owned(), value),
            None => object.remove(pointer),
        };
        assert!(!validator.is_valid(&damaged), "{pointer}");
    }
}
