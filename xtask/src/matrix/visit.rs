//! One visit: a fresh server, one run of the generator, and what both and the machine did meanwhile.

use std::ffi::OsString;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use loadgen::result::{Latency as RunLatency, RunResult};

use super::cells::Cells;
use super::cpus::CpuList;
use super::host::{Reading, tick_error};
use super::interrupt::Interrupts;
use super::kinds::{self, Target, Timing};
use super::model::{Arrivals, Cell, Flag, Pinning, Role, Workload};
use super::peers::{self, Place};
use super::process::Process;
use super::record::{HostDuring, Latency, Measured, ServerCost};
use super::site::Scratch;

/// How much longer than expected a load may take, where its length is a number of requests.
const LOAD_SLOW: f64 = 4.0;
/// And how much beyond that: thousands of connections are opened first.
const LOAD_SPARE: Duration = Duration::from_secs(30);
const INTERRUPT_POLL: Duration = Duration::from_millis(50);
const STEAL_MAX: f64 = 0.01;
const FOREIGN_MAX: f64 = 0.05;
const CLIENT_BUSY_MAX: f64 = 0.90;
const SERVER_BUSY_MAX: f64 = 0.95;
/// Part of the offered load that must have been served.
const OFFERED_MIN: f64 = 0.98;

/// Everything a visit needs besides what it visits.
pub(crate) struct Bench {
    pub(crate) scratch: Scratch,
    pub(crate) loadgen: PathBuf,
    /// Where what was built lies.
    pub(crate) binaries: PathBuf,
    pub(crate) timing: Timing,
    pub(crate) server_cpus: CpuList,
    pub(crate) pinning: Pinning,
    pub(crate) interrupts: Interrupts,
}

/// What came of a visit.
pub(crate) struct Attempt {
    pub(crate) measured: Option<Measured>,
    pub(crate) host: HostDuring,
    pub(crate) flags: Vec<Flag>,
    pub(crate) failure: Option<String>,
}

impl Attempt {
    fn failed(error: &anyhow::Error) -> Self {
        let failure = Some(format!("{error:#}"));
        Self { measured: None, host: HostDuring::default(), flags: vec![Flag::Failed], failure }
    }
}

impl Bench {
    /// Makes one visit; `None` when the user asked to stop at once.
    pub(crate) fn visit(&self, cells: &Cells, cell: &Cell, workload: &Workload) -> Option<Attempt> {
        let outcome = self.start_server(cells, cell, workload).and_then(|(mut server, address)| {
            let load = self.fill_and_load(cells, cell.role, workload, &server, &address);
            let load = load.map_err(|error| match server.how_it_ended() {
                Some(end) => error.context(end),
                None => error,
            })?;
            let Some((bytes_per_key, run, host)) = load else { return Ok(None) };
            // What was measured is kept in the file, but a server of ours that does not stop cleanly has failed. How a
            // peer reports its end is its own affair (lighttpd: 1 when connections were still closing).
            let end = if cell.role == Role::Peer { server.terminate().map(drop) } else { server.stop() };
            Ok(Some((bytes_per_key, run, host, end.err())))
        });
        let attempt = match outcome {
            Ok(None) => return None,
            Err(_) if self.interrupts.are_urgent() => return None,
            Err(error) => Attempt::failed(&error),
            Ok(Some((bytes_per_key, run, host, stop_error))) => {
                let measured = Measured { bytes_per_key, ..measured(&run, workload, self.server_cpus.len()) };
                let mut flags = self.flags(workload, &measured, &host, run.duration_s);
                if stop_error.is_some() {
                    flags.push(Flag::Failed);
                }
                let failure = stop_error.map(|error| format!("{error:#}"));
                Attempt { measured: Some(measured), host, flags, failure }
            }
        };
        Some(attempt)
    }

