//! The rows of the matrix: our back ends, the peers that are installed, and the controls.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::backends::Backends;
use super::cpus::CpuList;
use super::filter::{Filter, hint};
use super::model::{Cell, Role, Workload};
use super::peers::Peer;
use crate::usage;

/// Servers of ours that bench-matrix knows how to load.
pub(crate) const SERVERS: [&str; 1] = ["http-server"];
const NULL: &str = "null";
const CONTROL: &str = "control-aa";

/// One of our servers, built, and what it says of itself.
pub(crate) struct Server {
    pub(crate) executable: PathBuf,
    pub(crate) backends: Backends,
}

/// How cells are started.
pub(crate) struct Cells {
    servers: Vec<Server>,
    cpus: CpuList,
}

/// What was selected to run.
pub(crate) struct Selection {
    pub(crate) cells: Vec<Cell>,
    /// (cell, reason): back ends that this machine cannot run.
    pub(crate) unavailable: Vec<(String, String)>,
    pub(crate) reference: String,
    /// Peers that were asked for and are not installed.
    pub(crate) missing_peers: Vec<&'static str>,
}

impl Cells {
    pub(crate) fn new(servers: Vec<Server>, cpus: CpuList) -> Self {
        Self { servers, cpus }
    }

    /// Keys and values that a filter may name.
    pub(crate) fn vocabulary(&self, peers: &[Peer], workloads: &[String]) -> Vec<(String, Vec<String>)> {
        let mut servers: Vec<String> = self.servers.iter().map(|server| server.backends.server.clone()).collect();
        servers.extend(peers.iter().map(|peer| peer.program().to_owned()));
        servers.dedup();
        let mut vocabulary = vec![("server".to_owned(), servers), ("workload".to_owned(), workloads.to_vec())];
        for dimension in self.servers.iter().flat_map(|server| &server.backends.dimensions) {
            let names = dimension.choices.iter().map(|choice| choice.name.clone());
            match vocabulary.iter_mut().find(|(key, _)| *key == dimension.name) {
                Some((_, values)) => values.extend(names),
                None => vocabulary.push((dimension.name.clone(), names.collect())),
            }
        }
        vocabulary
    }

    /// Our back ends that the filter accepts and the reference, then peers, null server and control.
    pub(crate) fn select(&self, filter: &Filter, peers: &[Peer], reference: Option<&str>) -> Result<Selection> {
        let mut unavailable = Vec::new();
        let mut ours = Vec::new();
        for server in &self.servers {
            for combination in server.backends.combinations() {
                let name = &server.backends.server;
                let cell = Cell {
                    id: format!("{name}/{}", combination.label),
                    label: combination.label.clone(),
                    role: Role::Ours,
                    server: name.clone(),
                    command: self.shown_command(name, &combination.flags, &combination.factors),
                    factors: combination.factors,
                    description: combination.description,
                    version: None,
                    config: None,
                };
                unavailable.extend(combination.unavailable.map(|reason| (cell.id.clone(), reason)));
                ours.push(cell);
            }
        }
        let is_accepted = |cell: &Cell| {
            filter.accepts("server", &cell.server)
                && cell.factors.iter().all(|(factor, level)| filter.accepts(factor, level))
        };
        let can_run = |cell: &Cell| !unavailable.iter().any(|(id, _)| *id == cell.id);
        let reference = match reference {
            Some(id) => named_reference(id, &ours)?,
            None => self.default_reference(&ours, |cell| is_accepted(cell) && can_run(cell), can_run)?,
        };
        if !can_run(&reference) {
            bail!("the reference {} cannot run here", reference.id);
        }
        let mut cells: Vec<Cell> =
            ours.into_iter().filter(|cell| is_accepted(cell) || cell.id == reference.id).collect();
        let mut missing_peers = Vec::new();
        for peer in peers.iter().filter(|peer| filter.accepts("server", peer.program())) {
            match peer.cell() {
                Some(cell) => cells.push(cell),
                None if missing_peers.contains(&peer.program()) => {}
                None => missing_peers.push(peer.program()),
            }
        }
        cells.push(null_cell(&self.cpus));
        cells.push(Cell {
            id: CONTROL.to_owned(),
            label: "A/A control".to_owned(),
            role: Role::Control,
            description: format!("{} once more", reference.id),
            ..reference.clone()
        });
        unavailable.retain(|(id, _)| cells.iter().any(|cell| cell.id == *id));
        Ok(Selection { cells, unavailable, reference: reference.id, missing_peers })
    }

