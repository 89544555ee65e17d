//! `bench-matrix`: every back end of a server under every workload, beside a null server and peers.
//!
//! [`run`] is the command: `plan` makes a setup and an order of visits from arguments and the servers' descriptors, `run` makes
//! the visits, `judge` turns them into figures, `commands` works on stored runs. [`read_report`] is for other programs that
//! have a run's directory. `docs/benchmarking.md` says how to read what is written.
//!
//! It must never know a server or a driver by name (crate `servers` and `--list-backends` say what is to be known), never draw
//! (crate `report` does), and `judge` must read nothing but visits: the same files give the same figures at any time.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "bench-matrix talks to its user")]

mod commands;
mod judge;
mod plan;
#[cfg(test)]
mod report_tests;
mod run;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod schema_tests;
pub mod store;
mod tidy;
mod usage;
pub mod workspace;

use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Result, bail};
use results::{
    Cell, Flag, Host, NotRun, RELEASE, Report, Role, SCHEMA, Setup,
    record::{self, Manifest, Planned},
};

use self::{
    commands::baseline,
    plan::{
        backends, builds,
        cells::Cells,
        cpus::CpuList,
        order, preview,
        setup::{self, Placement},
        spec::{Listing, ResumeSpec, RunSpec, SessionSpec, Task},
        subjects::{self, Subject},
    },
    run::{
        host,
        interrupt::Interrupts,
        machine::{self, Machine},
        pair::BesideReference,
        quiet,
        session::{self, Session},
        site::Scratch,
        visit::Bench,
    },
    store::Store,
};
pub use self::{
    commands::client_cost,
    plan::args::Args,
    usage::{UsageError, usage},
};

/// Does what the arguments ask for.
///
/// # Errors
/// The arguments cannot be ([`UsageError`]), or the task fails.
pub fn run(args: Args) -> Result<ExitCode> {
    // Everything that can be wrong with the flags is found before anything is built.
    match Task::from_args(args)? {
        Task::Start(spec) => start(&spec),
        Task::Show(spec, listing) => show(&spec, listing),
        Task::Resume(spec) => resume(&spec),
        Task::Programs(spec) => commands::gate::run(&spec),
        Task::Process(command) => commands::run(&command),
    }
}

/// Reads a run's directory and judges it: the summary as `summary.json` has it.
///
/// ```no_run
/// # fn main() -> anyhow::Result<()> {
/// let report = matrix::read_report("bench-results/20260101T000000Z-0123456789".as_ref())?;
/// for summary in &report.matrices {
///     println!("{}: {} comparisons", summary.setup.server, summary.comparisons.len());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// It is no run's directory, or its files cannot be read.
pub fn read_report(directory: &Path) -> Result<Report> {
    commands::load(directory)
}

/// Returns cargo's arguments by which a run of all servers builds what it measures and what measures.
pub fn build_arguments(profile: &str) -> Vec<String> {
    setup::build_arguments(&subjects::SUBJECTS.iter().collect::<Vec<_>>(), profile)
}

/// A planned run: a setup for each of the servers.
struct Plan {
    servers: Vec<Cells>,
    setups: Vec<Setup>,
    binaries: PathBuf,
}

fn plan(spec: &RunSpec, host: &Host) -> Result<Plan> {
    let subjects: Vec<&'static Subject> = spec.subjects.iter().map(|own| own.subject).collect();
    let binaries = binaries(&subjects, &spec.profile, &spec.session)?;
    let growth = spec.is_scaling().then(|| spec.placement.growth(host.cores));
    let mut servers = ask(&subjects, &binaries, &spec.placement, growth.as_deref())?;
    let setups = setup::plan(spec, &servers, host)?;
    servers.retain(|cells| setups.iter().any(|setup| setup.server == cells.subject.server()));
    Ok(Plan { servers, setups, binaries })
}

