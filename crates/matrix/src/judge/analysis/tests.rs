use results::{TurnPlan, record::TurnFigures};

use super::*;
use crate::{plan::order::shuffled, samples};

/// A complete run in which a visit costs `base(block) × factor(cell)` microseconds.
fn run(setup: &Setup, base: impl Fn(u32) -> f64, factor: impl Fn(&str, u32) -> f64) -> (Planned, Vec<Visit>) {
    let planned = Planned { setup: setup.clone(), plan: shuffled(setup) };
    let mut visits = Vec::new();
    for (block, slots) in (0..).zip(&planned.plan) {
        for (slot, due) in (0..).zip(slots) {
            let measured = Some(samples::measured(base(block) * factor(&due.cell, block)));
            let (cell, workload) = (due.cell.clone(), due.workload.clone());
            visits.push(Visit { block, slot, cell, workload, measured, ..samples::visit() });
        }
    }
    (planned, visits)
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
    let (planned, visits) = run(&samples::setup(), |block| 4.0 * f64::from(block + 1), |cell, _| factor(cell));
    let summary = summarise(&planned, &visits);
    let ratio = |cell: &str| summary.figures(cell, "closed").unwrap().cpu_ratio.unwrap();
    let uring = ratio("http-server/uring");
    assert!(near(&uring, 0.9) && (uring.hi - uring.lo).abs() < 1e-9 && uring.differs && uring.blocks == 3, "{uring:?}");
    assert!(near(&ratio("http-server/epoll"), 1.0) && !ratio("http-server/epoll").differs);
    assert!(near(&summary.figures("http-server/uring", "closed").unwrap().throughput_ratio.unwrap(), 1.0 / 0.9));
    assert_eq!(summary.figures("http-server/epoll", "closed").unwrap().cpu_us.unwrap().median, 8.0);
    let drift: Vec<f64> = summary.drift[0].null_cpu_us.iter().map(|block| block.value).collect();
    assert!(drift.iter().zip([3.2, 6.4, 9.6]).all(|(value, expected)| (value - expected).abs() < 1e-9), "{drift:?}");
}

/// The same run with turns under the closed loop that say what is true, where its visits are far off.
fn run_in_turns(turns: impl Fn(&str, u32) -> Option<f64>) -> Summary {
    let setup = Setup { turns: Some(TurnPlan { turn_s: 0.04, pairs: 10 }), ..samples::setup() };
    let noise = |cell: &str, block: u32| {
        factor(cell) * [0.8, 1.1, 1.3][(block as usize + usize::from(cell.as_bytes()[cell.len() - 1])) % 3]
    };
    let (planned, mut visits) = run(&setup, |_| 4.0, noise);
    for visit in visits.iter_mut().filter(|visit| visit.workload == "closed" && visit.cell != setup.reference) {
        let cpu_log = turns(&visit.cell, visit.block);
        let figures = cpu_log.map(|cpu_log| TurnFigures { cpu_log, p99_log: 0.0, pairs: 10, rejected: 0 });
        visit.measured.as_mut().unwrap().turns = figures;
    }
    summarise(&planned, &visits)
}

#[test]
fn ratios_of_cost_are_those_of_the_turns_beside_the_reference() {
    let summary = run_in_turns(|cell, block| Some(factor(cell).ln() + 0.001 * f64::from(block)));
    let ratio = |cell: &str, workload| summary.figures(cell, workload).unwrap().cpu_ratio.unwrap();
    let uring = ratio("http-server/uring", "closed");
    assert!((uring.median / 0.9 - 1.001).abs() < 1e-6 && uring.differs && uring.blocks == 3, "{uring:?}");
    assert!(near(&ratio("http-server/epoll", "closed"), 1.0));
    // The control's, too: so the floor is low under the closed loop, and high where there are no turns.
    assert!(summary.noise[0].cpu_floor_percent < 1.5 && summary.noise[1].cpu_floor_percent > 10.0);
    assert_eq!(summary.noise[0].wanted_s(), None, "it is as low as it should be");
    assert!(!ratio("http-server/uring", "open").differs);
    // Two cells that stood beside the same reference are compared by it.
    let of_peer = |it: &&Comparison| it.topic == Topic::BestOverPeer && it.metric == Metric::ServerCpu;
    let beside_peer = summary.comparisons.iter().find(of_peer).unwrap();
    assert_eq!((beside_peer.subject.as_str(), beside_peer.object.as_str()), ("http-server/uring", "nginx/sendfile-on"));
    assert!(near(&beside_peer.ratio, 0.9 / 1.3), "{beside_peer:?}");
    let drift: Vec<f64> = summary.drift[0].aa_ratio.iter().map(|block| block.value).collect();
    assert!(
        drift.iter().zip([0.0_f64, 0.001, 0.002]).all(|(value, log)| (value - log.exp()).abs() < 1e-9),
        "{drift:?}"
    );
}