    /// The server's own default if it was selected, else the first that was, else the default all the same.
    fn default_reference(
        &self,
        ours: &[Cell],
        is_wanted: impl Fn(&Cell) -> bool,
        can_run: impl Fn(&Cell) -> bool,
    ) -> Result<Cell> {
        let is_default = |cell: &&Cell| {
            self.servers.iter().any(|server| {
                let mut dimensions = server.backends.dimensions.iter();
                server.backends.server == cell.server
                    && dimensions.all(|dimension| cell.factors.get(&dimension.name) == Some(&dimension.default))
            })
        };
        let wanted = || ours.iter().filter(|cell| is_wanted(cell));
        let found = wanted().find(is_default).or_else(|| wanted().next());
        let found = found.or_else(|| ours.iter().filter(|cell| can_run(cell)).find(is_default));
        found.cloned().context("no back end can run here")
    }

    pub(crate) fn peer(&self, cell: &Cell) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| cell.role == Role::Peer && peer.id() == cell.id)
    }

    /// The command that starts one of ours, the control or the null server.
    pub(crate) fn command(
        &self,
        cell: &Cell,
        workload: &Workload,
        site: &Path,
        loadgen: &Path,
    ) -> Result<Vec<OsString>> {
        if cell.role == Role::Null {
            let mut command = vec![OsString::from(loadgen)];
            command.extend(null_arguments(&workload.body_bytes.to_string()).map(OsString::from));
            return Ok(command);
        }
        let server = self.servers.iter().find(|server| server.backends.server == cell.server);
        let server = server.with_context(|| format!("no server {}", cell.server))?;
        let combinations = server.backends.combinations();
        let combination = combinations.into_iter().find(|combination| combination.factors == cell.factors);
        let flags = combination.with_context(|| format!("no back end {}", cell.id))?.flags;
        let mut command = vec![OsString::from(&server.executable)];
        command.extend(
            self.arguments(&flags, &cell.factors, &workload.connections.to_string()).into_iter().map(OsString::from),
        );
        command.extend(["-d".into(), site.into()]);
        Ok(command)
    }

    fn arguments(
        &self,
        flags: &[String],
        factors: &std::collections::BTreeMap<String, String>,
        connections: &str,
    ) -> Vec<String> {
        let mut words: Vec<String> = ["--listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
        words.extend_from_slice(flags);
        let threads = self.cpus.len().to_string();
        words.extend(["--threads", &threads, "--pin", self.cpus.text()].map(str::to_owned));
        if factors.get("driver").is_some_and(|driver| driver == "pool") {
            // A worker serves one connection until it closes: fewer would leave connections unserved.
            words.extend(["--workers", connections].map(str::to_owned));
        }
        words
    }

    fn shown_command(
        &self,
        server: &str,
        flags: &[String],
        factors: &std::collections::BTreeMap<String, String>,
    ) -> String {
        let arguments = self.arguments(flags, factors, "CONNECTIONS").join(" ");
        format!("taskset -c {} {server} {arguments} -d SITE", self.cpus.text())
    }
}

fn named_reference(id: &str, ours: &[Cell]) -> Result<Cell> {
    let found = ours.iter().find(|cell| cell.id == id || cell.label == id);
    found.cloned().ok_or_else(|| {
        let ids: Vec<&str> = ours.iter().map(|cell| cell.id.as_str()).collect();
        usage(format!("--reference `{id}`: no such cell; {}", hint(id, &ids)))
    })
}

