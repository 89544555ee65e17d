//! The loads: what is asked for, over how many connections, and by which rule the next request is sent.

use std::ffi::OsString;
use std::path::Path;

use super::model::{Arrivals, Cell, Role, Workload};
use super::site;

/// Fraction of the reference's capacity that the open loop offers to every cell.
pub(crate) const OPEN_FRACTION: f64 = 0.5;
/// The closed workload that the open one is calibrated with.
pub(crate) const CALIBRATION: &str = "get-128B-c64";
/// Descriptors that a server needs besides its connections.
const SPARE_DESCRIPTORS: u64 = 200;
/// Connections beyond which a thread or a worker per connection is not a sensible thing to measure.
const THREADS_MAX: u32 = 1024;

/// A row of the table below.
struct Spec {
    name: &'static str,
    title: &'static str,
    short: [&'static str; 2],
    body_bytes: u64,
    connections: u32,
    pipeline: u32,
    is_open: bool,
    is_quick: bool,
}

const SPECS: [Spec; 6] = [
    Spec {
        name: CALIBRATION,
        title: "128-byte file, 64 connections",
        short: ["128 B", "c64"],
        body_bytes: 128,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_quick: true,
    },
    Spec {
        name: "get-128B-c64-open",
        title: "128-byte file, 64 connections, the same offered load for all",
        short: ["128 B", "open"],
        body_bytes: 128,
        connections: 64,
        pipeline: 1,
        is_open: true,
        is_quick: true,
    },
    Spec {
        name: "get-26KB-c64",
        title: "26,510-byte file, 64 connections",
        short: ["26 KB", "c64"],
        body_bytes: 26_510,
        connections: 64,
        pipeline: 1,
        is_open: false,
        is_quick: true,
    },
    Spec {
        name: "get-1MiB-c16",
        title: "1 MiB file, 16 connections",
        short: ["1 MiB", "c16"],
        body_bytes: 1 << 20,
        connections: 16,
        pipeline: 1,
        is_open: false,
        is_quick: true,
    },
    Spec {
        name: "pipelined-16",
        title: "128-byte file, 64 connections, 16 requests outstanding on each",
        short: ["128 B", "piped 16"],
        body_bytes: 128,
        connections: 64,
        pipeline: 16,
        is_open: false,
        is_quick: true,
    },
    Spec {
        name: "conns-9000",
        title: "128-byte file, 9,000 connections",
        short: ["128 B", "c9000"],
        body_bytes: 128,
        connections: 9_000,
        pipeline: 1,
        is_open: false,
        is_quick: false,
    },
];

/// How the load is timed and placed; the same for all workloads of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) slice_s: f64,
    pub(crate) warmup_s: f64,
    pub(crate) client_cpus: String,
    pub(crate) client_threads: usize,
}

pub(crate) fn names() -> Vec<String> {
    SPECS.iter().map(|spec| spec.name.to_owned()).collect()
}

pub(crate) fn quick_names() -> Vec<String> {
    SPECS.iter().filter(|spec| spec.is_quick).map(|spec| spec.name.to_owned()).collect()
}

/// The workloads so named, in the order of the table; the open loop's rate is still to be calibrated.
pub(crate) fn select(names: &[String], timing: &Timing) -> Vec<Workload> {
    let selected = SPECS.iter().filter(|spec| names.iter().any(|name| name == spec.name));
    selected
        .map(|spec| {
            let arrivals = if spec.is_open {
                Arrivals::Open { rate_rps: 0.0, fraction: OPEN_FRACTION, capacity_rps: 0.0 }
            } else {
                Arrivals::Closed
            };
            let mut workload = Workload {
                name: spec.name.to_owned(),
                title: spec.title.to_owned(),
                short: spec.short.map(str::to_owned),
                body_bytes: spec.body_bytes,
                connections: spec.connections,
                pipeline: spec.pipeline,
                arrivals,
                command: String::new(),
            };
            workload.command = shown_command(&workload, timing);
            workload
        })
        .collect()
}

/// Sets the load that the open workloads offer, from the reference's capacity.
pub(crate) fn calibrate(workloads: &mut [Workload], capacity_rps: f64, timing: &Timing) {
    for workload in workloads {
        if let Arrivals::Open { fraction, .. } = workload.arrivals {
            // A round figure is easier to compare between runs.
            let rate_rps = (capacity_rps * fraction / 1_000.0).round().max(1.0) * 1_000.0;
            workload.arrivals = Arrivals::Open { rate_rps, fraction, capacity_rps };
            workload.command = shown_command(workload, timing);
        }
    }
}

