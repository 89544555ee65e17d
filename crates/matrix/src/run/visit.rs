//! One visit: a fresh server, one run of the generator, and what both and the machine did meanwhile.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use loadgen::result::{Latency as RunLatency, RunResult};
use results::{
    Arrivals, Cell, Flag, Role, Workload,
    record::{HostDuring, Latency, Measured, ProcessDuring, ServerCost, TurnFigures},
};

use crate::{
    judge::{flags, load_sweep, windows},
    plan::{
        cells::Cells,
        cpus::CpuList,
        peers::{self, PeerContext},
        subjects::{self, Target, Timing},
    },
    run::{
        host::Reading, interrupt::Interrupts, machine::Machine, pair::BesideReference, probe::Snapshot,
        process::Process, site::Scratch,
    },
};

/// Ports at which a server behind a prefix may be told to listen, below the ports that connections take, and how many are tried.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
const PORTS_TRIED: u32 = 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Everything a visit needs besides what it visits.
pub(crate) struct Bench {
    pub(crate) scratch: Scratch,
    pub(crate) loadgen: PathBuf,
    /// Directory of what was built.
    pub(crate) binaries: PathBuf,
    pub(crate) timing: Timing,
    /// Machine of the servers, and the address at which they listen.
    pub(crate) machine: Machine,
    pub(crate) host: IpAddr,
    /// Commands that reach the machines of the generator's agents; without any it is here.
    pub(crate) agents: Vec<String>,
    /// Directory in which the generator leaves its histograms, if they are wanted.
    pub(crate) histograms: Option<PathBuf>,
    /// Turns beside the reference, by server.
    pub(crate) turns: BTreeMap<String, BesideReference>,
    pub(crate) interrupts: Interrupts,
    /// Cells and workloads of which answers have been checked, where once is enough.
    pub(crate) checked: RefCell<BTreeSet<(String, String)>>,
}

/// Outcome of a visit.
pub(crate) struct Attempt {
    pub(crate) ready_s: Option<f64>,
    pub(crate) measured: Option<Measured>,
    pub(crate) host: HostDuring,
    pub(crate) flags: Vec<Flag>,
    pub(crate) failure: Option<String>,
}

impl Attempt {
    fn failed(error: &anyhow::Error) -> Self {
        let failure = Some(format!("{error:#}"));
        Self { ready_s: None, measured: None, host: HostDuring::default(), flags: vec![Flag::Failed], failure }
    }
}

impl Bench {
    /// Makes one visit; `None` when the user asked to stop at once.
    pub(crate) fn visit(&self, cells: &Cells, cell: &Cell, workload: &Workload) -> Option<Attempt> {
        let (began, mut ready_s) = (Instant::now(), None);
        let outcome = self.start_server(cells, cell, workload, &[]).and_then(|(mut server, address)| {
            ready_s = Some(began.elapsed().as_secs_f64());
            let load = self.fill_and_load(cells, cell, workload, &server, &address);
            let load = load.map_err(|error| match server.how_it_ended() {
                Some(end) => error.context(end),
                None => error,
            })?;
            let Some(loaded) = load else { return Ok(None) };
            // What was measured is kept in the file, but a server of ours that does not stop cleanly has failed. How a
            // peer reports its end is its own affair (lighttpd: 1 when connections were still closing).
            let end = if cell.role == Role::Peer { server.terminate().map(drop) } else { server.stop() };
            Ok(Some((loaded, end.err())))
        });
        let attempt = match outcome {
            Ok(None) => return None,
            Err(_) if self.interrupts.are_urgent() => return None,
            Err(error) => Attempt { ready_s, ..Attempt::failed(&error) },
            Ok(Some((loaded, stop_error))) => {
                let cpus = cells.cpus_of(&cell.factors);
                let head_bytes = cells.subject.head_bytes(workload, &loaded.run);
                let measured = Measured { head_bytes, ..self.measured(&loaded, workload, cpus.len()) };
                let host = loaded.host;
                let warmup_s = loaded.run.warmup_s.unwrap_or(self.timing.warmup_s);
                let elapsed = Duration::from_secs_f64(warmup_s + loaded.run.duration_s);
                let mut flags = flags::of(workload, &measured, &host, elapsed);
                let client = CpuList::parse(&self.timing.client_cpus).ok();
                let is_elsewhere = matches!(self.machine, Machine::Remote(_));
                if !is_elsewhere && client.is_some_and(|client| client.shares_with(&cpus)) {
                    flags.push(Flag::SharedCore);
                }
                if stop_error.is_some() {
                    flags.push(Flag::Failed);
                }
                let failure = stop_error.map(|error| format!("{error:#}"));
                Attempt { ready_s, measured: Some(measured), host, flags, failure }
            }
        };
        Some(attempt)
    }

