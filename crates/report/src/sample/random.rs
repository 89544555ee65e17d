//! Reports at random, with whatever a run may leave: few blocks, failures, equal values, huge ratios, no null server, no
//! reference, one back end only. Names tell the matrix that they belong to, and none is part of another.

use fastrand::Rng;
use results::*;

use super::{figures, setup, workload};

/// Makes the report of a seed.
pub(crate) fn report(seed: u64) -> Report {
    let mut random = Rng::with_seed(seed);
    let matrices = [1, 1, 1, 2, 5][random.usize(..5)];
    Report { schema: SCHEMA.to_owned(), matrices: (0..matrices).map(|matrix| summary(&mut random, matrix)).collect() }
}

fn chance(random: &mut Rng, percent: u32) -> bool {
    random.u32(..100) < percent
}

fn summary(random: &mut Rng, matrix: usize) -> Summary {
    let cells = cells(random, matrix);
    let workloads: Vec<Workload> =
        (0..random.usize(1..=4)).map(|column| one_workload(random, matrix, column)).collect();
    let mut setup = setup(&cells, &workloads);
    setup.server = format!("server-{matrix}");
    setup.blocks = [1, 2, 3, 5, 7][random.usize(..5)];
    setup.quick = chance(random, 15);
    setup.pinning.shared = chance(random, 5);
    if chance(random, 5) {
        setup.profile = "dev".to_owned();
    }
    setup.reference = if chance(random, 7) { "absent".to_owned() } else { cells[0].id.clone() };
    let noise: Vec<Noise> =
        workloads.iter().filter(|it| !it.is_load_sweep()).filter_map(|it| noise(random, it, setup.blocks)).collect();
    let mut results = Vec::new();
    for (row, cell) in cells.iter().enumerate() {
        for (column, workload) in workloads.iter().enumerate() {
            let floor =
                noise.iter().find(|noise| noise.workload == workload.name).map_or(FLOOR_UNKNOWN, Noise::cpu_floor);
            let outcome = outcome(random, &setup, (cell, row), (column, floor));
            let result =
                outcome.map(|outcome| CellResult { cell: cell.id.clone(), workload: workload.name.clone(), outcome });
            results.extend(result);
        }
    }
    let is_partial = chance(random, 10);
    let planned = random.u32(1..400);
    let mut summary = Summary {
        effects: effects(random, matrix, setup.blocks),
        setup,
        progress: Progress {
            visits_planned: planned,
            visits_done: if is_partial { random.u32(..planned) } else { planned },
            visits_failed: random.u32(..3),
            is_partial,
            ..Progress::default()
        },
        results,
        noise,
        drift: Vec::new(),
        comparisons: Vec::new(),
        warnings: Vec::new(),
    };
    summary.warnings = warnings::of(&summary);
    summary
}

fn cells(random: &mut Rng, matrix: usize) -> Vec<Cell> {
    let ours = random.usize(1..=5);
    let peers = random.usize(..=2);
    let null = usize::from(chance(random, 70));
    let control = usize::from(chance(random, 80));
    let roles = [(Role::Ours, ours), (Role::Peer, peers), (Role::Null, null), (Role::Control, control)];
    let template = &super::cells()[0];
    let mut cells = Vec::new();
    for role in roles.into_iter().flat_map(|(role, count)| std::iter::repeat_n(role, count)) {
        let label = format!("c{matrix}{}", cells.len());
        let mut cell = Cell { id: format!("{label}/id"), role, label: label.clone(), ..template.clone() };
        match role {
            Role::Ours => drop(cell.factors.insert("driver".to_owned(), label)),
            Role::Peer | Role::Null | Role::Control => cell.factors.clear(),
        }
        cells.push(cell);
    }
    cells
}

fn one_workload(random: &mut Rng, matrix: usize, column: usize) -> Workload {
    let template = workload(&super::LOADS[if chance(random, 30) { 4 } else { 0 }]);
    Workload {
        name: format!("w{matrix}{column}"),
        allows_misses: chance(random, 10),
        arrivals: if chance(random, 10) { Arrivals::LoadSweep } else { template.arrivals },
        ..template
    }
}

