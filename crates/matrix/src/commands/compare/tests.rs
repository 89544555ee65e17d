use results::{
    self,
    record::{Manifest, Planned, Visit},
};

use super::*;
use crate::{judge::analysis, plan::order, samples};

/// A run whose cells cost 4 µs times `factor`, and a per mille more or less from block to block.
fn run(blocks: u32, factor: impl Fn(&str) -> f64) -> Report {
    let setup = Setup { blocks, ..samples::setup() };
    let planned = Planned { plan: order::shuffled(&setup), setup };
    let mut visits = Vec::new();
    for (block, slots) in (0..).zip(&planned.plan) {
        for (slot, due) in (0..).zip(slots) {
            let cost = 4.0 * factor(&due.cell) * (1.0 + 0.001 * f64::from(block % 3));
            let (cell, workload) = (due.cell.clone(), due.workload.clone());
            let measured = Some(samples::measured(cost));
            visits.push(Visit { block, slot, cell, workload, measured, ..samples::visit() });
        }
    }
    let manifest = Manifest { schema: results::SCHEMA.to_owned(), matrices: vec![planned] };
    analysis::report(&manifest, &[visits])
}

fn row<'a>(changes: &'a Changes, cell: &str, workload: &str, metric: Metric) -> Option<&'a Change> {
    let mut rows = changes.matrices[0].rows.iter();
    rows.find(|row| row.cell == cell && row.workload == workload && row.metric == metric)
}

#[test]
fn a_cell_that_became_more_expensive_is_found() {
    let after = run(7, |cell| if cell == "http-server/pool" { 1.1 } else { 1.0 });
    let changes = changes(&run(7, |_| 1.0), &after);
    let pool = row(&changes, "http-server/pool", "closed", Metric::ServerCpu).unwrap();
    assert!(pool.ratio.differs && (pool.ratio.median - 1.1).abs() < 0.005, "{pool:?}");
    let rate = row(&changes, "http-server/pool", "closed", Metric::Throughput).unwrap();
    assert!(rate.ratio.differs && (rate.ratio.median * 1.1 - 1.0).abs() < 0.005);
    assert!(!row(&changes, "http-server/uring", "closed", Metric::ServerCpu).unwrap().ratio.differs);
    assert_eq!(
        row(&changes, "http-server/pool", "open", Metric::Throughput),
        None,
        "an open loop serves what is offered"
    );
    let text = text(&changes);
    assert!(text.contains("server CPU per request over 6 cells: 1.000× [1.000, 1.100], no difference seen"), "{text}");
    assert!(text.lines().any(|line| line.contains("http-server/pool") && line.contains("1.100× [1.")), "{text}");
    assert!(text.lines().any(|line| line.contains("http-server/uring") && line.contains("~ 1.000× [")), "{text}");
    let (verdict, rows) = Gate { threshold: 0.05 }.judge(&changes);
    assert_eq!(verdict, Verdict::Regressed);
    assert!(rows.iter().all(|(_, row)| row.cell == "http-server/pool") && rows.len() == 3, "{rows:?}");
}

#[test]
fn a_change_of_everything_is_one_sentence_on_the_machine() {
    let changes = changes(&run(7, |_| 1.0), &run(7, |_| 0.8));
    let overall = &changes.matrices[0].overall[0];
    assert!(overall.ratio.differs && (overall.ratio.median - 0.8).abs() < 0.005 && overall.p.unwrap() < 0.05);
    let text = text(&changes);
    assert!(text.contains("over 6 cells: 0.800× [0.800, 0.800] (noise floor 1.010×"), "{text}");
    assert!(text.contains("the null server itself needs 0.800× under closed"), "{text}");
    assert_eq!(Gate { threshold: 0.05 }.judge(&changes).0, Verdict::Passed);
}

#[test]
fn two_blocks_prove_nothing() {
    let changes = changes(&run(2, |_| 1.0), &run(2, |_| 1.5));
    assert!(changes.matrices[0].rows.iter().all(|row| !row.ratio.differs));
    assert_eq!(Gate { threshold: 0.05 }.judge(&changes).0, Verdict::Inconclusive);
}

#[test]
fn differences_between_the_runs_themselves_are_named() {
    let mut before = run(3, |_| 1.0);
    before.matrices[0].results.retain(|result| result.cell != "http-server/uring");
    (before.matrices[0].setup.slice_s, before.matrices[0].setup.max_warmup_s) = (0.5, Some(2.0));
    let changes = changes(&before, &run(3, |_| 1.0));
    assert_eq!(changes.matrices[0].only_after, ["http-server/uring closed", "http-server/uring open"]);
    assert_eq!(
        changes.remarks,
        [
            "http-server: the slice was 0.5 s and is 1.5 s",
            "http-server: the warm-up was 0.5 to 2\u{a0}s and is 0.5\u{a0}s"
        ]
    );
    let none = super::changes(&Report { schema: String::new(), matrices: Vec::new() }, &before);
    assert!(text(&none).contains("no server was measured in both"));
    assert_eq!(Gate { threshold: 0.05 }.judge(&none).0, Verdict::Inconclusive, "nothing to judge is not a pass");
}