    /// Asks a cell for what it has to deliver, without a load. `None` when the user asked to stop at once.
    ///
    /// # Errors
    /// It delivers less or other than it must, or does not serve.
    pub(crate) fn check(&self, cells: &Cells, cell: &Cell, workload: &Workload) -> Result<Option<()>> {
        let (server, address) = self.start_server(cells, cell, workload, &[])?;
        let filled = self.fill(cells, cell, workload, &server, &address)?;
        drop(server.terminate());
        Ok(filled.map(drop))
    }

    /// The standard error of the last server.
    pub(super) fn server_log(&self) -> PathBuf {
        self.scratch.path().join("server.log")
    }

    /// `wrapper`: what the server is started with in front of it, or nothing.
    pub(super) fn start_server(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        wrapper: &[OsString],
    ) -> Result<(Process, String)> {
        self.start_logged(cells, cell, workload, wrapper, &self.server_log())
    }

    /// The same with its standard error in `log`.
    pub(crate) fn start_logged(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        wrapper: &[OsString],
        log: &Path,
    ) -> Result<(Process, String)> {
        let cpus = cells.cpus_of(&cell.factors);
        let start = |command: &[OsString], stdout| {
            let command = [wrapper, command].concat();
            match &self.machine {
                Machine::Here => Process::start(&command, cpus.as_slice(), log, stdout),
                Machine::Remote(prefix) => Process::start_remote(prefix, &command, cpus.as_slice(), log),
            }
        };
        if let Some(peer) = cells.peer(cell) {
            let address = self.free_address()?;
            let (site, scratch) = (&self.scratch.site(), self.scratch.path());
            let place = PeerContext { address, site, scratch, workload, binaries: &self.binaries };
            let mut server = start(&peers::command(peer, &place)?, Stdio::null())?;
            server.wait_for_accept(address)?;
            return Ok((server, address.to_string()));
        }
        let site = self.scratch.site();
        let command = cells.command(cell, workload, &site, &self.loadgen)?;
        let command = cells.subject.apart(command, &site.to_string_lossy());
        let mut server = start(&subjects::listening_at(command, self.host), Stdio::piped())?;
        let listener = if cell.role == Role::Null { 0 } else { cells.subject.listener(workload) };
        let address = match wrapper {
            [] => server.wait_for_ready_line(listener)?,
            _ => server.wait_for_wrapped_ready_line(listener)?,
        };
        // Of a TLS address it has the scheme.
        let address = address.split_once("://").map_or(address.as_str(), |(_, address)| address);
        Ok((server, address.to_owned()))
    }