#[test]
fn a_cell_without_turns_in_some_block_is_compared_by_its_visits() {
    let all = run_in_turns(|cell, _| Some(factor(cell).ln()));
    let some = run_in_turns(|cell, block| (block > 0 || cell != "http-server/uring").then(|| factor(cell).ln()));
    let ratio = |summary: &Summary, cell: &str| summary.figures(cell, "closed").unwrap().cpu_ratio.unwrap();
    assert!(near(&ratio(&all, "http-server/uring"), 0.9));
    let visits = ratio(&some, "http-server/uring");
    assert!(!near(&visits, 0.9) && visits.blocks == 3, "not by turns and visits mixed: {visits:?}");
    assert!(near(&ratio(&some, "http-server/pool"), 1.5));
}

#[test]
fn a_cell_costs_a_multiple_of_itself_under_the_counterpart() {
    let mut setup = samples::setup();
    setup.workloads[1].counterpart = Some(setup.workloads[0].name.clone());
    let (planned, mut visits) = run(&setup, |block| 4.0 * f64::from(block + 1), |cell, _| factor(cell));
    for visit in visits.iter_mut().filter(|visit| visit.workload == setup.workloads[1].name) {
        let dearer = if visit.cell == "http-server/pool" { 3.0 } else { 1.5 };
        if let Some(server) = visit.measured.as_mut().and_then(|measured| measured.server.as_mut()) {
            server.cpu_us *= dearer;
        }
    }
    let summary = summarise(&planned, &visits);
    let ratio = |cell, workload| summary.figures(cell, workload).unwrap().counterpart_ratio;
    let more = setup.workloads[1].name.as_str();
    for (cell, expected) in [("http-server/epoll", 1.5), ("http-server/pool", 3.0), ("nginx/sendfile-on", 1.5)] {
        let found = ratio(cell, more).unwrap();
        assert!(near(&found, expected) && found.differs && found.blocks == 3, "{cell}: {found:?}");
        assert_eq!(ratio(cell, &setup.workloads[0].name), None);
    }
}

#[test]
fn nothing_within_the_noise_is_called_a_difference() {
    let wobble = |cell: &str, block: u32| match cell {
        "control-aa" => [0.85, 1.0, 1.15][block as usize],
        cell => factor(cell),
    };
    let (planned, visits) = run(&samples::setup(), |_| 4.0, wobble);
    let summary = summarise(&planned, &visits);
    let noise = &summary.noise[0];
    assert!(noise.cpu_floor_percent > 14.0, "{noise:?}");
    let of_it = visits.iter().filter(|visit| visit.workload == noise.workload);
    assert_eq!(noise.elapsed_s, of_it.map(|visit| visit.elapsed_s).sum::<f64>());
    let wanted = noise.elapsed_s * (noise.cpu_floor_percent / 5.0).powi(2);
    assert!((noise.wanted_s().unwrap() / wanted - 1.0).abs() < 1e-9, "{noise:?}");
    assert!(!summary.figures("http-server/uring", "closed").unwrap().cpu_ratio.unwrap().differs);
    assert!(summary.figures("http-server/pool", "closed").unwrap().cpu_ratio.unwrap().differs);
    assert!(summary.warnings.iter().any(|warning| warning.contains("noise floor")));
}

