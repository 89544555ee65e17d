//! Kinds of servers: what each is asked for, what must be stored in it first, how it is started and loaded, and who
//! stands beside it. Whatever differs between an HTTP server and a cache is said here and nowhere else.

mod file;
mod http;
mod kv;
mod mq;
mod zerocopy;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use anyhow::Result;
use report::readme::KnownWorkload;

use super::{
    climb,
    cpus::CpuList,
    model::{Arrivals, Cell, Role, Workload},
    peers::Peer,
    variants::Variants,
};

/// Fraction of the reference's capacity that an open loop offers to every cell.
pub(crate) const OPEN_FRACTION: f64 = 0.5;
/// Descriptors that a server needs besides its connections.
const SPARE_DESCRIPTORS: u64 = 200;
/// How long a requestor that sleeps after each request needs for one: the generator's default is 100 ± 50 ms.
const TURN_S: f64 = 0.11;
/// Connections beyond which a thread or a worker per connection is not a sensible thing to measure.
const THREADS_MAX: u32 = 1024;

/// All kinds that can be measured, in the order of their matrices.
pub(crate) static KINDS: [&dyn Kind; 5] =
    [&http::HttpServer, &kv::KvCache, &file::FileServer, &zerocopy::Zerocopy, &mq::MqServer];

/// One of our servers, as something to be measured. A matrix has one kind.
pub(crate) trait Kind: Sync {
    /// Package, executable, and the name of the matrix.
    fn server(&self) -> &'static str;

    /// The subcommand of the load generator against a cell of this role.
    fn load_command(&self, role: Role) -> &'static str;

    /// Dimensions of the server that are chosen by the workload, not by the cell: what is spoken.
    fn decided(&self) -> &'static [&'static str] {
        &[]
    }

    /// Every workload, in the order of the report's columns. A quick run may scale them down.
    fn workloads(&self, is_quick: bool) -> Vec<Workload>;

    /// Whether a quick run has the workload.
    fn is_quick(&self, workload: &str) -> bool;

    /// Whether a run has the workload that names none.
    fn is_usual(&self, _workload: &str) -> bool {
        true
    }

    /// The closed loop whose throughput is the capacity that open loops are a fraction of.
    fn calibration(&self) -> &'static str;

    /// What holds for all workloads and is not in their titles, in a sentence.
    fn note(&self) -> Option<&'static str>;

    /// What a quick run does differently, beside leaving out workloads; part of a sentence.
    fn quick_note(&self) -> &'static str;

    /// A quick run repeats flagged visits only if all visits are still expected to take no longer than this.
    fn quick_retry_budget_s(&self) -> f64;

    /// Other servers that do the same.
    fn peers(&self) -> &'static [&'static dyn Peer];

    /// Whether back ends that differ in this dimension are worth comparing under the workload, when nobody asked.
    fn varies(&self, workload: &str, dimension: &str) -> bool;

    /// Whether a connection may have several requests outstanding under the workload.
    fn pipelines(&self, _workload: &str) -> bool {
        true
    }

    /// Whether the null server, or a peer of that name, can answer the workload at all.
    fn answers(&self, role: Role, server: &str, workload: &Workload) -> bool;

    /// Whether it is reached over TCP, so that it may run on another host.
    fn speaks_tcp(&self) -> bool {
        true
    }

    /// Why a cell that could answer the workload cannot run it here, or is left out of a quick run.
    fn why_not(&self, cell: &Cell, workload: &Workload, is_quick: bool) -> Option<String>;

    /// Writes what the servers of this kind serve beside the files that are there for all; `executable` is ours.
    ///
    /// # Errors
    /// Those of the file system, or of what the executable is asked to do.
    fn prepare(&self, _cells: &[Cell], _workloads: &[Workload], _site: &Path, _executable: &Path) -> Result<()> {
        Ok(())
    }

    /// Arguments of our server for what it serves; `site` is the directory of the files, and without a workload they are
    /// shown and stand for all.
    fn content_arguments(
        &self,
        factors: &BTreeMap<String, String>,
        workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String>;

    /// Arguments of our server for where and how it serves: `backend` chooses, `connections` come at once.
    fn server_arguments(
        &self,
        backend: &[String],
        driver: Option<&str>,
        cpus: &CpuList,
        connections: &str,
    ) -> Vec<String> {
        server_arguments(backend, driver, cpus, connections)
    }

    /// Arguments of `loadgen null`; `bytes` is the size of a body or value.
    fn null_arguments(&self, bytes: &str, site: &str) -> Vec<String>;

    /// What the null server is.
    fn null_description(&self) -> &'static str {
        "a bare epoll loop that always sends the same answer, which it copies from memory"
    }

    /// The generator's arguments for how many ask at once, and how much.
    fn amount_arguments(&self, workload: &Workload, timing: &Timing) -> Vec<String> {
        amount_arguments(workload, timing)
    }

    /// Whether the generator can warm it up until the load is steady.
    fn warms_up_until_steady(&self) -> bool {
        true
    }

    /// About how long a load takes.
    fn load_s(&self, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        load_s(workload, slice_s, warmup_s)
    }

    /// Which of the addresses that our server prints is the one to load.
    fn listener(&self, workload: &Workload) -> usize;

    /// What the generator asks a server for, and where.
    fn load_arguments(&self, target: &Target<'_>) -> Vec<String>;

    /// The generator's arguments to store the keys of a workload that has some, or to check its documents.
    fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String>;

    /// About how long that takes, for the estimate of a run's time.
    fn preload_s(&self, workload: &Workload) -> f64;
}

