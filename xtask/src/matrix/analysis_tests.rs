use super::super::plan::shuffled;
use super::super::samples;
use super::*;

/// A complete run in which a visit costs `base(block) × factor(cell)` microseconds.
fn run(setup: &Setup, base: impl Fn(u32) -> f64, factor: impl Fn(&str, u32) -> f64) -> (Manifest, Vec<Visit>) {
    let manifest = Manifest { schema: SCHEMA.to_owned(), setup: setup.clone(), plan: shuffled(setup) };
    let mut visits = Vec::new();
    for (block, slots) in (0..).zip(&manifest.plan) {
        for (slot, planned) in (0..).zip(slots) {
            let measured = Some(samples::measured(base(block) * factor(&planned.cell, block)));
            let (cell, workload) = (planned.cell.clone(), planned.workload.clone());
            visits.push(Visit { block, slot, cell, workload, measured, ..samples::visit() });
        }
    }
    (manifest, visits)
}

fn factor(cell: &str) -> f64 {
    match cell {
        "http-server/uring" => 0.9,
        "http-server/pool" => 1.5,
        "nginx/sendfile-on" => 1.3,
        "null" => 0.8,
        _ => 1.0,
    }
}

fn near(ratio: &Ratio, expected: f64) -> bool {
    (ratio.median / expected - 1.0).abs() < 1e-9
}

#[test]
fn drift_between_blocks_cancels_in_every_ratio() {
    let (manifest, visits) = run(&samples::setup(), |block| 4.0 * f64::from(block + 1), |cell, _| factor(cell));
    let summary = summarise(&manifest, &visits);
    let ratio = |cell: &str| summary.figures(cell, "closed").unwrap().cpu_ratio.unwrap();
    let uring = ratio("http-server/uring");
    assert!(near(&uring, 0.9) && (uring.hi - uring.lo).abs() < 1e-9 && uring.differs && uring.blocks == 3, "{uring:?}");
    assert!(near(&ratio("http-server/epoll"), 1.0) && !ratio("http-server/epoll").differs);
    assert!(near(&summary.figures("http-server/uring", "closed").unwrap().throughput_ratio.unwrap(), 1.0 / 0.9));
    assert_eq!(summary.figures("http-server/epoll", "closed").unwrap().cpu_us.unwrap().median, 8.0);
    let drift: Vec<f64> = summary.drift[0].null_cpu_us.iter().map(|block| block.value).collect();
    assert!(drift.iter().zip([3.2, 6.4, 9.6]).all(|(value, expected)| (value - expected).abs() < 1e-9), "{drift:?}");
}

#[test]
fn nothing_inside_the_noise_of_the_control_is_called_a_difference() {
    let wobble = |cell: &str, block: u32| match cell {
        "control-aa" => [0.85, 1.0, 1.15][block as usize],
        cell => factor(cell),
    };
    let (manifest, visits) = run(&samples::setup(), |_| 4.0, wobble);
    let summary = summarise(&manifest, &visits);
    assert!(summary.noise[0].cpu_floor_percent > 14.0, "{:?}", summary.noise[0]);
    assert!(!summary.figures("http-server/uring", "closed").unwrap().cpu_ratio.unwrap().differs);
    assert!(summary.figures("http-server/pool", "closed").unwrap().cpu_ratio.unwrap().differs);
    assert!(summary.warnings.iter().any(|warning| warning.contains("noise floor")));
}

#[test]
fn effects_pool_workloads_and_comparisons_pair_the_best_with_peers_and_floor() {
    let (manifest, visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    let summary = summarise(&manifest, &visits);
    let levels: Vec<_> = summary.effects.iter().map(|effect| (effect.level.as_str(), effect.workloads.len())).collect();
    assert_eq!(levels, [("uring", 2), ("pool", 2)]);
    assert!(near(&summary.effects[1].cpu, 1.5) && summary.effects[1].instead_of == "epoll");
    let find = |topic, metric| {
        let mut found = summary.comparisons.iter();
        found.find(|comparison| comparison.topic == topic && comparison.metric == metric).unwrap()
    };
    let over_null = find(Topic::BestOverNull, Metric::ServerCpu);
    assert!(over_null.subject == "http-server/uring" && near(&over_null.ratio, 0.9 / 0.8));
    assert!(near(&find(Topic::BestOverPeer, Metric::Throughput).ratio, 1.3 / 0.9));
    assert!(near(&find(Topic::ReferenceOverPeer, Metric::ServerCpu).ratio, 1.0 / 1.3));
    let open = |comparison: &&Comparison| comparison.workload == "open" && comparison.metric == Metric::Throughput;
    assert_eq!(summary.comparisons.iter().find(open), None, "an open loop has no throughput to compare");
}

#[test]
fn failed_visits_have_no_figures_and_flagged_ones_are_shown() {
    let (manifest, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    for visit in &mut visits {
        match visit.cell.as_str() {
            "http-server/pool" => {
                visit.flags = vec![Flag::Failed];
                visit.valid = false;
                visit.failure = Some("server did not start".to_owned());
                visit.measured = None;
            }
            "nginx/sendfile-on" if visit.block == 1 => {
                visit.flags = vec![Flag::Noisy];
                visit.valid = false;
            }
            _ => {}
        }
    }
    let summary = summarise(&manifest, &visits);
    assert_eq!(summary.figures("http-server/pool", "closed"), None);
    let pool = summary.results.iter().find(|result| result.cell == "http-server/pool").unwrap();
    assert_eq!(pool.outcome, Outcome::NotRun { reason: "failed: server did not start".to_owned() });
    let nginx = summary.figures("nginx/sendfile-on", "closed").unwrap();
    assert_eq!((nginx.visits, &nginx.flags[..]), (3, &[FlagCount { flag: Flag::Noisy, visits: 1 }][..]));
    assert_eq!((summary.progress.visits_failed, summary.progress.visits_invalid), (6, 8));
}

#[test]
fn a_partial_run_says_so_and_keeps_what_it_has() {
    let (manifest, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    visits.retain(|visit| visit.block == 0);
    let summary = summarise(&manifest, &visits);
    assert!(summary.progress.is_partial && summary.progress.blocks_complete == 1);
    assert_eq!((summary.progress.visits_done, summary.progress.visits_planned), (12, 36));
    assert!(
        !summary.figures("http-server/pool", "closed").unwrap().cpu_ratio.unwrap().differs,
        "one block is no proof"
    );
    let none = summarise(&manifest, &[]);
    assert!(none.results.is_empty() && none.comparisons.is_empty() && none.progress.is_partial);
}

#[test]
fn the_summary_survives_json() {
    let (manifest, visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    let summary = summarise(&manifest, &visits);
    let json = serde_json::to_string(&summary).unwrap();
    assert!(serde_json::from_str::<Summary>(&json).unwrap() == summary, "{json}");
}
