//! The sample in other shapes: crossed, quick, large, crowded, of a cache, five servers.

use results::*;

use super::{DRIVERS, LOADS, interval, noise, ratio, summary, wobble};

/// Every driver with every store: the choices of two dimensions together.
pub(crate) fn crossed() -> Summary {
    let mut summary = summary();
    let ours = |cell: &&Cell| cell.role == Role::Ours;
    let (mut cells, mut results) = (Vec::new(), Vec::new());
    for (index, store) in ["packed", "hashbrown", "std"].into_iter().enumerate() {
        for (row, cell) in summary.setup.cells.iter().filter(ours).enumerate() {
            let driver = &DRIVERS[row].0;
            let factors = [("driver", *driver), ("store", store)].map(|(k, v)| (k.to_owned(), v.to_owned()));
            let id = format!("kvcache/{driver}/{store}");
            for result in summary.results.iter().filter(|result| result.cell == cell.id) {
                let mut result = CellResult { cell: id.clone(), ..result.clone() };
                if let Outcome::Measured(figures) = &mut result.outcome {
                    // The more expensive the driver, the less the store is seen.
                    let more = 1.0 + 0.4 * index as f64 / (1.0 + row as f64);
                    figures.cpu_us = figures.cpu_us.map(|cpu| interval(cpu.median * more, 2.0));
                }
                results.push(result);
            }
            let label = format!("{driver}/{store}");
            cells.push(Cell { id, label, server: "kvcache".to_owned(), factors: factors.into(), ..cell.clone() });
        }
    }
    summary.setup.server = "kvcache".to_owned();
    summary.setup.reference = cells[0].id.clone();
    (summary.setup.cells, summary.results) = (cells, results);
    summary.comparisons.clear();
    summary
}

/// Five servers in one run.
pub(crate) fn five() -> Vec<Summary> {
    let mut all = vec![summary(), cache(), crossed(), large(), summary()];
    let servers = ["http-server", "kvcache", "fileserver", "zerocopy", "mq-server"];
    for (summary, server) in all.iter_mut().zip(servers) {
        summary.setup.server = server.to_owned();
    }
    all
}

/// Few enough cells for every picture to be drawn of every workload.
pub(crate) fn small() -> Summary {
    let mut summary = summary();
    let kept = ["epoll", "uring", "tokio", "nginx, sendfile on", "null server", "A/A control"];
    summary.setup.cells.retain(|cell| kept.contains(&cell.label.as_str()));
    let cells = &summary.setup.cells;
    summary.results.retain(|result| cells.iter().any(|cell| cell.id == result.cell));
    summary
}

/// As many workloads as the largest server has.
pub(crate) fn large() -> Summary {
    let mut summary = summary();
    let (workloads, results) = (summary.setup.workloads.clone(), summary.results.clone());
    for (name, copy) in ["a", "b", "c", "d"].into_iter().zip(1..) {
        let name = |workload: &str| format!("{workload}-{name}");
        // One open loop in all is as many as a server has.
        let closed = workloads.iter().filter(|workload| copy < 2 || workload.arrivals == Arrivals::Closed);
        let closed: Vec<Workload> = closed.cloned().collect();
        let is_kept = |result: &&CellResult| closed.iter().any(|workload| workload.name == result.workload);
        // Back ends vary under some workloads only.
        let others = |id: &str| !id.starts_with("http-server/") || id == "http-server/epoll";
        let more = results.iter().filter(is_kept).filter(|result| copy < 2 || others(&result.cell));
        summary.results.extend(more.map(|it| CellResult { workload: name(&it.workload), ..it.clone() }));
        summary.noise.extend(closed.iter().map(|it| Noise { workload: name(&it.name), ..noise(&LOADS[0]) }));
        summary.setup.workloads.extend(closed.into_iter().map(|it| Workload { name: name(&it.name), ..it }));
    }
    summary
}