/// Whom the generator is to ask, for what, and where the files are that replies are compared with.
pub(crate) struct Target<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) role: Role,
    pub(crate) address: &'a str,
    pub(crate) site: &'a str,
}

/// The workloads of a server, in their order; none for a name that is none of ours.
pub(crate) fn offers(server: &str) -> Vec<KnownWorkload> {
    let Some(kind) = KINDS.iter().find(|kind| kind.server() == server) else { return Vec::new() };
    let offer = |workload: Workload| KnownWorkload {
        is_usual: kind.is_usual(&workload.name),
        is_quick: kind.is_quick(&workload.name),
        name: workload.name,
    };
    kind.workloads(false).into_iter().map(offer).collect()
}

/// The names of the servers that can be measured.
pub(crate) fn names() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.server()).collect()
}

/// What every table of workloads says of one.
struct Spec {
    name: &'static str,
    title: &'static str,
    short: [&'static str; 2],
    body_bytes: u64,
    connections: u32,
    pipeline: u32,
    is_open: bool,
    /// At rising loads, instead of one.
    is_climb: bool,
    is_quick: bool,
}

impl Spec {
    /// Commands and what only caches have are still missing; an open loop's rate is found by a calibration visit.
    fn workload(&self) -> Workload {
        let open = Arrivals::Open { rate_rps: 0.0, fraction: OPEN_FRACTION, capacity_rps: 0.0 };
        Workload {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            short: self.short.map(str::to_owned),
            body_bytes: self.body_bytes,
            keys: None,
            documents: None,
            repetitions: None,
            allows_misses: false,
            connections: self.connections,
            pipeline: self.pipeline,
            arrivals: match (self.is_climb, self.is_open) {
                (true, _) => Arrivals::LoadSweep,
                (false, true) => open,
                (false, false) => Arrivals::Closed,
            },
            adds: Vec::new(),
            command: String::new(),
            preload: None,
        }
    }
}

/// How the load is timed and placed; the same for all workloads of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) slice_s: f64,
    pub(crate) warmup_s: f64,
    /// Until the load is steady, at most so long; `None` is a fixed time.
    pub(crate) max_warmup_s: Option<f64>,
    pub(crate) client_cpus: String,
    pub(crate) client_threads: usize,
}

impl Timing {
    pub(crate) fn longest_warmup_s(&self) -> f64 {
        self.max_warmup_s.unwrap_or(self.warmup_s)
    }
}

/// The workloads of a kind so named, in its order, with the commands that make them.
pub(crate) fn select(kind: &dyn Kind, names: &[String], timing: &Timing, is_quick: bool) -> Vec<Workload> {
    select_varied(kind, names, &Variants::default(), timing, is_quick)
}

/// The same as they are to be varied.
pub(crate) fn select_varied(
    kind: &dyn Kind,
    names: &[String],
    variants: &Variants,
    timing: &Timing,
    is_quick: bool,
) -> Vec<Workload> {
    let mut workloads = kind.workloads(is_quick);
    workloads.retain(|workload| names.contains(&workload.name));
    let mut workloads = variants.of(workloads);
    for workload in &mut workloads {
        show_commands(kind, workload, timing);
    }
    workloads
}

/// Sets the load that the open workloads offer, from the reference's capacity.
pub(crate) fn calibrate(kind: &dyn Kind, workloads: &mut [Workload], capacity_rps: f64, timing: &Timing) {
    for workload in workloads {
        if let Arrivals::Open { rate_rps, fraction, .. } = workload.arrivals {
            let (rate_rps, fraction) = match rate_rps > 0.0 {
                // Somebody chose it.
                true => (rate_rps, rate_rps / capacity_rps),
                // A round figure is easier to compare between runs.
                false => ((capacity_rps * fraction / 1_000.0).round().max(1.0) * 1_000.0, fraction),
            };
            workload.arrivals = Arrivals::Open { rate_rps, fraction, capacity_rps };
            show_commands(kind, workload, timing);
        }
    }
}

