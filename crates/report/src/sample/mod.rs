//! A summary for the tests. Every number in it is made up; nothing was measured.

use std::collections::BTreeMap;

use results::*;
use serde_json::json;

mod curves;
pub(crate) mod random;
mod variants;

pub(crate) use self::variants::{cache, crossed, crowded, five, large, quick, small};

const DRIVERS: [(&str, f64); 7] = [
    ("epoll", 1.0),
    ("uring", 0.975),
    ("tokio", 1.05),
    ("reactor", 1.275),
    ("blocking", 1.65),
    ("pool", 1.70),
    ("tokio-uring", 1.85),
];
const OTHERS: [(&str, &str, Role, f64); 4] = [
    ("lighttpd", "lighttpd", Role::Peer, 1.175),
    ("nginx/sendfile-on", "nginx, sendfile on", Role::Peer, 1.40),
    ("null", "null server", Role::Null, 0.90),
    ("control-aa", "A/A control", Role::Control, 1.004),
];
/// Name, title, short lines, microseconds of the reference, noise floor per cent, offered load.
type Load = (&'static str, &'static str, [&'static str; 2], f64, f64, Option<f64>);
const LOADS: [Load; 5] = [
    ("get-128B-c64", "128-byte file, 64 connections", ["128 B", "c64"], 4.0, 1.3, None),
    ("get-26KB-c64", "26,510-byte file, 64 connections", ["26 KB", "c64"], 6.4, 1.5, None),
    ("get-1MiB-c16", "1 MiB file, 16 connections", ["1 MiB", "c16"], 152.0, 6.2, None),
    ("pipelined-16", "128-byte file, 16 outstanding", ["128 B", "piped 16"], 0.46, 1.8, None),
    (
        "get-128B-c64-open",
        "128-byte file, 64 connections, the same load for all",
        ["128 B", "open"],
        4.4,
        1.4,
        Some(100_000.0),
    ),
];
const BLOCKS: u32 = 7;

/// A finished run: seven drivers, two peers, the null server; one flagged cell and one that could not run.
pub(crate) fn summary() -> Summary {
    let cells = cells();
    let workloads: Vec<Workload> = LOADS.iter().map(workload).collect();
    let mut results = Vec::new();
    for (row, cell) in cells.iter().enumerate() {
        for (column, load) in LOADS.iter().enumerate() {
            let outcome = if (cell.label.as_str(), load.0) == ("pool", "get-1MiB-c16") {
                Outcome::NotRun { reason: "64 workers".to_owned() }
            } else {
                Outcome::Measured(Box::new(figures(row, column)))
            };
            results.push(CellResult { cell: cell.id.clone(), workload: load.0.to_owned(), outcome });
        }
    }
    Summary {
        setup: setup(&cells, &workloads),
        progress: Progress {
            visits_planned: 385,
            visits_done: 385,
            attempts: 391,
            visits_invalid: 3,
            visits_failed: 0,
            blocks_complete: BLOCKS,
            elapsed_s: 1028.0,
            is_partial: false,
        },
        results,
        noise: LOADS.iter().map(noise).collect(),
        effects: effects(),
        drift: LOADS.iter().take(2).enumerate().map(|(i, load)| drift(load, i)).collect(),
        comparisons: comparisons(),
        warnings: vec!["sample: every number on this page is made up; nothing was measured".to_owned()],
    }
}

/// Written as JSON, so that an optional field more in the model needs no change here.
fn setup(cells: &[Cell], workloads: &[Workload]) -> Setup {
    let setup = json!({
        "server": "http-server",
        "created_utc": "2020-01-01T00:00:00Z",
        "git": { "sha": "0000000", "dirty": false },
        "rustc": "rustc 1.95.0",
        "command": "cargo xtask bench-matrix --seed 42 --blocks 7",
        "quick": false,
        "seed": 42,
        "blocks": BLOCKS,
        "slice_s": 1.5,
        "warmup_s": 0.5,
        "retries_max": 2,
        "reference": "http-server/epoll",
        "cells": cells,
        "workloads": workloads,
        "not_run": [],
        "pinning": { "server_cpus": "0", "client_cpus": "1", "shared": false },
        "host": {
            "kernel": "6.18.0",
            "cpu_model": "Sample CPU",
            "cores": 2,
            "memory_bytes": 24_u64 << 30,
            "governor": null,
            "smt": null,
            "virtual_machine": true,
            "mitigations": { "spectre_v2": "Mitigation: Retpolines" },
            "clocksource": "tsc",
            "transparent_hugepages": "madvise",
            "somaxconn": 4096,
            "congestion_control": "cubic",
            "port_range": [32768, 60999],
            "open_files_soft": 65536,
            "open_files_hard": 1_048_576,
            "load1": 0.02,
        },
        "notes": ["The open loop offers 0.4 of what the reference served in the calibration visit."],
    });
    serde_json::from_value(setup).expect("the sample follows the model")
}

fn cells() -> Vec<Cell> {
    let ours = DRIVERS.iter().map(|(driver, _)| Cell {
        id: format!("http-server/{driver}"),
        label: (*driver).to_owned(),
        role: Role::Ours,
        server: "http-server".to_owned(),
        factors: BTreeMap::from([("driver".to_owned(), (*driver).to_owned())]),
        description: "a driver".to_owned(),
        version: None,
        command: format!("http-server --driver {driver} --threads 1 --pin 0 --listen 127.0.0.1:0 SITE"),
        config: None,
        connection: None,
        only_under: None,
    });
    let others = OTHERS.iter().map(|(id, label, role, _)| Cell {
        id: (*id).to_owned(),
        label: (*label).to_owned(),
        role: *role,
        server: label.split([' ', ',']).next().unwrap_or(label).to_owned(),
        factors: BTreeMap::new(),
        description: "a server".to_owned(),
        version: (*role == Role::Peer).then(|| "1.2.3".to_owned()),
        command: format!("{label} -c CONF"),
        config: (*role == Role::Peer).then(|| format!("# {label}\nworker_processes 1;\naccess_log off;\n")),
        connection: None,
        only_under: None,
    });
    ours.chain(others).collect()
}

fn workload(&(name, title, short, _, _, rate): &Load) -> Workload {
    let arrivals = rate.map_or(Arrivals::Closed, |rate_rps| Arrivals::Open {
        rate_rps,
        fraction: 0.4,
        capacity_rps: rate_rps / 0.4,
    });
    Workload {
        name: name.to_owned(),
        title: title.to_owned(),
        short: short.map(str::to_owned),
        body_bytes: 128,
        keys: None,
        documents: None,
        repetitions: None,
        allows_misses: false,
        connections: 64,
        pipeline: 1,
        arrivals,
        adds: Vec::new(),
        preload: None,
        counterpart: None,
        command: "loadgen http -c 64 -t 1 --pin 1 -d 1.5s http://ADDR/file".to_owned(),
    }
}

/// A steady wobble in ±1 that looks random and is the same in every run.
fn wobble(a: usize, b: usize) -> f64 {
    ((a * 7919 + b * 104_729 + 12_345) % 2003) as f64 / 1001.0 - 1.0
}

fn factor(row: usize, column: usize) -> f64 {
    let base = DRIVERS.get(row).map_or_else(|| OTHERS[row - DRIVERS.len()].3, |d| d.1);
    match (row, column) {
        (8, 3) => 13.5,
        // Large bodies hide the driver, pipelining brings it out.
        (1..=8, 2) => 1.0 + (base - 1.0) * 0.05,
        (1..=8, 3) => base.powf(1.3),
        _ => base,
    }
}

fn interval(median: f64, half_percent: f64) -> Interval {
    let half = half_percent / 100.0;
    Interval { median, lo: median * (1.0 - half), hi: median * (1.0 + half) }
}

fn ratio(median: f64, half_percent: f64, floor_percent: f64) -> Ratio {
    let Interval { median, lo, hi } = interval(median, half_percent);
    let differs = (lo > 1.0 || hi < 1.0) && (median - 1.0).abs() * 100.0 > floor_percent;
    Ratio { median, lo, hi, differs, blocks: BLOCKS }
}

fn figures(row: usize, column: usize) -> Figures {
    let (_, _, _, base, floor, rate) = LOADS[column];
    let (factor, half) = (factor(row, column), floor * (0.9 + 0.2 * wobble(row, column)));
    let own = if row == 0 { ratio(1.0, 0.0, floor) } else { ratio(factor, half, floor) };
    let cpu = base * factor;
    let rps = rate.unwrap_or(1e6 / cpu);
    let flags = match (row, column) {
        (4, 1) => vec![FlagCount { flag: Flag::Noisy, visits: 2 }],
        (8, 4) => vec![FlagCount { flag: Flag::Lag, visits: 3 }],
        (_, 0) if rate.is_none() => vec![FlagCount { flag: Flag::ServerSaturated, visits: BLOCKS }],
        _ => Vec::new(),
    };
    let user = 0.1 + 0.05 * factor;
    Figures {
        cpu_us: Some(interval(cpu, half)),
        user_us: Some(cpu * user),
        system_us: Some(cpu * (1.0 - user)),
        cpu_ratio: Some(own),
        throughput_rps: interval(rps, half),
        throughput_ratio: Some(ratio(1.0 / factor, half, floor)),
        client_cpu_us: interval(base * 0.84, half),
        client_user_us: Some(base * 0.2),
        client_system_us: Some(base * 0.64),
        total_cpu_us: Some(interval(cpu + base * 0.84, half)),
        total_cpu_ratio: Some(ratio((factor + 0.84) / 1.84, half, floor)),
        server_busy: Some(0.97),
        client_busy: 0.81,
        rss_bytes: Some(6 << 20),
        bytes_per_key: None,
        hit_ratio: None,
        counterpart_ratio: None,
        response: rate.map(|_| latency(60.0 * factor, 14.0)),
        service: Some(latency(48.0 * factor, 9.0)),
        flags,
        visits: BLOCKS,
        attempts: BLOCKS + u32::from(row == 4),
        failed: 0,
        per_block: (0..BLOCKS)
            .map(|block| BlockFigures {
                block,
                cpu_us: Some(cpu * (1.0 + 0.02 * wobble(block as usize, row))),
                throughput_rps: rps,
                valid: block != 3,
                source: Some(VisitSource {
                    slot: row as u32,
                    attempt: 1,
                    sha256: format!("{block:02x}{row:02x}{column:02x}").repeat(11)[..64].to_owned(),
                }),
            })
            .collect(),
        sweep: rate.map_or_else(Vec::new, |_| curves::sweep(1e6 / cpu, 48.0 * factor)),
        further: SecondaryFigures {
            windows: curves::windows(rps, 60.0 * factor, (row, column), rate.is_some()),
            // Counted of the first workload only.
            warmup_s: Some((6 + column) as f64 / 10.0),
            unsettled_visits: Some(u32::from((row, column) == (8, 4))),
            syscalls_per_request: (column == 0).then(|| 2.1 * factor.sqrt()),
            ..SecondaryFigures::default()
        },
    }
}

fn latency(p50: f64, growth: f64) -> LatencyFigures {
    let at = |x: f64| p50 * (1.0 + growth * (x.log10() / 4.0).powi(2));
    let points = (0..QUANTILE_POINTS_MAX).map(|i| {
        let x = 10f64.powf(i as f64 / (QUANTILE_POINTS_MAX - 1) as f64 * 4.15);
        let spread = 1.05 + 0.08 * x.log10();
        QuantilePoint { x, us: at(x), min_us: at(x) / spread, max_us: at(x) * spread }
    });
    LatencyFigures {
        mean: interval(at(2.0), 2.0),
        p50: interval(at(2.0), 2.0),
        p90: interval(at(10.0), 2.5),
        p99: interval(at(100.0), 4.0),
        p999: interval(at(1000.0), 8.0),
        max: at(1e6),
        points: points.collect(),
        density: curves::density(p50),
    }
}

fn noise(load: &Load) -> Noise {
    Noise {
        workload: load.0.to_owned(),
        cpu_aa: Some(ratio(1.004, load.4, load.4)),
        throughput_aa: Some(ratio(0.997, load.4, load.4)),
        cpu_floor_percent: load.4,
        throughput_floor_percent: load.4,
        elapsed_s: 600.0,
    }
}

fn effects() -> Vec<Effect> {
    let effect = |&(level, median): &(&str, f64)| Effect {
        factor: "driver".to_owned(),
        level: level.to_owned(),
        instead_of: "epoll".to_owned(),
        cpu: ratio(median, 2.2, 2.4),
        floor_percent: 2.4,
        workloads: LOADS.iter().map(|l| l.0.to_owned()).collect(),
    };
    DRIVERS[1..].iter().map(effect).collect()
}

fn drift(load: &Load, index: usize) -> Drift {
    let values = |middle: f64, reach: f64, salt: usize| -> Vec<BlockValue> {
        let value = |block: u32| middle * (1.0 + reach * wobble(block as usize + salt, index));
        (0..BLOCKS).map(|block| BlockValue { block, value: value(block) }).collect()
    };
    Drift { workload: load.0.to_owned(), null_cpu_us: values(load.3 * 0.9, 0.01, 3), aa_ratio: values(1.0, 0.016, 11) }
}

fn comparisons() -> Vec<Comparison> {
    let mut out = Vec::new();
    let topics = [
        (Topic::BestOverReference, "http-server/epoll", 1.0),
        (Topic::BestOverPeer, "lighttpd", 1.175),
        (Topic::BestOverPeer, "nginx/sendfile-on", 1.40),
        (Topic::BestOverNull, "null", 0.90),
    ];
    for (topic, object, cost) in topics {
        for load in &LOADS {
            out.push(Comparison {
                topic,
                workload: load.0.to_owned(),
                metric: Metric::ServerCpu,
                subject: "http-server/uring".to_owned(),
                object: object.to_owned(),
                ratio: ratio(0.975 / cost, 1.1, load.4),
                floor_percent: load.4,
            });
        }
    }
    out
}