fn noise(random: &mut Rng, workload: &Workload, blocks: u32) -> Option<Noise> {
    let cpu_floor_percent = match blocks {
        0..BLOCKS_MIN => 100.0,
        _ => [1.0, 1.3, 6.2, 40.0, 100.0][random.usize(..5)],
    };
    let noise = Noise {
        workload: workload.name.clone(),
        cpu_aa: None,
        throughput_aa: None,
        cpu_floor_percent,
        throughput_floor_percent: cpu_floor_percent,
        elapsed_s: [0.0, 45.0, 4_000.0][random.usize(..3)],
    };
    (!chance(random, 8)).then_some(noise)
}

/// A median and bounds about it: equal to 1, near it, far from it, very far; exact, narrow or wide.
fn interval(random: &mut Rng) -> Interval {
    let spread = [0.0, 0.001, 0.01, 0.1, 1.0][random.usize(..5)];
    let log = match random.u32(..10) {
        0 => 0.0,
        1..=4 => random.f64() * 0.04 - 0.02,
        5..=8 => random.f64() * 3.0 - 1.5,
        _ => random.f64() * 24.0 - 12.0,
    };
    let mut reach = || spread * random.f64();
    Interval { median: log.exp(), lo: (log - reach()).exp(), hi: (log + reach()).exp() }
}

fn outcome(
    random: &mut Rng,
    setup: &Setup,
    (cell, row): (&Cell, usize),
    (column, floor): (usize, f64),
) -> Option<Outcome> {
    if chance(random, 5) {
        return None;
    }
    if chance(random, 10) {
        let reason = ["64 workers", "failed: 3 reset"][random.usize(..2)];
        return Some(Outcome::NotRun { reason: reason.to_owned() });
    }
    let mut figures = figures(row.min(6), if setup.workloads[column].arrivals == Arrivals::Closed { 0 } else { 4 });
    let base = 4.0 + column as f64;
    let own = if cell.id == setup.reference { Interval { median: 1.0, lo: 1.0, hi: 1.0 } } else { interval(random) };
    let blocks = if chance(random, 10) { random.u32(1..=setup.blocks) } else { setup.blocks };
    let has_ratio = setup.reference != "absent" && !chance(random, 4);
    figures.cpu_ratio = has_ratio.then(|| Ratio::judged(own, blocks, floor));
    let scaled = |value: f64| value * base;
    figures.cpu_us = (!chance(random, 4)).then(|| Interval {
        median: scaled(own.median),
        lo: scaled(own.lo) * 0.99,
        hi: scaled(own.hi) * 1.01,
    });
    figures.failed = u32::from(chance(random, 8)) * random.u32(1..=2);
    figures.flags.clear();
    for flag in [Flag::Noisy, Flag::Lag, Flag::ClientSaturated, Flag::ServerSaturated, Flag::NoSteadyState] {
        if chance(random, 5) {
            figures.flags.push(FlagCount { flag, visits: random.u32(1..=setup.blocks) });
        }
    }
    figures.sweep.retain(|_| setup.workloads[column].is_load_sweep());
    let (keeps_up, is_weak) = (chance(random, 40), chance(random, 20));
    for (place, point) in figures.sweep.iter_mut().enumerate() {
        point.is_served = (point.is_served || keeps_up) && !(is_weak && place == 5);
    }
    Some(Outcome::Measured(Box::new(figures)))
}

fn effects(random: &mut Rng, matrix: usize, blocks: u32) -> Vec<Effect> {
    let factors = random.usize(1..=2);
    let effect = |level: usize| {
        let floor = [0.01, 0.03, 1.0][random.usize(..3)];
        Effect {
            factor: format!("factor-{}", level % factors),
            level: format!("l{matrix}{level}"),
            instead_of: format!("b{matrix}{}", level % factors),
            cpu: Ratio::judged(interval(random), blocks, floor),
            floor_percent: floor * 100.0,
            workloads: Vec::new(),
        }
    };
    (0..4).map(effect).take(matrix % 2 + 3).collect()
}
