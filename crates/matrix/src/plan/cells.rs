//! The rows of a matrix: our back ends, the peers that are installed, and the controls.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use results::{Cell, Role, Setup, Workload};

use crate::plan::{
    backends::{Backends, Combination, THREADS, THREADS_FLAG},
    cpus::CpuList,
    filter::{Filter, Product, Vocabulary},
    peers::{self, Peer, web::site_coding},
    subjects::{self, Subject},
};
use crate::run::site::tls;

const NULL: &str = "null";
const CONTROL: &str = "control-aa";

/// One of our servers, built, and what it says of itself: how the cells of a matrix are started.
pub(crate) struct Cells {
    pub(crate) subject: &'static Subject,
    executable: PathBuf,
    backends: Backends,
    cpus: CpuList,
    /// The CPUs in the order in which a server with more and more threads takes them; `None` where all cells have the same.
    growth: Option<Vec<usize>>,
}

/// Selection of cells to run.
pub(crate) struct Selection {
    pub(crate) cells: Vec<Cell>,
    /// (cell, reason): back ends that this machine cannot run.
    pub(crate) unavailable: Vec<(String, String)>,
    pub(crate) reference: String,
    /// Peers that were asked for and are not installed.
    pub(crate) missing_peers: Vec<&'static str>,
}

impl Cells {
    /// Asks the built server for its back ends.
    pub(crate) fn ask(
        subject: &'static Subject,
        binaries: &Path,
        cpus: &CpuList,
        growth: Option<Vec<usize>>,
    ) -> Result<Self> {
        let executable = binaries.join(subject.server());
        let mut backends = Backends::ask(&executable, subject.decided())?;
        if let Some(growth) = &growth {
            backends.scale(growth.len());
        }
        Ok(Self { subject, backends, executable, cpus: cpus.clone(), growth })
    }

    /// Asks another build of a server, or another program that takes its place.
    pub(crate) fn ask_program(subject: &'static Subject, program: &Path, cpus: &CpuList) -> Result<Self> {
        let backends = Backends::ask(program, subject.decided())?;
        Ok(Self { subject, backends, executable: program.to_path_buf(), cpus: cpus.clone(), growth: None })
    }

    /// The CPUs of a cell: the run's, or as many as it has threads.
    pub(crate) fn cpus_of(&self, factors: &BTreeMap<String, String>) -> CpuList {
        let threads = factors.get(THREADS).and_then(|threads| threads.parse::<usize>().ok());
        let grown = self.growth.as_ref().zip(threads).and_then(|(growth, threads)| growth.get(..threads));
        grown.and_then(|cpus| CpuList::of(cpus).ok()).unwrap_or_else(|| self.cpus.clone())
    }

    /// True if threads of the cell's server sleep in io_uring_enter(2).
    pub(crate) fn waits_in_ring(&self, cell: &Cell) -> bool {
        self.backends.waits_in_ring(&cell.factors)
    }

    /// Writes what the cells of a run serve that not every server serves.
    pub(crate) fn prepare(&self, setup: &Setup, site: &Path) -> Result<()> {
        self.subject.prepare(&setup.cells, &setup.workloads, site, &self.executable)
    }

    /// Keys and values that a filter may name.
    pub(crate) fn vocabulary(&self, peers: &[&dyn Peer], workloads: &[String]) -> Vocabulary {
        let mut servers: Vec<String> = vec![self.backends.server.clone()];
        servers.extend(peers.iter().map(|peer| peer.name().to_owned()));
        servers.dedup();
        let mut keys = vec![("server".to_owned(), servers), ("workload".to_owned(), workloads.to_vec())];
        keys.extend(self.backends.dimensions.iter().map(|dimension| {
            (dimension.name.clone(), dimension.choices.iter().map(|choice| choice.name.clone()).collect())
        }));
        Vocabulary { keys, servers: vec![(self.backends.server.clone(), self.dimensions())] }
    }

    /// The names of the dimensions, in the order in which a path names them.
    pub(crate) fn dimensions(&self) -> Vec<String> {
        self.backends.dimensions.iter().map(|dimension| dimension.name.clone()).collect()
    }

    /// The ids of all back ends, whether or not they can run.
    pub(crate) fn ids(&self) -> Vec<String> {
        let combinations = self.backends.combinations();
        combinations.into_iter().map(|combination| self.id(&combination)).collect()
    }