fn show(spec: &RunSpec, listing: Listing) -> Result<ExitCode> {
    let Plan { servers, setups, .. } = plan(spec, &host::facts()?)?;
    let matrices: Vec<_> = servers.iter().zip(&setups).map(|(cells, setup)| (cells.subject, setup)).collect();
    print!(
        "{}",
        match listing {
            Listing::Combinations => preview::lists(&matrices),
            Listing::Visits => preview::dry_run(&matrices),
        }
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns what a run is going to do, for the minutes in which it is built: the servers are not there yet to be asked for
/// their back ends.
fn announcement(spec: &RunSpec) -> String {
    let servers: Vec<&str> = spec.subjects.iter().map(|own| own.subject.server()).collect();
    let build = format!("builds {} and loadgen (some minutes the first time)", servers.join(", "));
    let limit = spec
        .session
        .ends_within_s
        .map_or_else(String::new, |limit_s| format!(" for at most {}", plan::minutes::minutes(limit_s)));
    let kind = if spec.is_quick { "a quick run, which ranks what turns tell" } else { "a full run" };
    format!("bench-matrix: {kind}: {build}, then measures{limit}")
}

fn start(spec: &RunSpec) -> Result<ExitCode> {
    let host = host::facts()?;
    let _lock = setup::lock(spec.session.is_forced)?;
    if !spec.session.is_built {
        eprintln!("{}", announcement(spec));
    }
    let Plan { servers, mut setups, binaries } = plan(spec, &host)?;
    let under_valgrind = ask_under_valgrind(&servers, &setups, &spec.placement, &spec.session)?;
    let notes = setups.iter().flat_map(|setup| &setup.notes);
    let mut notes: Vec<&String> = notes
        .filter(|note| {
            note.contains("not installed")
                || note.starts_with("nginx is installed without")
                || note.starts_with("Time budget")
                || note.starts_with("System calls")
                || note.starts_with("Instructions")
        })
        .collect();
    notes.dedup();
    for note in notes {
        eprintln!("note: {note}");
    }
    let directory = spec.out.clone().unwrap_or_else(|| setup::default_directory(&setups[0]));
    store::refuse_used(&directory)?;
    refuse_busy(&spec.session, &setups[0])?;
    let bench = bench(&setups.iter().collect::<Vec<_>>(), &binaries, &spec.placement)?;
    prepare(&servers, &setups, &bench)?;
    let there = probe_remote(&servers, &setups, &bench)?;
    for (setup, cells) in setups.iter_mut().zip(&servers) {
        setup.notes.extend(there.clone());
        if !compare_deliveries(setup, cells, &bench)? || !calibrate(setup, cells, &bench)? {
            eprintln!("interrupted before the first visit");
            return Ok(ExitCode::from(session::EXIT_INTERRUPTED));
        }
    }
    let plan = |setup| Planned { plan: order::shuffled(&setup), setup };
    let manifest = Manifest { schema: SCHEMA.to_owned(), matrices: setups.into_iter().map(plan).collect() };
    let store = Store::create(&directory, &manifest)?;
    let matrices = manifest.matrices.iter().zip(&servers).map(|(planned, cells)| (cells.subject, &planned.setup));
    eprintln!("{}, into {}", preview::all(matrices), workspace::shown_path(&directory));
    let visits = vec![Vec::new(); manifest.matrices.len()];
    measure(&spec.session, &manifest, visits, store, &servers, &under_valgrind, &bench)
}

fn resume(spec: &ResumeSpec) -> Result<ExitCode> {
    let session = &spec.session;
    let (store, manifest, visits) = Store::open(&spec.directory)?;
    let Some(Planned { setup, .. }) = manifest.matrices.first() else { bail!("the run has no matrix") };
    let now = setup::git();
    if now != setup.git && !session.is_forced {
        let (was, is) = (&setup.git.sha, &now.sha);
        bail!(
            "the run was made from {was}, this is {is} or has other changes: figures would mix (--force resumes all the same)"
        );
    }
    let placement = Placement {
        server: CpuList::parse(&setup.pinning.server_cpus)?,
        client: CpuList::parse(&setup.pinning.client_cpus)?,
    };
    let _lock = setup::lock(session.is_forced)?;
    let subject_of = |planned: &Planned| {
        let known = subjects::named(&planned.setup.server)?;
        Some(if spec.programs.is_empty() { known } else { known.with_programs(&spec.programs) })
    };
    let Some(subjects) = manifest.matrices.iter().map(subject_of).collect::<Option<Vec<&Subject>>>() else {
        bail!("the run has a server that is not known here");
    };
    let binaries = binaries(&subjects, &setup.profile, session)?;
    let is_scaled =
        |planned: &Planned| planned.setup.cells.iter().any(|cell| cell.factors.contains_key(backends::THREADS));
    let growth = manifest.matrices.iter().any(is_scaled).then(|| placement.growth(setup.host.cores));
    let servers = ask(&subjects, &binaries, &placement, growth.as_deref())?;
    for (planned, cells) in manifest.matrices.iter().zip(&servers) {
        let is_unknown = |cell: &&Cell| cell.role == Role::Peer && cells.peer(cell).is_none();
        if let Some(Cell { id, .. }) = planned.setup.cells.iter().find(is_unknown) {
            bail!(usage(format!("the run has a row of a program: name it again with --program {id}=PATH")));
        }
    }
    refuse_busy(session, setup)?;
    let setups = || manifest.matrices.iter().map(|planned| &planned.setup);
    let bench = bench(&setups().collect::<Vec<_>>(), &binaries, &placement)?;
    prepare(&servers, setups(), &bench)?;
    probe_remote(&servers, setups(), &bench)?;
    let visits = manifest.by_matrix(visits);
    let under_valgrind = ask_under_valgrind(&servers, setups(), &placement, session)?;
    measure(session, &manifest, visits, store, &servers, &under_valgrind, &bench)
}

fn binaries(subjects: &[&Subject], profile: &str, session: &SessionSpec) -> Result<PathBuf> {
    if session.is_built { setup::built(subjects, profile) } else { setup::build(subjects, profile) }
}

fn ask(
    subjects: &[&'static Subject],
    binaries: &Path,
    placement: &Placement,
    growth: Option<&[usize]>,
) -> Result<Vec<Cells>> {
    let growth = growth.map(<[usize]>::to_vec);
    subjects.iter().map(|subject| Cells::ask(subject, binaries, &placement.server, growth.clone())).collect()
}

/// Builds and asks the servers as valgrind can run them, if the run counts instructions.
fn ask_under_valgrind<'a>(
    servers: &[Cells],
    setups: impl IntoIterator<Item = &'a Setup>,
    placement: &Placement,
    session: &SessionSpec,
) -> Result<Vec<Cells>> {
    let Some(setup) = setups.into_iter().find(|setup| setup.instructions) else { return Ok(Vec::new()) };
    let subjects: Vec<&'static Subject> = servers.iter().map(|cells| cells.subject).collect();
    let directory = builds::under_valgrind(&subjects, &setup.profile, session.is_built)?;
    ask(&subjects, &directory, placement, None)
}

/// For all matrices, of which there is one; but for the longest warm-up, which some may have, all are decided alike.
fn bench(setups: &[&Setup], binaries: &Path, placement: &Placement) -> Result<Bench> {
    let setup = setups[0];
    let max_warmup_s = setups.iter().find_map(|setup| setup.max_warmup_s);
    host::raise_open_files()?;
    let scratch = Scratch::new()?;
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Ok(Bench {
        machine: Machine::of(setup.remote.as_ref()),
        host: setup.remote.as_ref().map_or(loopback, |remote| remote.host),
        agents: setup.remote.as_ref().map(|remote| remote.agents.clone()).unwrap_or_default(),
        histograms: setup.histograms.then(|| scratch.path().join("histograms")),
        scratch,
        loadgen: setup::loadgen(binaries),
        binaries: binaries.to_path_buf(),
        timing: placement.timing(setup.slice_s, setup.warmup_s, max_warmup_s),
        turns: setups.iter().filter_map(|setup| Some((setup.server.clone(), BesideReference::of(setup)?))).collect(),
        interrupts: Interrupts::watch()?,
        checked: RefCell::default(),
    })
}

/// Writes what the cells serve. `servers` and `setups`: one for each matrix.
fn prepare<'a>(servers: &[Cells], setups: impl IntoIterator<Item = &'a Setup>, bench: &Bench) -> Result<()> {
    let site = bench.scratch.site();
    servers.iter().zip(setups).try_for_each(|(cells, setup)| cells.prepare(setup, &site))
}

/// A run whose figures count is not begun beside something else; a quick one says so and is.
fn refuse_busy(session: &SessionSpec, setup: &Setup) -> Result<()> {
    match setup {
        _ if session.is_forced || setup.profile != RELEASE => Ok(()),
        _ if setup.quick => quiet::warn(),
        _ => quiet::wait(),
    }
}

/// Checks, where the servers run on another machine, that what they need is there, and describes it in a sentence.
fn probe_remote<'a>(
    servers: &[Cells],
    setups: impl IntoIterator<Item = &'a Setup>,
    bench: &Bench,
) -> Result<Option<String>> {
    let Machine::Remote(prefix) = &bench.machine else { return Ok(None) };
    let mut programs = vec![bench.loadgen.clone()];
    for (cells, setup) in servers.iter().zip(setups) {
        programs.extend(cells.programs(&setup.cells));
    }
    machine::probe(prefix, &programs, &bench.scratch.site()).map(Some)
}