/// A run as `--quick` would leave it: closed loops only, no peers, no effects, no drift.
pub(crate) fn quick() -> Summary {
    let mut summary = summary();
    summary.setup.quick = true;
    summary.setup.blocks = 3;
    summary.setup.cells.retain(|c| c.role != Role::Peer);
    summary.setup.workloads.retain(|w| w.arrivals == Arrivals::Closed);
    let (cells, workloads) = (&summary.setup.cells, &summary.setup.workloads);
    summary.results.retain(|r| cells.iter().any(|c| c.id == r.cell) && workloads.iter().any(|w| w.name == r.workload));
    for result in &mut summary.results {
        if let Outcome::Measured(figures) = &mut result.outcome {
            figures.response = None;
            figures.service = None;
            figures.sweep.clear();
            figures.further.windows.clear();
        }
    }
    summary.noise.retain(|n| workloads.iter().any(|w| w.name == n.workload));
    summary.comparisons.retain(|c| c.topic != Topic::BestOverPeer);
    summary.effects.clear();
    summary.drift.clear();
    summary
}

/// A server that keeps keys: a reference of its own, memory per key under one workload and hits under another.
pub(crate) fn cache() -> Summary {
    let mut summary = summary();
    summary.setup.server = "kvcache".to_owned();
    summary.setup.reference = "http-server/uring".to_owned();
    for workload in summary.setup.workloads.iter_mut().filter(|w| ["get-128B-c64", "pipelined-16"].contains(&&*w.name))
    {
        workload.keys = Some(1_000_000);
        workload.preload = Some("loadgen kv --workload preload ADDR".to_owned());
        workload.allows_misses = workload.name == "pipelined-16";
    }
    for (row, result) in summary.results.iter_mut().enumerate() {
        if let Outcome::Measured(figures) = &mut result.outcome {
            let bytes = 51.0 + row as f64;
            figures.bytes_per_key = (result.workload == "get-128B-c64").then_some(Interval {
                median: bytes,
                lo: bytes - 1.0,
                hi: bytes + 1.0,
            });
            figures.hit_ratio =
                (result.workload == "pipelined-16").then_some(Interval { median: 0.75, lo: 0.74, hi: 0.76 });
        }
    }
    summary
}

/// More of everything than fits: long names, twice the workloads, every flag, thirty blocks, great and small ratios.
pub(crate) fn crowded() -> Summary {
    let mut summary = summary();
    for cell in &mut summary.setup.cells {
        cell.label = format!("{}/dashmap/allkeys-lru/gzip", cell.label);
    }
    let more = summary.setup.workloads.clone().into_iter().map(|w| Workload { name: again(&w.name), ..w });
    summary.setup.workloads.extend(more);
    let more = summary.results.clone().into_iter().map(|r| CellResult { workload: again(&r.workload), ..r });
    summary.results.extend(more);
    let all = [Flag::ClientSaturated, Flag::Lag, Flag::Noisy, Flag::ServerSaturated];
    for (i, result) in summary.results.iter_mut().enumerate() {
        if let Outcome::Measured(figures) = &mut result.outcome {
            figures.flags = all[..i % 5].iter().map(|&flag| FlagCount { flag, visits: 1 }).collect();
            if i % 3 == 0 && result.cell != summary.setup.reference {
                figures.cpu_ratio = Some(ratio(0.01 * 10f64.powi(i as i32 % 5), 20.0, 1.0));
            }
        }
    }
    for effect in &mut summary.effects {
        effect.level = again(&effect.level);
        effect.cpu = ratio(effect.cpu.median.powi(5), 20.0, 2.4);
    }
    for drift in &mut summary.drift {
        drift.aa_ratio =
            (0..30).map(|block| BlockValue { block, value: 1.0 + 0.3 * wobble(block as usize, 5) }).collect();
    }
    summary
}

fn again(name: &str) -> String {
    format!("{name}-once-more-with-a-long-name")
}