    /// Our back ends that the filter selects and the reference, then peers, null server and control; `None` when the
    /// filter leaves neither a back end nor a peer. `reference` is the id or label of a cell.
    pub(crate) fn select(
        &self,
        filter: &Filter,
        peers: &[&dyn Peer],
        workloads: &[Workload],
        reference: Option<&str>,
    ) -> Result<Option<Selection>> {
        let mut unavailable = Vec::new();
        let mut ours: Vec<(Cell, bool)> = Vec::new();
        for combination in self.backends.combinations() {
            let products: Vec<&Product> =
                filter.products().iter().filter(|product| self.is_wanted(product, &combination)).collect();
            let cell = self.cell(&products, workloads, combination, &mut unavailable);
            ours.push((cell, !products.is_empty()));
        }
        let can_run = |cell: &Cell| !unavailable.iter().any(|(id, _)| *id == cell.id);
        let is_named = |cell: &Cell| reference.is_some_and(|name| cell.id == name || cell.label == name);
        let named = ours.iter().find(|(cell, _)| is_named(cell)).map(|(cell, _)| cell.clone());
        let reference = match named {
            Some(named) => named,
            None => self.default_reference(&ours, can_run)?,
        };
        if !can_run(&reference) {
            bail!("the reference {} cannot run here", reference.id);
        }
        let peers: Vec<&dyn Peer> =
            peers.iter().copied().filter(|peer| filter.accepts("server", peer.name())).collect();
        if peers.is_empty() && !ours.iter().any(|(_, is_wanted)| *is_wanted) {
            return Ok(None);
        }
        // Every ratio needs the reference.
        let reference = Cell { only_under: None, ..reference };
        let mut cells: Vec<Cell> = Vec::new();
        for (cell, is_wanted) in ours {
            if cell.id == reference.id {
                cells.push(reference.clone());
            } else if is_wanted {
                cells.push(cell);
            }
        }
        let binaries = self.executable.parent().unwrap_or_else(|| Path::new("."));
        let mut missing_peers = Vec::new();
        for peer in peers {
            match peers::cell(peer, binaries) {
                Some(cell) => cells.push(self.limited(cell, workloads)),
                None if missing_peers.contains(&peer.name()) => {}
                None => missing_peers.push(peer.name()),
            }
        }
        cells.push(self.limited(self.null_cell(), workloads));
        cells.push(Cell {
            id: CONTROL.to_owned(),
            label: "A/A control".to_owned(),
            role: Role::Control,
            description: format!("{} once more", reference.id),
            ..reference.clone()
        });
        cells.retain(|cell| cell.only_under.as_ref().is_none_or(|names| !names.is_empty()));
        unavailable.retain(|(id, _)| cells.iter().any(|cell| cell.id == *id));
        Ok(Some(Selection { cells, unavailable, reference: reference.id, missing_peers }))
    }

    /// Dimensions that the filter names are crossed, and the others keep their default; without any named, each varies
    /// alone.
    fn is_wanted(&self, product: &Product, combination: &Combination) -> bool {
        let is_named = |dimension: &str| product.names(dimension);
        let has_named = self.backends.dimensions.iter().any(|dimension| is_named(&dimension.name));
        let unnamed = combination.differs_in.iter().filter(|dimension| !is_named(dimension)).count();
        product.accepts("server", &self.backends.server)
            && combination.factors.iter().all(|(factor, level)| product.accepts(factor, level))
            && unnamed <= usize::from(!has_named)
            // What does not exist is a row only for who asked for exactly that.
            && combination.conflict.iter().all(|dimension| is_named(dimension))
    }

    /// A back end, selected for the workloads under which its choices are worth comparing or were asked for by one of
    /// the products that want it.
    fn cell(
        &self,
        products: &[&Product],
        workloads: &[Workload],
        combination: Combination,
        unavailable: &mut Vec<(String, String)>,
    ) -> Cell {
        let id = self.id(&combination);
        unavailable.extend(combination.unavailable.clone().map(|reason| (id.clone(), reason)));
        let is_asked_for = |product: &Product, workload: &Workload| {
            let mut dimensions = combination.differs_in.iter();
            product.accepts("workload", subjects::plain(&workload.name))
                && dimensions
                    .all(|dimension| product.names(dimension) || self.subject.varies(&workload.name, dimension))
        };
        let is_compared = |workload: &Workload| products.iter().any(|product| is_asked_for(product, workload));
        let only_under = names_unless_all(workloads, is_compared);
        Cell {
            id,
            label: combination.label.clone(),
            role: Role::Ours,
            server: self.backends.server.clone(),
            command: self.shown_command(&combination, workloads),
            factors: combination.factors,
            connection: combination.connection,
            description: combination.description,
            version: combination.built_on,
            config: None,
            only_under,
        }
    }

    fn id(&self, combination: &Combination) -> String {
        format!("{}/{}", self.backends.server, combination.label)
    }

    /// A cell that is not ours, selected for the workloads that it understands.
    fn limited(&self, cell: Cell, workloads: &[Workload]) -> Cell {
        let understands = |workload: &Workload| self.subject.asks(&cell, workload);
        Cell { only_under: names_unless_all(workloads, understands), ..cell }
    }