/// Compares what the cells deliver, where all have to deliver the same, and leaves out those that do not, with the reason.
/// `false` when it was interrupted.
fn compare_deliveries(setup: &mut Setup, cells: &Cells, bench: &Bench) -> Result<bool> {
    let mut different = Vec::new();
    let is_compared = |cell: &Cell| matches!(cell.role, Role::Ours | Role::Peer);
    for (cell, workload) in setup.selected().filter(|(cell, workload)| {
        is_compared(cell)
            && cells.subject.compares_deliveries(workload)
            && setup.why_not(&cell.id, &workload.name).is_none()
    }) {
        match bench.check(cells, cell, workload) {
            Ok(Some(())) => {}
            Ok(None) => return Ok(false),
            Err(_) if bench.interrupts.are_pending() => return Ok(false),
            Err(error) if cell.id == setup.reference => {
                return Err(error.context(format!("{} under {}", cell.id, workload.name)));
            }
            Err(error) => {
                let (cell, workload) = (cell.id.clone(), workload.name.clone());
                eprintln!("note: {cell} is left out under {workload}: {error:#}");
                different.push(NotRun { cell, workload, reason: format!("{error:#}") });
            }
        }
    }
    setup.not_run.extend(different);
    Ok(true)
}

/// Finds the load that the open loops offer: one closed-loop visit of the reference for each capacity that they offer a
/// fraction of. `false` when it was interrupted.
fn calibrate(setup: &mut Setup, cells: &Cells, bench: &Bench) -> Result<bool> {
    let open = setup.workloads.iter().filter(|workload| workload.is_open());
    let names: BTreeSet<&str> = open.map(|workload| cells.subject.calibration(&workload.name)).collect();
    for name in names {
        if !calibrate_with(name, setup, cells, bench)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn calibrate_with(calibration: &str, setup: &mut Setup, cells: &Cells, bench: &Bench) -> Result<bool> {
    let subject = cells.subject;
    let names = [calibration.to_owned()];
    let workloads = subjects::select(subject, &names, &bench.timing, setup.quick);
    let reference = setup.cells.iter().find(|cell| cell.id == setup.reference);
    let (Some(reference), Some(workload)) = (reference, workloads.first()) else { bail!("nothing to calibrate with") };
    let Some(attempt) = bench.visit(cells, reference, workload) else { return Ok(false) };
    match attempt.measured {
        Some(measured) if !attempt.flags.iter().copied().any(Flag::is_fatal) => {
            let capacity_rps = measured.throughput_rps;
            subjects::calibrate(subject, &mut setup.workloads, calibration, capacity_rps, &bench.timing);
            Ok(!bench.interrupts.are_pending())
        }
        failed => {
            let errors = failed.map(|measured| format!("{:?}", measured.errors));
            let why = attempt.failure.or(errors).unwrap_or_default();
            bail!("calibration visit of {}: {why}", reference.id)
        }
    }
}

/// Makes the missing visits; then keeps the run as a baseline, or compares it with one, where asked to.
fn measure(
    session: &SessionSpec,
    manifest: &Manifest,
    visits: Vec<Vec<record::Visit>>,
    store: Store,
    servers: &[Cells],
    under_valgrind: &[Cells],
    bench: &Bench,
) -> Result<ExitCode> {
    let directory = store.directory().to_path_buf();
    let ends_within = session.ends_within_s.map(Duration::from_secs_f64);
    let (code, report) = Session { manifest, visits, store, servers, under_valgrind, bench, ends_within }.run()?;
    // What was interrupted or failed is no baseline, and is not judged.
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let judged = match &session.baseline {
        Some(name) => commands::compare_with(name, &report, &directory, session.gate)?,
        None => None,
    };
    if let Some(name) = &session.save_baseline {
        println!("baseline {name}: {}", workspace::shown_path(&baseline::save(&directory, name)?));
    }
    Ok(judged.unwrap_or(code))
}