    fn start_server(&self, cells: &Cells, cell: &Cell, workload: &Workload) -> Result<(Process, String)> {
        let log = self.scratch.path().join("server.log");
        let start = |command: &[OsString], stdout| Process::start(command, self.server_cpus.as_slice(), &log, stdout);
        if let Some(peer) = cells.peer(cell) {
            let address = free_address()?;
            let (site, scratch) = (&self.scratch.site(), self.scratch.path());
            let place = Place { address, site, scratch, workload, binaries: &self.binaries };
            let mut server = start(&peers::command(peer, &place)?, Stdio::null())?;
            server.wait_for_accept(address)?;
            return Ok((server, address.to_string()));
        }
        let command = cells.command(cell, workload, &self.scratch.site(), &self.loadgen)?;
        let mut server = start(&command, Stdio::piped())?;
        let listener = if cell.role == Role::Null { 0 } else { cells.kind.listener(workload) };
        let address = server.wait_for_ready_line(listener)?;
        Ok((server, address))
    }

    /// Stores the keys or checks the documents if the workload has some, then measures; `None` when the user asked to stop at once.
    fn fill_and_load(
        &self,
        cells: &Cells,
        role: Role,
        workload: &Workload,
        server: &Process,
        address: &str,
    ) -> Result<Option<(Option<f64>, RunResult, HostDuring)>> {
        let site = self.scratch.site();
        let target = Target { workload, role, address, site: &site.to_string_lossy() };
        let mut bytes_per_key = None;
        // The null server keeps nothing, and has one document for all.
        if let Some(prepared) = workload.prepared().filter(|_| role != Role::Null) {
            let empty = server.resident_bytes()?;
            let arguments = cells.kind.preload_arguments(&target, &self.timing);
            let prepare_s = cells.kind.preload_s(workload);
            let Some(run) = self.generate(&arguments, prepare_s).context("before the load")? else { return Ok(None) };
            if run.ok < u64::from(prepared) {
                bail!("{} of {prepared} keys were stored or documents right: {:?}", run.ok, run.errors);
            }
            let added = server.resident_bytes()?.saturating_sub(empty);
            let is_kept = workload.keys.is_some() && !workload.allows_misses;
            bytes_per_key = is_kept.then(|| added as f64 / f64::from(prepared));
        }
        let pid = server.pid().to_string();
        let arguments = kinds::arguments(cells.kind, &target, &self.timing, &pid);
        let before = Reading::take(server.pid())?;
        let began = Instant::now();
        let load_s = cells.kind.load_s(workload, self.timing.slice_s, self.timing.warmup_s);
        let Some(run) = self.generate(&arguments, load_s)? else { return Ok(None) };
        let host = Reading::take(server.pid())?.since(&before, began.elapsed());
        Ok(Some((bytes_per_key, run, host)))
    }

    /// Runs the generator, which is expected to take so many seconds, to its end; `None` when the user asked to stop at once.
    fn generate(&self, arguments: &[String], expected_s: f64) -> Result<Option<RunResult>> {
        let words = arguments.iter().map(OsString::from);
        let command: Vec<OsString> = std::iter::once(self.loadgen.clone().into_os_string()).chain(words).collect();
        let log = self.scratch.path().join("loadgen.log");
        // The generator pins its own threads.
        let mut generator = Process::start(&command, &self.all_cpus()?, &log, Stdio::piped())?;
        let Some(output) = self.output_of(&mut generator, expected_s)? else { return Ok(None) };
        let status = generator.wait_until(|| self.interrupts.are_urgent())?;
        let Some(status) = status else { return Ok(None) };
        // 3 is "some requests failed": the result says which.
        if !matches!(status.code(), Some(0 | 3)) {
            bail!("loadgen ended with {status}{}", generator.quote());
        }
        let run = serde_json::from_str(&output).with_context(|| format!("loadgen's result{}", generator.quote()))?;
        Ok(Some(run))
    }