#[test]
fn effects_pool_workloads_and_the_best_is_compared() {
    let (planned, visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    let summary = summarise(&planned, &visits);
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
fn where_misses_are_no_errors_nothing_is_ranked_by_its_cost() {
    let mut setup = samples::setup();
    setup.workloads[1].allows_misses = true;
    let (planned, visits) = run(&setup, |_| 4.0, |cell, _| factor(cell));
    let summary = summarise(&planned, &visits);
    assert!(summary.effects.iter().all(|effect| effect.workloads == ["closed"]), "{:?}", summary.effects);
    assert!(summary.comparisons.iter().all(|comparison| comparison.workload == "closed"));
    assert!(summary.figures("http-server/pool", "open").is_some(), "yet its figures are shown");
}

#[test]
fn failed_visits_have_no_figures_and_flagged_ones_are_shown() {
    let (planned, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
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
    let summary = summarise(&planned, &visits);
    assert_eq!(summary.figures("http-server/pool", "closed"), None);
    let pool = summary.results.iter().find(|result| result.cell == "http-server/pool").unwrap();
    assert_eq!(pool.outcome, Outcome::NotRun { reason: "failed: server did not start".to_owned() });
    let nginx = summary.figures("nginx/sendfile-on", "closed").unwrap();
    assert_eq!((nginx.visits, &nginx.flags[..]), (3, &[FlagCount { flag: Flag::Noisy, visits: 1 }][..]));
    assert_eq!((summary.progress.visits_failed, summary.progress.visits_invalid), (6, 8));
}

#[test]
fn a_visit_with_errors_is_not_ranked() {
    let (planned, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    // The cheapest by far, because it fails.
    for visit in visits.iter_mut().filter(|visit| visit.cell == "http-server/uring") {
        visit.measured = Some(samples::measured(0.1));
        (visit.flags, visit.valid) = (vec![Flag::Errors], false);
        visit.measured.as_mut().unwrap().errors.insert("reset".to_owned(), 3);
    }
    let summary = summarise(&planned, &visits);
    assert_eq!(summary.figures("http-server/uring", "closed"), None);
    assert!(summary.comparisons.iter().all(|one| one.subject != "http-server/uring"), "{:?}", summary.comparisons);
    assert!(summary.effects.iter().all(|effect| effect.level != "uring"));
    let result = summary.results.iter().find(|result| result.cell == "http-server/uring").unwrap();
    assert_eq!(result.outcome, Outcome::NotRun { reason: "failed: 3 reset".to_owned() });
}

#[test]
fn a_block_counts_once_however_often_its_visits_were_repeated() {
    let (planned, mut visits) = run(&samples::setup(), |block| 4.0 + f64::from(block), |cell, _| factor(cell));
    let before = summarise(&planned, &visits);
    let is_pool = |visit: &&Visit| (visit.cell.as_str(), visit.workload.as_str()) == ("http-server/pool", "closed");
    let flagged: Vec<Visit> = visits.iter().filter(is_pool).cloned().collect();
    for visit in visits.iter_mut().filter(|visit| is_pool(&&**visit)) {
        visit.attempt = 3;
    }
    for attempt in [1, 2] {
        visits.extend(flagged.iter().map(|visit| Visit {
            attempt,
            valid: false,
            flags: vec![Flag::Noisy],
            measured: Some(samples::measured(100.0)),
            ..visit.clone()
        }));
    }
    let after = summarise(&planned, &visits);
    let figures = |summary: &Summary| {
        let figures = summary.figures("http-server/pool", "closed").unwrap();
        let blocks =
            figures.per_block.iter().map(|block| (block.block, block.cpu_us, block.throughput_rps, block.valid));
        (figures.cpu_us, figures.cpu_ratio, figures.visits, blocks.collect::<Vec<_>>())
    };
    assert_eq!(figures(&before), figures(&after));
    let sources = &after.figures("http-server/pool", "closed").unwrap().per_block;
    assert!(sources.iter().all(|block| block.source.as_ref().is_some_and(|source| source.attempt == 3)));
    assert_eq!(after.figures("http-server/pool", "closed").unwrap().attempts, 9);
    assert_eq!((after.progress.visits_done, after.progress.visits_invalid), (before.progress.visits_done, 0));
}

#[test]
fn a_block_without_the_reference_pairs_with_no_other() {
    // Each block is twice as dear as the one before: whoever pairs across blocks is wrong by that.
    let (planned, mut visits) = run(&samples::setup(), |block| 4.0 * 2_f64.powi(block as i32), |cell, _| factor(cell));
    for visit in visits.iter_mut().filter(|visit| visit.cell == "http-server/epoll" && visit.block == 0) {
        visit.measured = None;
        (visit.flags, visit.valid) = (vec![Flag::Failed], false);
    }
    let summary = summarise(&planned, &visits);
    let ratio = summary.figures("http-server/pool", "closed").unwrap().cpu_ratio.unwrap();
    assert!(near(&ratio, 1.5) && ratio.blocks == 2 && (ratio.hi - ratio.lo).abs() < 1e-9, "{ratio:?}");
}

#[test]
fn a_partial_run_says_so_and_keeps_what_it_has() {
    let (planned, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    visits.retain(|visit| visit.block == 0);
    let summary = summarise(&planned, &visits);
    assert!(summary.progress.is_partial && summary.progress.blocks_complete == 1);
    assert_eq!((summary.progress.visits_done, summary.progress.visits_planned), (12, 36));
    assert!(
        !summary.figures("http-server/pool", "closed").unwrap().cpu_ratio.unwrap().differs,
        "one block is no proof"
    );
    let none = summarise(&planned, &[]);
    assert!(none.results.is_empty() && none.comparisons.is_empty() && none.progress.is_partial);
}

#[test]
fn the_summary_survives_json() {
    let (planned, visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    let summary = summarise(&planned, &visits);
    let json = serde_json::to_string(&summary).unwrap();
    assert!(serde_json::from_str::<Summary>(&json).unwrap() == summary, "{json}");
}

#[test]
fn servers_that_may_miss_are_not_compared() {
    let mut setup = samples::setup();
    setup.workloads[0].allows_misses = true;
    let (planned, mut visits) = run(&setup, |_| 4.0, |cell, _| factor(cell));
    for visit in &mut visits {
        let measured = visit.measured.as_mut().unwrap();
        measured.bytes_per_key = (visit.workload == "open").then(|| 50.0 + f64::from(visit.block));
        measured.hit_ratio = (visit.workload == "closed").then_some(0.75);
    }
    let summary = summarise(&planned, &visits);
    let figures = |workload| summary.figures("http-server/epoll", workload).unwrap();
    assert_eq!(figures("open").bytes_per_key.unwrap().median, 51.0);
    assert_eq!((figures("closed").hit_ratio.unwrap().median, figures("closed").bytes_per_key), (0.75, None));
    assert!(!summary.comparisons.is_empty() && summary.comparisons.iter().all(|one| one.workload == "open"));
}

#[test]
fn every_matrix_is_analysed_by_itself() {
    let other = Setup { server: "kvcache".to_owned(), ..samples::setup() };
    let (first, first_visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    let (second, second_visits) = run(&other, |_| 8.0, |_, _| 1.0);
    let manifest = Manifest { schema: SCHEMA.to_owned(), matrices: vec![first.clone(), second] };
    let report = report(&manifest, &[first_visits.clone(), second_visits]);
    assert!(report.matrices[0] == summarise(&first, &first_visits));
    assert_eq!(report.matrices[1].setup.server, "kvcache");
    assert_eq!(report.matrices[1].figures("http-server/pool", "closed").unwrap().cpu_us.unwrap().median, 8.0);
}

#[test]
fn warm_ups_have_a_median_and_a_count_of_unsettled() {
    let (planned, mut visits) = run(&samples::setup(), |_| 4.0, |cell, _| factor(cell));
    for visit in &mut visits {
        let measured = visit.measured.as_mut().unwrap();
        measured.warmup_s = (visit.cell != "null").then(|| [0.5, 2.0, 0.9][visit.block as usize]);
        // Of the control the generator does not say, as with a fixed time.
        measured.warmup_steady = (visit.cell != "control-aa").then_some(visit.block != 1 || visit.workload == "open");
    }
    let summary = summarise(&planned, &visits);
    let warm_up = |cell: &str, workload: &str| {
        let further = &summary.figures(cell, workload).unwrap().further;
        (further.warmup_s, further.unsettled_visits)
    };
    assert_eq!(warm_up("http-server/pool", "closed"), (Some(0.9), Some(1)));
    assert_eq!(warm_up("http-server/pool", "open"), (Some(0.9), Some(0)));
    assert_eq!(warm_up("control-aa", "closed"), (Some(0.9), None));
    assert_eq!(warm_up("null", "closed"), (None, Some(1)));
}