    /// Returns, of those that were selected, the one that is nearest to the server's own default, the first of several; else the
    /// default all the same.
    fn default_reference(&self, ours: &[(Cell, bool)], can_run: impl Fn(&Cell) -> bool) -> Result<Cell> {
        let differences = |cell: &&Cell| {
            let dimensions = self.backends.dimensions.iter();
            dimensions.filter(|dimension| cell.factors.get(&dimension.name) != Some(&dimension.default)).count()
        };
        let runnable = || ours.iter().filter(|(cell, _)| can_run(cell));
        let wanted = runnable().filter(|(_, is_wanted)| *is_wanted).map(|(cell, _)| cell);
        let found = wanted.min_by_key(differences).or_else(|| runnable().map(|(cell, _)| cell).min_by_key(differences));
        found.cloned().context("no back end can run here")
    }

    /// The programs that serve these cells, but for the null server's.
    pub(crate) fn programs(&self, cells: &[Cell]) -> Vec<PathBuf> {
        let binaries = self.executable.parent().unwrap_or_else(|| Path::new("."));
        let peers = cells.iter().filter_map(|cell| self.peer(cell)).map(|peer| peers::executable(peer, binaries));
        let mut programs: Vec<PathBuf> = std::iter::once(self.executable.clone()).chain(peers).collect();
        programs.dedup();
        programs
    }

    /// Returns the generator's arguments as this cell understands what they ask for.
    pub(crate) fn understood_by(&self, cell: &Cell, mut arguments: Vec<String>) -> Vec<String> {
        if self.peer(cell).is_some_and(|peer| !peer.reads_weights()) {
            let coding = site_coding();
            for word in arguments.iter_mut().filter(|word| *word == coding.field()) {
                *word = coding.field_without_weights().to_owned();
            }
        }
        arguments
    }

    pub(crate) fn peer(&self, cell: &Cell) -> Option<&'static dyn Peer> {
        self.subject.peers().iter().copied().find(|peer| cell.role == Role::Peer && peer.id() == cell.id)
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
            let arguments = self.subject.null_arguments(&workload.body_bytes.to_string(), &site.to_string_lossy());
            command.extend(arguments.into_iter().map(OsString::from));
            return Ok(command);
        }
        let combinations = self.backends.combinations();
        let combination = combinations.into_iter().find(|combination| combination.factors == cell.factors);
        let combination = combination.with_context(|| format!("no back end {}", cell.id))?;
        let mut words = self.arguments(&combination, &workload.connections.to_string());
        words.extend(workload.adds.iter().map(|word| tls::placed(word, site)));
        words.extend(self.subject.content_arguments(&cell.factors, Some(workload), &site.to_string_lossy()));
        Ok(std::iter::once(OsString::from(&self.executable)).chain(words.into_iter().map(OsString::from)).collect())
    }

    fn arguments(&self, combination: &Combination, connections: &str) -> Vec<String> {
        let flags = subjects::without(&combination.flags, &[THREADS_FLAG]);
        self.subject.server_arguments(&flags, combination.connection, &self.cpus_of(&combination.factors), connections)
    }

    fn shown_command(&self, combination: &Combination, workloads: &[Workload]) -> String {
        let mut words = self.arguments(combination, "CONNECTIONS");
        words.extend(workloads.iter().any(|workload| !workload.adds.is_empty()).then(|| "…".to_owned()));
        words.extend(self.subject.content_arguments(&combination.factors, None, "SITE"));
        let cpus = self.cpus_of(&combination.factors);
        format!("taskset -c {} {} {}", cpus.text(), self.backends.server, words.join(" "))
    }

    fn null_cell(&self) -> Cell {
        Cell {
            id: NULL.to_owned(),
            label: "null server".to_owned(),
            role: Role::Null,
            server: "loadgen".to_owned(),
            factors: [].into(),
            connection: None,
            description: self.subject.null_description().to_owned(),
            version: None,
            command: format!(
                "taskset -c {} loadgen {}",
                self.cpus.text(),
                self.subject.null_arguments("BYTES", "SITE").join(" ")
            ),
            config: None,
            only_under: None,
        }
    }
}

#[cfg(test)]
impl Cells {
    /// The server's own default.
    pub(crate) fn reference(&self) -> Result<Cell> {
        let selection = self.select(&Filter::default(), &[], &[], None)?;
        let selection = selection.context("nothing was selected")?;
        selection.cells.into_iter().find(|cell| cell.id == selection.reference).context("no reference")
    }
}

/// The workloads that hold, or `None` when all do.
fn names_unless_all(workloads: &[Workload], holds: impl Fn(&Workload) -> bool) -> Option<Vec<String>> {
    let names: Vec<String> =
        workloads.iter().filter(|&workload| holds(workload)).map(|workload| workload.name.clone()).collect();
    (names.len() < workloads.len()).then_some(names)
}

#[cfg(test)]
mod tests;