    /// All of the generator's standard output, or `None` when the user asked to stop at once.
    fn output_of(&self, generator: &mut Process, expected_s: f64) -> Result<Option<String>> {
        let deadline = Instant::now() + Duration::from_secs_f64(expected_s * LOAD_SLOW) + LOAD_SPARE;
        let mut stdout = generator.take_stdout()?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let outcome = stdout.read_to_string(&mut text).map(|_| text);
            // Nobody listens any more after an interrupt or the deadline.
            drop(sender.send(outcome));
        });
        loop {
            match receiver.recv_timeout(INTERRUPT_POLL) {
                Ok(text) => return Ok(Some(text.context("loadgen's output")?)),
                Err(RecvTimeoutError::Disconnected) => bail!("loadgen's output was lost"),
                Err(RecvTimeoutError::Timeout) if self.interrupts.are_urgent() => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(anyhow!("loadgen did not end in time{}", generator.quote()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn all_cpus(&self) -> Result<Vec<usize>> {
        Ok(CpuList::parse(&self.timing.client_cpus)?.as_slice().to_vec())
    }

    fn flags(&self, workload: &Workload, measured: &Measured, host: &HostDuring, measured_s: f64) -> Vec<Flag> {
        let mut flags = Vec::new();
        let mut raise = |flag, is_raised| flags.extend(Some(flag).filter(|_| is_raised));
        let server_busy = measured.server.map_or(0.0, |server| server.busy);
        let is_late = match workload.arrivals {
            Arrivals::Closed => false,
            Arrivals::Open { rate_rps, .. } => measured.throughput_rps < OFFERED_MIN * rate_rps,
        };
        // What the sampling of /proc/stat can be wrong by is not foreign.
        let elapsed = Duration::from_secs_f64(self.timing.warmup_s + measured_s);
        let foreign_max = FOREIGN_MAX + tick_error(elapsed).as_secs_f64() / elapsed.as_secs_f64();
        raise(Flag::Errors, measured.ok < measured.requests || measured.ok == 0);
        // An open loop may spin until the next request is due; whether it kept up is what `lag` says.
        let is_closed = workload.arrivals == Arrivals::Closed;
        raise(
            Flag::ClientSaturated,
            is_closed && measured.client_busy > CLIENT_BUSY_MAX && server_busy < CLIENT_BUSY_MAX,
        );
        raise(Flag::Lag, is_late && server_busy <= SERVER_BUSY_MAX);
        raise(Flag::Noisy, host.steal > STEAL_MAX || host.foreign > foreign_max);
        raise(Flag::SharedCore, self.pinning.shared);
        raise(Flag::ServerSaturated, server_busy > SERVER_BUSY_MAX);
        flags
    }
}

/// A port that was free a moment ago, for servers that cannot pick one themselves.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
    listener.local_addr().context("no free port")
}

fn measured(run: &RunResult, workload: &Workload, server_cores: usize) -> Measured {
    let requests = (run.ok as f64).max(1.0);
    let per_request_us = |seconds: f64| seconds * 1e6 / requests;
    let latency = |latency: &RunLatency, histogram: &str| Latency {
        mean: latency.mean,
        p50: latency.p50,
        p90: latency.p90,
        p99: latency.p99,
        p999: latency.p999,
        max: latency.max,
        histogram: histogram.to_owned(),
    };
    let first = latency(&run.latency_us, &run.histogram);
    let (response, service) = match workload.arrivals {
        Arrivals::Closed => (None, Some(first)),
        Arrivals::Open { .. } => {
            let service = run.service_us.as_ref().zip(run.service_histogram.as_deref());
            (Some(first), service.map(|(service, histogram)| latency(service, histogram)))
        }
    };
    Measured {
        duration_s: run.duration_s,
        requests: run.requests,
        ok: run.ok,
        errors: run.errors.clone(),
        reconnects: run.reconnects,
        bytes_in: run.bytes_in,
        bytes_out: run.bytes_out,
        throughput_rps: run.throughput_rps,
        server: run.server.map(|server| ServerCost {
            cpu_us: per_request_us(server.cpu_s),
            user_us: per_request_us(server.user_s),
            system_us: per_request_us(server.system_s),
            busy: server.cpu_s / (run.duration_s * server_cores as f64),
            rss_bytes: server.rss_bytes,
            context_switches_voluntary: server.context_switches_voluntary,
            context_switches_involuntary: server.context_switches_involuntary,
        }),
        client_cpu_us: per_request_us(run.client_cpu_s),
        client_busy: run.saturation.client_cpu_fraction,
        response,
        service,
        bytes_per_key: None,
        hit_ratio: hit_ratio(run).filter(|_| workload.allows_misses),
        note: run.saturation.note.clone(),
    }
}

/// Keys found among those asked for; `None` where nothing was asked for.
fn hit_ratio(run: &RunResult) -> Option<f64> {
    let (hits, misses) = (run.hits? as f64, run.misses? as f64);
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}