    /// Stores the keys or checks the documents if the workload has some, then measures; `None` when the user asked to stop at once.
    fn fill_and_load(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        server: &Process,
        address: &str,
    ) -> Result<Option<Loaded>> {
        let load_s = cells.subject.load_s(workload, self.timing.slice_s, self.timing.longest_warmup_s());
        let Some(bytes_per_key) = self.fill_once(cells, cell, workload, server, address)? else { return Ok(None) };
        let mut arguments = match &self.machine {
            Machine::Here => self.load_arguments(cells, cell, workload, address, server),
            // The generator cannot see the process, so its CPU time is read before and after the run: the warm-up is a
            // run of its own.
            Machine::Remote(_) => {
                if workload.repetitions.is_none() {
                    let timing = Timing { slice_s: self.timing.warmup_s, warmup_s: 0.0, ..self.timing.clone() };
                    let arguments = self.blind_arguments(cells, cell, workload, address, &timing);
                    // A short one may end before the first reply, which is an error; a real one comes back below.
                    if matches!(self.generate(&arguments, load_s), Ok(None)) {
                        return Ok(None);
                    }
                }
                let timing = Timing { warmup_s: 0.0, ..self.timing.clone() };
                self.blind_arguments(cells, cell, workload, address, &timing)
            }
        };
        if let Some(directory) = &self.histograms {
            // The generator refuses a directory with files of another run; if they stay, its refusal says so.
            let _ = std::fs::remove_dir_all(directory);
            arguments.splice(1..1, ["--out".to_owned(), directory.to_string_lossy().into_owned()]);
        }
        let before = self.readings(server)?;
        let Some(run) = self.generate(&arguments, load_s)? else { return Ok(None) };
        cells.subject.check_connections(workload, &run)?;
        cells.subject.check_bodies(workload, cell.role, &run)?;
        let (host, process) = self.readings(server)?.since(&before);
        let turns = self.turns_beside_reference(cells, cell, workload, server, address)?;
        Ok(Some(Loaded { bytes_per_key, run, host, process, turns }))
    }

    pub(crate) fn load_arguments(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        address: &str,
        server: &Process,
    ) -> Vec<String> {
        let site = self.scratch.site();
        let target = Target { workload, role: cell.role, address, site: &site.to_string_lossy() };
        let pid = server.pid().to_string();
        cells.understood_by(cell, subjects::arguments(cells.subject, &target, &self.timing, &pid))
    }

    /// For a generator that cannot see the server's process, and its agents.
    fn blind_arguments(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        address: &str,
        timing: &Timing,
    ) -> Vec<String> {
        let site = self.scratch.site();
        let target = Target { workload, role: cell.role, address, site: &site.to_string_lossy() };
        let arguments = cells.understood_by(cell, subjects::arguments(cells.subject, &target, timing, "PID"));
        let mut arguments = subjects::without(&arguments, &["--server-pid"]);
        let agents = self.agents.iter().map(|agent| format!("--agent={agent}"));
        let program = (!self.agents.is_empty()).then(|| format!("--agent-program={}", self.loadgen.display()));
        // Behind the command's name.
        arguments.splice(1..1, agents.chain(program).collect::<Vec<_>>());
        arguments
    }

    pub(super) fn process(&self, server: &Process) -> Result<Snapshot> {
        Snapshot::parse(&self.machine.read(server.pid())?, server.pid())
    }

    /// The machine and the server at this moment.
    fn readings(&self, server: &Process) -> Result<Readings> {
        let process = self.process(server)?;
        let is_here = matches!(self.machine, Machine::Here);
        Ok(Readings { process, is_here, host: Reading::take(is_here.then(|| server.pid()))?, at: Instant::now() })
    }

    /// A port at which nobody listens, for servers that cannot pick one themselves.
    fn free_address(&self) -> Result<SocketAddr> {
        if matches!(self.machine, Machine::Here) {
            let listener = TcpListener::bind((self.host, 0)).context("no free port")?;
            return listener.local_addr().context("no free port");
        }
        let taken = |address: &SocketAddr| TcpStream::connect_timeout(address, ANSWER_WITHIN).is_ok();
        let candidates = (0..PORTS_TRIED).map(|_| SocketAddr::new(self.host, fastrand::u16(PORTS)));
        candidates.into_iter().find(|address| !taken(address)).context("no free port")
    }

    fn measured(&self, loaded: &Loaded, workload: &Workload, cores: usize) -> Measured {
        let run = &loaded.run;
        let base = measured(run, workload, cores);
        let server = match self.machine {
            Machine::Here => base.server,
            Machine::Remote(_) => Some(server_cost(&loaded.process, run, cores)),
        };
        let (process, bytes_per_key, turns) = (Some(loaded.process), loaded.bytes_per_key, loaded.turns);
        Measured { server, process, bytes_per_key, turns, ..base }
    }
}