fn null_arguments(body_bytes: &str) -> [&str; 7] {
    ["null", "--protocol", "http", "--listen", "127.0.0.1:0", "--body-size", body_bytes]
}

fn null_cell(cpus: &CpuList) -> Cell {
    Cell {
        id: NULL.to_owned(),
        label: "null server".to_owned(),
        role: Role::Null,
        server: "loadgen".to_owned(),
        factors: [].into(),
        description: "a bare epoll loop that always sends the same answer: the floor".to_owned(),
        version: None,
        command: format!("taskset -c {} loadgen {}", cpus.text(), null_arguments("BYTES").join(" ")),
        config: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::backends;
    use super::*;

    fn cells() -> Cells {
        let server = Server { executable: "target/http-server".into(), backends: backends::tests::sample() };
        Cells::new(vec![server], CpuList::parse("0").unwrap())
    }

    fn select(filter: &str, reference: Option<&str>) -> Result<Selection> {
        let cells = cells();
        let vocabulary = cells.vocabulary(&[], &["closed".to_owned()]);
        let filter = if filter.is_empty() { Filter::default() } else { Filter::parse(filter, &vocabulary)? };
        cells.select(&filter, &[], reference)
    }

    fn ids(selection: &Selection) -> Vec<&str> {
        selection.cells.iter().map(|cell| cell.id.as_str()).collect()
    }

    #[test]
    fn all_back_ends_and_the_controls_are_selected_and_those_that_cannot_run_have_a_reason() {
        let selection = select("", None).unwrap();
        let ours = ["http-server/blocking", "http-server/pool", "http-server/epoll", "http-server/uring"];
        assert_eq!(ids(&selection), [&ours[..], &["null", "control-aa"]].concat());
        assert_eq!(selection.reference, "http-server/epoll");
        assert_eq!(selection.unavailable, [("http-server/uring".to_owned(), "io_uring is disabled".to_owned())]);
    }

    #[test]
    fn the_reference_is_the_default_if_selected_else_the_first_and_can_be_named() {
        assert_eq!(select("driver=blocking|pool", None).unwrap().reference, "http-server/blocking");
        let named = select("driver=blocking", Some("pool")).unwrap();
        assert_eq!(ids(&named), ["http-server/blocking", "http-server/pool", "null", "control-aa"]);
        assert_eq!(named.cells[3].factors, named.cells[1].factors, "the control is the reference once more");
        let error = select("", Some("http-server/epol")).err().unwrap().to_string();
        assert!(error.contains("did you mean `http-server/epoll`?"), "{error}");
        assert!(select("", Some("uring")).is_err(), "it cannot run here");
    }

    #[test]
    fn commands_ask_for_the_back_end_and_pool_gets_a_worker_per_connection() {
        let selection = select("", None).unwrap();
        let timing =
            super::super::workloads::Timing { slice_s: 1.0, warmup_s: 1.0, client_cpus: "1".into(), client_threads: 1 };
        let workload = &super::super::workloads::select(&["get-1MiB-c16".to_owned()], &timing)[0];
        let command = |index: usize| {
            let cell = &selection.cells[index];
            let words = cells().command(cell, workload, Path::new("/site"), Path::new("loadgen")).unwrap();
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let common = "--threads 1 --pin 0";
        assert_eq!(command(2), format!("target/http-server --listen 127.0.0.1:0 --driver epoll {common} -d /site"));
        assert!(command(1).contains("--driver pool --threads 1 --pin 0 --workers 16 "));
        assert_eq!(command(4), "loadgen null --protocol http --listen 127.0.0.1:0 --body-size 1048576");
        assert_eq!(command(5), command(2));
        assert!(!selection.cells[2].command.contains("/site"));
    }
}
