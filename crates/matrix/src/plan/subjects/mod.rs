//! The servers as subjects of measurement: what each is asked for, what must be stored in it first, how it is started and
//! loaded, and who stands beside it. What holds for one server is in its descriptor (crate `servers`), what holds for
//! every server of a load kind is in that kind's [`Load`]. Nothing here knows a server by name.

mod file;
mod generator;
mod http;
mod kv;
mod limits;
mod lookup;
mod mq;
mod select;
mod turns;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::Result;
use loadgen::result::RunResult;
use results::{Cell, Connection, Role, Workload};
use servers::{LoadKind, Server, Workload as Spec};

use self::generator::{
    ANY_PORT, amount_arguments, base, load_s, outstanding_arguments, time_arguments, tls_arguments, words,
};
pub(crate) use self::generator::{OPEN_FRACTION, Target, Timing, listening_at, shortened, without};
pub(crate) use self::limits::{cannot_be_shared, cannot_run};
pub(crate) use self::lookup::{known_workloads, named, names};
pub(crate) use self::select::{arguments, calibrate, select, select_with};
pub(crate) use self::turns::{in_turns, takes_turns};
pub(crate) use super::workload_names::{VARIANT_MARK, asks_for_site, plain};
use crate::{
    plan::{
        cpus::CpuList,
        peers::{self, Peer},
    },
    run::site::tls,
};

/// All servers that can be measured, in the order of their matrices.
pub(crate) static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| servers::all().iter().map(Subject::of).collect());

/// One of our servers, as something to be measured. A matrix has one.
pub(crate) struct Subject {
    descriptor: &'static Server,
    load: &'static dyn Load,
    peers: Vec<&'static dyn Peer>,
}

/// A load kind: how the servers of a subcommand of the load generator are asked.
trait Load: Sync {
    /// Returns the subcommand against a cell of this role.
    fn command(&self, role: Role) -> &'static str;

    /// Makes a workload from its descriptor. A quick run may scale it down.
    fn workload(&self, _server: &Server, spec: &Spec, _is_quick: bool) -> Workload {
        base(spec)
    }

    /// True if a connection may have several requests outstanding.
    fn pipelines(&self, spec: &Spec) -> bool {
        !spec.connection_per_request
    }

    /// True if the null server, or a peer of that name, can answer the workload at all.
    fn answers(&self, _role: Role, _server: &str, _spec: &Spec) -> bool {
        true
    }

    /// Returns why a cell that could answer the workload cannot run it.
    fn why_not(&self, _cell: &Cell, _workload: &Workload) -> Option<String> {
        None
    }

    /// Writes what the servers serve beside the files that are there for all; `executable` is ours.
    ///
    /// # Errors
    /// Those of the file system, or of what the executable is asked to do.
    fn prepare(
        &self,
        _server: &Server,
        _cells: &[Cell],
        _workloads: &[Workload],
        _site: &Path,
        _executable: &Path,
    ) -> Result<()> {
        Ok(())
    }

    /// Returns the values of the placeholders in a server's arguments, beside `{site}`. Without a workload they are shown
    /// and stand for all.
    fn places(
        &self,
        _server: &Server,
        _factors: &BTreeMap<String, String>,
        _spec: Option<&Spec>,
        _site: &str,
    ) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the arguments that say where our server listens and on which CPUs it serves; `backend` chooses.
    fn server_arguments(&self, backend: &[String], cpus: &CpuList) -> Vec<String> {
        let mut words: Vec<String> = ["--listen", ANY_PORT].map(str::to_owned).to_vec();
        words.extend_from_slice(backend);
        words.extend(["--threads", &cpus.len().to_string(), "--pin", cpus.text()].map(str::to_owned));
        words
    }

    /// Returns the arguments of `loadgen null`; `bytes` is the size of a body or value.
    fn null_arguments(&self, bytes: &str, site: &str) -> Vec<String>;

