//! A server in another network namespace, at the far end of a veth pair: what `--server-exec` is for, without a second
//! host.

use std::{
    net::IpAddr,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;
use results::{Cell, Role};

use crate::{
    plan::{
        cells::Cells,
        cpus::CpuList,
        subjects::{self, Timing},
    },
    run::{interrupt::Interrupts, machine::Machine, site::Scratch, visit::Bench},
    samples,
};

/// Two ends of a wire, one of them in a namespace of its own; gone when dropped.
struct Wire {
    namespace: String,
    near: String,
    far_address: IpAddr,
}

impl Wire {
    fn new() -> Result<Self> {
        static WIRES: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), WIRES.fetch_add(1, Ordering::Relaxed));
        // At most 15 characters for an interface.
        let (namespace, near, far) =
            (format!("quintet-{id}-{number}"), format!("qn{id}-{number}"), format!("qf{id}-{number}"));
        // 198.18.0.0/15 is for benchmarks of network devices (RFC 2544): nobody's.
        let network = format!("198.18.{}", (2 * id + number) % 256);
        let wire = Self { namespace, near, far_address: format!("{network}.2").parse()? };
        let Self { namespace, near, .. } = &wire;
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", near, "type", "veth", "peer", "name", &far, "netns", namespace])?;
        ip(&["address", "add", &format!("{network}.1/30"), "dev", near])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["-n", namespace, "address", "add", &format!("{network}.2/30"), "dev", &far])?;
        ip(&["-n", namespace, "link", "set", &far, "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        Ok(wire)
    }

    fn received_packets(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/rx_packets", self.near);
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // With the namespace its end of the wire goes, and the other one with it; either may not have come to be.
        drop(ip(&["netns", "delete", &self.namespace]));
        drop(ip(&["link", "delete", &self.near]));
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output().context("ip")?;
    if !output.status.success() {
        bail!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The directory of built programs, if all that are needed are there; otherwise why not has been said.
fn binaries() -> Result<Option<PathBuf>> {
    let exe = std::env::current_exe()?;
    // Tests lie in deps/, one below.
    let beside = exe.parent().context("no directory")?;
    for program in ["loadgen", "http-server", "kvcache"] {
        if testkit::workspace_program(beside, program)?.is_none() {
            return Ok(None);
        }
    }
    if !geteuid().is_root() {
        let why = "network namespaces need root";
        if std::env::var_os("QUINTET_PEERS").is_some_and(|value| value == "required") {
            bail!("{why}, and QUINTET_PEERS=required");
        }
        eprintln!("skipped: {why}");
        return Ok(None);
    }
    Ok(testkit::installed_program("ip")?.and_then(|_| beside.parent().map(PathBuf::from)))
}

fn bench(binaries: &std::path::Path, wire: &Wire) -> Bench {
    let scratch = Scratch::new().unwrap();
    Bench {
        scratch,
        loadgen: binaries.join("loadgen"),
        binaries: binaries.to_path_buf(),
        timing: Timing { slice_s: 1.0, warmup_s: 0.2, max_warmup_s: None, client_cpus: "0".into(), client_threads: 1 },
        machine: Machine::Remote(["ip", "netns", "exec", &wire.namespace].map(str::to_owned).to_vec()),
        host: wire.far_address,
        agents: Vec::new(),
        histograms: None,
        turns: [].into(),
        checked: std::cell::RefCell::default(),
        interrupts: Interrupts::default(),
    }
}

#[test]
fn agents_share_the_load_of_a_visit() {
    let Some(binaries) = binaries().unwrap() else { return };
    let wire = Wire::new().unwrap();
    let cpus = CpuList::parse("0").unwrap();
    let visit = |server: &str, workload: &str, agents: [&str; 2]| {
        let cells = Cells::ask(subjects::named(server).unwrap(), &binaries, &cpus, None).unwrap();
        let base = bench(&binaries, &wire);
        let timing = Timing { slice_s: 0.5, ..base.timing.clone() };
        let bench = Bench { agents: agents.map(str::to_owned).to_vec(), timing, ..base };
        let workload = &subjects::select(cells.subject, &[workload.to_owned()], &bench.timing, true)[0];
        let attempt = bench.visit(&cells, &cells.reference().unwrap(), workload).unwrap();
        (attempt, std::fs::read_to_string(bench.scratch.path().join("loadgen.log")).unwrap())
    };
    // One on each side of the wire.
    let there = format!("ip netns exec {}", wire.namespace);
    // The keys of a cache are stored without agents, and then both ask for them.
    for (server, workload) in [("http-server", "get-128B-c64"), ("kvcache", "get-P16")] {
        let (attempt, said) = visit(server, workload, ["env", &there]);
        assert_eq!(attempt.failure, None, "{server}");
        let measured = attempt.measured.unwrap();
        assert!(measured.ok > 0 && measured.errors.is_empty() && measured.server.is_some(), "{measured:?}");
        assert_eq!(measured.bytes_per_key.is_some(), server == "kvcache", "{measured:?}");
        assert!(said.contains("timelines are left out"), "two results were merged: {said}");
    }
    let (attempt, _) = visit("http-server", "get-128B-c64", ["env", "false"]);
    let failure = attempt.failure.unwrap();
    assert!(failure.contains("agent `false`"), "{failure}");
}

#[test]
fn a_server_in_a_namespace_is_measured_and_ends() {
    let Some(binaries) = binaries().unwrap() else { return };
    let wire = Wire::new().unwrap();
    let bench = bench(&binaries, &wire);
    let subject_of = |server: &str| subjects::named(server).unwrap();
    for (server, workload) in [("http-server", "get-128B-c64"), ("kvcache", "mc-text-get-P100")] {
        let cpus = CpuList::parse("0").unwrap();
        let cells = Cells::ask(subject_of(server), &binaries, &cpus, None).unwrap();
        let workload = &subjects::select(cells.subject, &[workload.to_owned()], &bench.timing, true)[0];
        let reference = cells.reference().unwrap();
        let null = Cell { server: "loadgen".to_owned(), ..samples::cell("null", Role::Null, None) };
        let mut visited = vec![reference];
        visited.extend(cells.subject.answers(Role::Null, "loadgen", workload).then_some(null));
        for cell in visited {
            let before = wire.received_packets();
            let attempt = bench.visit(&cells, &cell, workload).unwrap();
            assert_eq!(attempt.failure, None, "{}", cell.id);
            let measured = attempt.measured.unwrap();
            assert!(measured.ok > 0 && measured.errors.is_empty(), "{measured:?}");
            let cost = measured.server.unwrap();
            assert!(cost.cpu_us > 0.0 && cost.rss_bytes > 0, "{cost:?}");
            let process = measured.process.unwrap();
            assert!((cost.cpu_us * measured.ok as f64 / 1e6 - process.cpu_s).abs() < 1e-9, "{cost:?} {process:?}");
            assert!(process.cpu_s < process.elapsed_s + 0.05, "one core was all it had: {process:?}");
            // Replies travel over the wire; loopback has no such counter. 64 KiB is the largest packet there is.
            let packets = wire.received_packets() - before;
            assert!(packets > measured.bytes_in / 65_536, "{packets} for {} bytes", measured.bytes_in);
        }
    }
    let running = || Command::new("ip").args(["netns", "pids", &wire.namespace]).output().unwrap().stdout;
    // The shell that waited for our end is told to go, not waited for.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !running().is_empty() {
        assert!(Instant::now() < deadline, "still running there: {}", String::from_utf8_lossy(&running()));
        std::thread::sleep(Duration::from_millis(10));
    }
    let namespace = wire.namespace.clone();
    drop(wire);
    let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&left.stdout).contains(&namespace));
}