/// Outcome of a load.
struct Loaded {
    bytes_per_key: Option<f64>,
    run: RunResult,
    host: HostDuring,
    process: ProcessDuring,
    turns: Option<TurnFigures>,
}

struct Readings {
    process: Snapshot,
    host: Reading,
    is_here: bool,
    at: Instant,
}

impl Readings {
    fn since(&self, earlier: &Self) -> (HostDuring, ProcessDuring) {
        let elapsed = self.at - earlier.at;
        let process = self.process.since(&earlier.process);
        let is_same_machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .is_ok_and(|boot| boot.trim() == self.process.boot.trim());
        // The reading of this machine holds the server's time where it could be read here.
        let unread_s = if is_same_machine && !self.is_here { process.cpu_s } else { 0.0 };
        let mut host = self.host.since(&earlier.host, elapsed, unread_s);
        if !is_same_machine {
            let (steal, foreign) = self.process.ticks.since(&earlier.process.ticks, process.cpu_s, elapsed);
            host.steal = host.steal.max(steal);
            host.foreign = host.foreign.max(foreign);
        }
        (host, process)
    }
}

/// The cost of a run that began and ended with the readings.
fn server_cost(process: &ProcessDuring, run: &RunResult, cores: usize) -> ServerCost {
    let per_request_us = |seconds: f64| seconds * 1e6 / (run.ok as f64).max(1.0);
    ServerCost {
        cpu_us: per_request_us(process.cpu_s),
        user_us: per_request_us(process.user_s),
        system_us: per_request_us(process.system_s),
        busy: process.cpu_s / (run.duration_s * cores as f64),
        rss_bytes: process.rss_bytes,
        context_switches_voluntary: process.switches_voluntary,
        context_switches_involuntary: process.switches_involuntary,
        instructions: None,
    }
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
        Arrivals::LoadSweep => (None, None),
        Arrivals::Closed => (None, Some(first)),
        Arrivals::Open { .. } => {
            let service = run.service_us.as_ref().zip(run.service_histogram.as_deref());
            (Some(first), service.map(|(service, histogram)| latency(service, histogram)))
        }
    };
    let all = Measured {
        duration_s: run.duration_s,
        warmup_s: run.warmup_s,
        warmup_steady: run.warmup_steady,
        requests: run.requests,
        ok: run.ok,
        errors: run.errors.clone(),
        reconnects: run.reconnects,
        bytes_in: run.bytes_in,
        bytes_out: run.bytes_out,
        throughput_rps: run.throughput_rps,
        server: run.server.as_ref().map(|server| ServerCost {
            cpu_us: per_request_us(server.cpu_s),
            user_us: per_request_us(server.user_s),
            system_us: per_request_us(server.system_s),
            busy: server.cpu_s / (run.duration_s * server_cores as f64),
            rss_bytes: server.rss_bytes,
            context_switches_voluntary: server.context_switches_voluntary,
            context_switches_involuntary: server.context_switches_involuntary,
            instructions: server.instructions.map(|instructions| instructions as f64 / requests),
        }),
        client_cpu_us: per_request_us(run.client_cpu_s),
        client_user_us: run.client_user_s.map(per_request_us),
        client_system_us: run.client_system_s.map(per_request_us),
        client_busy: run.saturation.client_cpu_fraction,
        response,
        service,
        process: None,
        windows: windows::of_run(run),
        lag_p99_us: run.lag_us.map(|lag| lag.p99),
        bytes_per_key: None,
        hit_ratio: hit_ratio(run).filter(|_| workload.allows_misses),
        steps: Vec::new(),
        turns: None,
        head_bytes: None,
        note: run.saturation.note.clone(),
    };
    if workload.arrivals == Arrivals::LoadSweep { load_sweep::measured(run, all) } else { all }
}

/// Keys found among those asked for; `None` where nothing was asked for.
fn hit_ratio(run: &RunResult) -> Option<f64> {
    let (hits, misses) = (run.hits? as f64, run.misses? as f64);
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}