    /// Describes the null server.
    fn null_description(&self) -> &'static str {
        "a bare epoll loop that always sends the same answer, which it copies from memory"
    }

    /// Returns the generator's arguments for how many ask at once, and how much.
    fn amount_arguments(&self, workload: &Workload, timing: &Timing) -> Vec<String> {
        amount_arguments(workload, timing)
    }

    /// Returns the command of a server that can run beside another one of the same run.
    fn apart(&self, command: Vec<OsString>, _site: &str) -> Vec<OsString> {
        command
    }

    /// True if agents on other machines can make its loads.
    fn has_agents(&self) -> bool {
        true
    }

    /// Returns the generator's arguments for how many requests a connection has outstanding.
    fn outstanding_arguments(&self, _spec: &Spec, outstanding: u32) -> Vec<String> {
        outstanding_arguments(outstanding)
    }

    /// True if the generator can warm it up until the load is steady.
    fn warms_up_until_steady(&self) -> bool {
        true
    }

    /// Estimates the time that a load takes.
    fn load_s(&self, _spec: Option<&Spec>, workload: &Workload, slice_s: f64, warmup_s: f64) -> f64 {
        load_s(workload, slice_s, warmup_s)
    }

    /// Estimates the time in which every client has one answer, under a workload of so many requests that can be made in turns;
    /// as a rule there is none.
    fn round_s(&self, _spec: Option<&Spec>, _workload: &Workload) -> Option<f64> {
        None
    }

    /// Returns which of the addresses that our server prints is the one to load.
    fn listener(&self, spec: &Spec) -> usize {
        usize::from(spec.tls)
    }

    /// Returns the generator's arguments for what it asks a server for, and where.
    fn load_arguments(&self, server: &Server, spec: &Spec, target: &Target<'_>) -> Vec<String>;

    /// Returns the generator's arguments that store the keys of a workload that has some, or check its documents.
    fn preload_arguments(&self, server: &Server, spec: &Spec, target: &Target<'_>, timing: &Timing) -> Vec<String>;

    /// Checks what a run before the load has seen.
    ///
    /// # Errors
    /// The server delivers less or other than the others.
    fn check_answers(&self, _spec: &Spec, _site: &Path, _run: &RunResult) -> Result<()> {
        Ok(())
    }

    /// Checks that the bodies that a cell answered with under the load are those that all have to deliver.
    ///
    /// # Errors
    /// They have another length, content or coding.
    fn check_bodies(&self, _spec: &Spec, _workload: &Workload, _role: Role, _run: &RunResult) -> Result<()> {
        Ok(())
    }

    /// Returns the bytes of a reply beside its body, where they can be told apart.
    fn head_bytes(&self, _spec: &Spec, _run: &RunResult) -> Option<f64> {
        None
    }

    /// True if it only checks answers and leaves the server as it is: once for each cell is enough, not before every visit.
    fn preload_only_checks(&self) -> bool {
        false
    }

    /// Estimates the time that this takes.
    fn preload_s(&self, server: &Server, spec: &Spec, workload: &Workload) -> f64;
}

impl Subject {
    fn of(descriptor: &'static Server) -> Self {
        let load: &dyn Load = match descriptor.load {
            LoadKind::Http => &http::Http,
            LoadKind::Kv => &kv::Kv,
            LoadKind::File => &file::File,
            LoadKind::Mq => &mq::Mq,
        };
        Self { descriptor, load, peers: peers::of(descriptor) }
    }

    /// Returns the same server with programs of strangers among its peers. It lives as long as the process.
    pub(crate) fn with_programs(&self, programs: &[(String, PathBuf)]) -> &'static Self {
        let given = |(name, path): &(String, PathBuf)| peers::given(self.descriptor, name, path);
        let peers = self.peers.iter().copied().chain(programs.iter().map(given)).collect();
        Box::leak(Box::new(Self { descriptor: self.descriptor, load: self.load, peers }))
    }

    /// True if a program that is given an address and a directory can do its work.
    pub(crate) fn takes_programs(&self) -> bool {
        matches!(self.descriptor.load, LoadKind::Http | LoadKind::Kv)
    }

    /// Returns the descriptor of a workload or of a variant of it.
    fn spec(&self, workload: &str) -> Option<&'static Spec> {
        self.descriptor.workload(plain(workload))
    }

    /// Package, executable, and name of the matrix.
    pub(crate) fn server(&self) -> &'static str {
        &self.descriptor.name
    }

    /// Dimensions of the server that are chosen by the workload, not by the cell.
    pub(crate) fn decided(&self) -> &'static [String] {
        &self.descriptor.decided_by_workload
    }

    /// Every workload, in the order of the report's columns.
    pub(crate) fn workloads(&self, is_quick: bool) -> Vec<Workload> {
        let specs = self.descriptor.workloads.iter();
        specs.map(|spec| self.load.workload(self.descriptor, spec, is_quick)).collect()
    }

    /// True if a quick run has the workload.
    pub(crate) fn is_quick(&self, workload: &str) -> bool {
        self.spec(workload).is_some_and(|spec| spec.quick)
    }

    /// True if a run has the workload that names none.
    pub(crate) fn is_usual(&self, workload: &str) -> bool {
        self.spec(workload).is_some_and(|spec| spec.usual)
    }

    /// Returns the closed loop whose throughput is the capacity that the open workload offers a fraction of.
    pub(crate) fn calibration(&self, workload: &str) -> &'static str {
        let own = self.spec(workload).map(|spec| self.descriptor.calibration_of(spec));
        own.unwrap_or(&self.descriptor.calibration)
    }

    /// Returns the fraction of the capacity that an open workload offers when nobody chose another.
    pub(crate) fn fraction(&self, workload: &str) -> Option<f64> {
        let spec = self.spec(workload).filter(|spec| spec.arrivals == servers::Arrivals::Open)?;
        Some(spec.fraction.unwrap_or(OPEN_FRACTION))
    }

    /// Sentences about all workloads that are not in their titles.
    pub(crate) fn note(&self) -> Option<&'static str> {
        self.descriptor.note.as_deref()
    }

    /// Differences of a quick run, beside leaving out workloads; part of a sentence.
    pub(crate) fn quick_note(&self) -> &'static str {
        &self.descriptor.quick_note
    }

    /// A quick run repeats flagged visits only if all visits are still expected to take no longer than this.
    pub(crate) fn quick_retry_budget_s(&self) -> f64 {
        self.descriptor.quick_retry_budget_s
    }

    /// Other servers that do the same.
    pub(crate) fn peers(&self) -> &[&'static dyn Peer] {
        &self.peers
    }

    /// True if back ends that differ in this dimension are worth comparing under the workload, when nobody asked.
    pub(crate) fn varies(&self, workload: &str, dimension: &str) -> bool {
        let varies = |spec: &Spec| spec.varies.as_ref().is_none_or(|names| names.iter().any(|name| name == dimension));
        self.spec(workload).is_some_and(varies)
    }

    pub(crate) fn pipelines(&self, workload: &str) -> bool {
        self.spec(workload).is_some_and(|spec| self.load.pipelines(spec))
    }

    pub(crate) fn answers(&self, role: Role, server: &str, workload: &Workload) -> bool {
        self.spec(&workload.name).is_some_and(|spec| self.load.answers(role, server, spec))
    }

    /// True if a cell that is not ours is asked under the workload.
    pub(crate) fn asks(&self, cell: &Cell, workload: &Workload) -> bool {
        let peers = self.spec(&workload.name).and_then(|spec| spec.peers.as_ref());
        let is_meant = match self.is_given(cell) {
            // It knows no flags of ours for certificates.
            true => self.spec(&workload.name).is_some_and(|spec| !(spec.tls || spec.http2)),
            false => cell.role != Role::Peer || peers.is_none_or(|peers| peers.contains(&cell.id)),
        };
        is_meant && self.answers(cell.role, &cell.server, workload)
    }

    /// True for the row of a stranger's program.
    fn is_given(&self, cell: &Cell) -> bool {
        cell.role == Role::Peer && self.peers.iter().any(|peer| peer.is_given() && peer.id() == cell.id)
    }

    /// Returns why a cell that could answer the workload cannot run it here, or is left out of a quick run.
    fn why_not(&self, cell: &Cell, workload: &Workload, is_quick: bool) -> Option<String> {
        let has_peers = self.spec(&workload.name).is_none_or(|spec| spec.peers_in_quick);
        if is_quick && cell.role == Role::Peer && !has_peers && !self.is_given(cell) {
            return Some("left out of a quick run".to_owned());
        }
        self.load.why_not(cell, workload)
    }

    pub(crate) fn prepare(&self, cells: &[Cell], workloads: &[Workload], site: &Path, executable: &Path) -> Result<()> {
        self.load.prepare(self.descriptor, cells, workloads, site, executable)
    }

    /// Returns the arguments of our server for what it serves; `site` is the directory of the files. Without a workload
    /// they are shown and stand for all.
    pub(crate) fn content_arguments(
        &self,
        factors: &BTreeMap<String, String>,
        workload: Option<&Workload>,
        site: &str,
    ) -> Vec<String> {
        let spec = workload.and_then(|workload| self.spec(&workload.name));
        let places = self.load.places(self.descriptor, factors, spec, site);
        let places = places.iter().map(|(name, value)| (*name, value.as_str()));
        let values: Vec<(&str, &str)> = places.chain([("site", site)]).collect();
        servers::expand(&self.descriptor.arguments, &values)
    }

    /// Returns the arguments of our server for where and how it serves: `backend` chooses, `connections` come at once.
    pub(crate) fn server_arguments(
        &self,
        backend: &[String],
        connection: Option<Connection>,
        cpus: &CpuList,
        connections: &str,
    ) -> Vec<String> {
        let mut words = self.load.server_arguments(backend, cpus);
        let is_chosen = |name: &String| backend.iter().any(|word| word == name);
        // A worker serves one connection until it closes: fewer would leave connections unserved.
        if connection == Some(Connection::Worker) || self.descriptor.worker_per_connection.iter().any(is_chosen) {
            words.extend(["--workers", connections].map(str::to_owned));
        }
        words
    }

    pub(crate) fn null_arguments(&self, bytes: &str, site: &str) -> Vec<String> {
        self.load.null_arguments(bytes, site)
    }

    /// Returns the command of a server that can run beside another one of the same run.
    pub(crate) fn apart(&self, command: Vec<OsString>, site: &str) -> Vec<OsString> {
        self.load.apart(command, site)
    }

    pub(crate) fn null_description(&self) -> &'static str {
        self.load.null_description()
    }

    pub(crate) fn warms_up_until_steady(&self) -> bool {
        self.load.warms_up_until_steady()
    }

    pub(crate) fn listener(&self, workload: &Workload) -> usize {
        self.spec(&workload.name).map_or(0, |spec| self.load.listener(spec))
    }

    fn load_arguments(&self, target: &Target<'_>) -> Vec<String> {
        let spec = self.spec(&target.workload.name);
        spec.map_or_else(Vec::new, |spec| self.load.load_arguments(self.descriptor, spec, target))
    }

    pub(crate) fn preload_arguments(&self, target: &Target<'_>, timing: &Timing) -> Vec<String> {
        let spec = self.spec(&target.workload.name);
        spec.map_or_else(Vec::new, |spec| self.load.preload_arguments(self.descriptor, spec, target, timing))
    }

    /// Checks what a run with these arguments has seen.
    pub(crate) fn check_answers(&self, workload: &Workload, site: &Path, run: &RunResult) -> Result<()> {
        self.spec(&workload.name).map_or(Ok(()), |spec| self.load.check_answers(spec, site, run))
    }

    /// Checks that a load was answered with the bodies that all cells have to deliver.
    ///
    /// # Errors
    /// They have another length, content or coding.
    pub(crate) fn check_bodies(&self, workload: &Workload, role: Role, run: &RunResult) -> Result<()> {
        let spec = self.spec(&workload.name);
        spec.map_or(Ok(()), |spec| self.load.check_bodies(spec, workload, role, run))
    }

    /// Returns the bytes of a reply beside its body, where they can be told apart.
    pub(crate) fn head_bytes(&self, workload: &Workload, run: &RunResult) -> Option<f64> {
        self.load.head_bytes(self.spec(&workload.name)?, run)
    }

    fn outstanding_arguments(&self, workload: &Workload) -> Vec<String> {
        let spec = self.spec(&workload.name);
        spec.map_or_else(Vec::new, |spec| self.load.outstanding_arguments(spec, workload.pipeline))
    }

    /// Checks that a load came over the connections that the workload asks for.
    ///
    /// # Errors
    /// Another version, cipher suite, group or protocol was agreed to, or another kind of handshake was made.
    pub(crate) fn check_connections(&self, workload: &Workload, run: &RunResult) -> Result<()> {
        self.spec(&workload.name).map_or(Ok(()), |spec| tls::check(spec, run))
    }

    /// Checks the same of a run before the load, whose handshakes may be of any kind.
    ///
    /// # Errors
    /// Something else was agreed to.
    pub(crate) fn check_sessions(&self, workload: &Workload, run: &RunResult) -> Result<()> {
        self.spec(&workload.name).map_or(Ok(()), |spec| tls::check_sessions(spec, run))
    }

    /// True if what is delivered is compared with the others before any visit, and a cell that differs is left out.
    pub(crate) fn compares_deliveries(&self, workload: &Workload) -> bool {
        self.spec(&workload.name).is_some_and(|spec| spec.web_site)
    }

    pub(crate) fn preload_only_checks(&self) -> bool {
        self.load.preload_only_checks()
    }

    pub(crate) fn preload_s(&self, workload: &Workload) -> f64 {
        let spec = self.spec(&workload.name).filter(|_| workload.prepared().is_some());
        spec.map_or(0.0, |spec| self.load.preload_s(self.descriptor, spec, workload))
    }
}

#[cfg(test)]
mod tests;