/// The generator's arguments against the server `pid` at `address`.
pub(crate) fn arguments(workload: &Workload, timing: &Timing, address: &str, pid: &str) -> Vec<String> {
    let mut words = vec!["http".to_owned()];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("-c", workload.connections.to_string());
    flag("-t", timing.client_threads.to_string());
    if workload.pipeline > 1 {
        flag("-P", workload.pipeline.to_string());
    }
    if let Arrivals::Open { rate_rps, .. } = workload.arrivals {
        flag("-R", rate_rps.to_string());
    }
    flag("-d", milliseconds(timing.slice_s));
    flag("--warmup", milliseconds(timing.warmup_s));
    flag("--pin", timing.client_cpus.clone());
    flag("--format", "json".to_owned());
    flag("--server-pid", pid.to_owned());
    words.push(format!("http://{address}/{}", site::file_name(workload.body_bytes)));
    words
}

pub(crate) fn command(loadgen: &Path, workload: &Workload, timing: &Timing, address: &str, pid: u32) -> Vec<OsString> {
    let arguments = arguments(workload, timing, address, &pid.to_string());
    std::iter::once(loadgen.into()).chain(arguments.into_iter().map(OsString::from)).collect()
}

fn shown_command(workload: &Workload, timing: &Timing) -> String {
    format!("loadgen {}", arguments(workload, timing, "ADDR", "PID").join(" "))
}

fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1_000.0).round())
}

/// Why `cell` cannot run `workload` here, if it cannot. `is_quick` leaves some peers out to keep the time.
pub(crate) fn cannot_run(cell: &Cell, workload: &Workload, open_files: u64, is_quick: bool) -> Option<String> {
    let connections = workload.connections;
    if u64::from(connections) + SPARE_DESCRIPTORS > open_files {
        return Some(format!("{connections} connections need more than the {open_files} open files allowed here"));
    }
    if connections > THREADS_MAX {
        match cell.factors.get("driver").map(String::as_str) {
            Some("blocking") => return Some(format!("a thread per connection: {connections} threads")),
            Some("pool") => return Some(format!("a worker per connection: {connections} workers")),
            _ => {}
        }
    }
    (is_quick && cell.role == Role::Peer && (workload.body_bytes != 128 || workload.pipeline > 1))
        .then(|| "left out of a quick run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing() -> Timing {
        Timing { slice_s: 0.5, warmup_s: 0.3, client_cpus: "1".into(), client_threads: 1 }
    }

    fn cell(role: Role, driver: Option<&str>) -> Cell {
        Cell {
            id: "x".into(),
            label: "x".into(),
            role,
            server: "x".into(),
            factors: driver.map(|driver| ("driver".to_owned(), driver.to_owned())).into_iter().collect(),
            description: String::new(),
            version: None,
            command: String::new(),
            config: None,
        }
    }

    #[test]
    fn every_file_that_is_asked_for_is_on_the_site_and_names_are_unique() {
        for spec in &SPECS {
            assert!(site::SIZES.contains(&spec.body_bytes), "{}", spec.name);
            assert_eq!(SPECS.iter().filter(|other| other.name == spec.name).count(), 1);
        }
        assert_eq!(quick_names().len(), 5);
    }

    #[test]
    fn the_generator_is_asked_for_exactly_the_workload() {
        let mut workloads = select(&["pipelined-16".into(), "get-128B-c64-open".into()], &timing());
        calibrate(&mut workloads, 250_400.0, &timing());
        assert_eq!(
            workloads[0].command,
            "loadgen http -c 64 -t 1 -R 125000 -d 500ms --warmup 300ms --pin 1 --format json --server-pid PID http://ADDR/128.txt"
        );
        assert_eq!(
            workloads[1].command,
            "loadgen http -c 64 -t 1 -P 16 -d 500ms --warmup 300ms --pin 1 --format json --server-pid PID http://ADDR/128.txt"
        );
        assert_eq!(
            workloads[0].arrivals,
            Arrivals::Open { rate_rps: 125_000.0, fraction: OPEN_FRACTION, capacity_rps: 250_400.0 }
        );
    }

    #[test]
    fn what_cannot_run_says_why() {
        let workloads = select(&names(), &timing());
        let many = workloads.last().unwrap();
        let reason = |cell: &Cell, workload: &Workload, files, quick| cannot_run(cell, workload, files, quick);
        assert!(reason(&cell(Role::Ours, Some("epoll")), many, 20_000, false).is_none());
        assert!(reason(&cell(Role::Ours, Some("epoll")), many, 9_000, false).unwrap().contains("open files"));
        assert!(reason(&cell(Role::Ours, Some("pool")), many, 20_000, false).unwrap().contains("worker per"));
        assert!(reason(&cell(Role::Ours, Some("blocking")), many, 20_000, false).unwrap().contains("thread per"));
        assert!(reason(&cell(Role::Ours, Some("pool")), &workloads[0], 20_000, true).is_none());
        assert!(reason(&cell(Role::Peer, None), &workloads[0], 20_000, true).is_none());
        assert!(reason(&cell(Role::Peer, None), &workloads[2], 20_000, true).unwrap().contains("quick"));
    }
}