/// The generator's arguments against the server `pid`.
pub(crate) fn arguments(kind: &dyn Kind, target: &Target<'_>, timing: &Timing, pid: &str) -> Vec<String> {
    let workload = target.workload;
    let mut words = vec![kind.load_command(target.role).to_owned()];
    words.extend(kind.amount_arguments(workload, timing));
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if workload.pipeline > 1 {
        flag("-P", workload.pipeline.to_string());
    }
    match workload.arrivals {
        Arrivals::Closed => {}
        Arrivals::Open { rate_rps, .. } => flag("-R", rate_rps.to_string()),
        Arrivals::LoadSweep => flag("--rate-sweep", climb::SHARES.to_owned()),
    }
    flag("--pin", timing.client_cpus.clone());
    flag("--format", "json".to_owned());
    flag("--server-pid", pid.to_owned());
    words.push("--timeline".to_owned());
    words.extend(kind.load_arguments(target));
    words
}

fn load_s(workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
    match workload.repetitions {
        Some(each) => f64::from(each) * TURN_S,
        None if workload.arrivals == Arrivals::LoadSweep => climb::load_s(slice_s, warmup_s),
        None => slice_s + warmup_s,
    }
}

fn amount_arguments(workload: &Workload, timing: &Timing) -> Vec<String> {
    let mut words = Vec::new();
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("-t", timing.client_threads.to_string());
    match workload.repetitions {
        Some(each) => {
            flag("--requestors", workload.connections.to_string());
            flag("--reps", each.to_string());
        }
        None => {
            flag("-c", workload.connections.to_string());
            words.extend(time_arguments(workload, timing));
            // Eleven runs to the limit would take as long as ten visits; a climb is not compared.
            if let Some(most_s) = timing.max_warmup_s.filter(|_| workload.arrivals != Arrivals::LoadSweep) {
                words.extend(["--max-warmup".to_owned(), milliseconds(most_s)]);
            }
        }
    }
    words
}

/// The generator's arguments for how long, where time is the limit.
fn time_arguments(workload: &Workload, timing: &Timing) -> [String; 4] {
    let is_climb = workload.arrivals == Arrivals::LoadSweep;
    let part = |whole_s| milliseconds(if is_climb { climb::part_s(whole_s) } else { whole_s });
    ["-d".to_owned(), part(timing.slice_s), "--warmup".to_owned(), part(timing.warmup_s)]
}

fn show_commands(kind: &dyn Kind, workload: &mut Workload, timing: &Timing) {
    let shown = |arguments: Vec<String>| format!("loadgen {}", arguments.join(" "));
    let target = Target { workload, role: Role::Ours, address: "ADDR", site: "SITE" };
    let command = shown(arguments(kind, &target, timing, "PID"));
    let preload = workload.prepared().map(|_| shown(kind.preload_arguments(&target, timing)));
    workload.command = command;
    workload.preload = preload;
}

fn milliseconds(seconds: f64) -> String {
    format!("{}ms", (seconds * 1_000.0).round())
}

/// Where every server is told to listen that can pick a port: on loopback, and [`listening_at`] another address.
const ANY_PORT: &str = "127.0.0.1:0";

/// The command with the address at which its servers are to listen.
pub(crate) fn listening_at(command: Vec<OsString>, host: IpAddr) -> Vec<OsString> {
    let address = OsString::from(SocketAddr::new(host, 0).to_string());
    command.into_iter().map(|word| if word == ANY_PORT { address.clone() } else { word }).collect()
}

/// The arguments without those options and their values.
pub(crate) fn without(arguments: &[String], options: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    let mut given = arguments.iter();
    while let Some(word) = given.next() {
        if options.contains(&word.as_str()) {
            given.next();
        } else {
            words.push(word.clone());
        }
    }
    words
}

/// The beginning of a text, for an error message.
pub(crate) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    text.chars().take(CHARACTERS_MAX).collect()
}

/// Our server's arguments but for what it serves and what the workload adds.
fn server_arguments(backend: &[String], driver: Option<&str>, cpus: &CpuList, connections: &str) -> Vec<String> {
    let mut words: Vec<String> = ["--listen", ANY_PORT].map(str::to_owned).to_vec();
    words.extend_from_slice(backend);
    let threads = cpus.len().to_string();
    words.extend(["--threads", &threads, "--pin", cpus.text()].map(str::to_owned));
    if driver == Some("pool") {
        // A worker serves one connection until it closes: fewer would leave connections unserved.
        words.extend(["--workers", connections].map(str::to_owned));
    }
    words
}

/// Why `cell` cannot run `workload` here, if it cannot.
pub(crate) fn cannot_run(
    kind: &dyn Kind,
    cell: &Cell,
    workload: &Workload,
    open_files: u64,
    is_quick: bool,
) -> Option<String> {
    if workload.pipeline > 1 && !kind.pipelines(&workload.name) {
        return Some("one request per connection".to_owned());
    }
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
    kind.why_not(cell, workload, is_quick)
}

#[cfg(test)]
mod tests;
