//! `bench-matrix`: every back end of a server under every workload, beside a null server and peers.
//!
//! `setup` decides what to run, `visit` runs one cell once, this module makes the visits in the planned order,
//! `analysis` turns them into figures. `docs/benchmarking.md` says how to read what it writes.

mod analysis;
mod args;
mod backends;
mod cells;
mod cpus;
mod filter;
mod host;
mod interrupt;
mod kinds;
mod latency;
mod markdown;
pub(crate) mod model;
pub(crate) mod output;
mod peers;
mod plan;
mod presets;
mod process;
mod progress;
mod record;
#[cfg(test)]
mod samples;
mod setup;
mod site;
mod stats;
pub(crate) mod store;
mod visit;
mod warnings;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) use self::args::Args;
use self::cells::Cells;
use self::cpus::CpuList;
use self::interrupt::Interrupts;
use self::kinds::{KINDS, Kind};
use self::model::{Arrivals, Flag, SCHEMA, Setup};
use self::progress::Progress;
use self::record::{Manifest, Planned, Visit};
use self::setup::Placement;
use self::site::Scratch;
use self::store::Store;
use self::visit::Bench;
use self::warnings::LOAD_MAX;

/// Some visits failed: their cells have no figures.
const EXIT_FAILED_VISITS: u8 = 3;
/// What a shell reports of a command that SIGINT ended.
const EXIT_INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.resume {
        Some(directory) => resume(args, directory),
        None => start(args),
    }
}

fn start(args: &Args) -> Result<ExitCode> {
    // Everything that can be wrong with the flags is found before anything is built.
    let kinds = args.kinds()?;
    args.check()?;
    let host = host::facts()?;
    let (server, client) = args.cpus(host.cores)?;
    let placement = Placement { server, client };
    let _lock = setup::lock(args.force || args.list)?;
    let binaries = setup::build(&kinds)?;
    let mut servers = ask(&kinds, &binaries, &placement)?;
    let mut setups = setup::plan(args, &servers, &placement, &host)?;
    servers.retain(|cells| setups.iter().any(|setup| setup.server == cells.kind.server()));
    if args.list {
        let lists = servers.iter().zip(&setups).map(|(cells, setup)| setup::list(cells.kind, setup));
        print!("{}", lists.collect::<Vec<_>>().join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    for note in setups.iter().flat_map(|setup| &setup.notes).filter(|note| note.contains("not installed")) {
        eprintln!("note: {note}");
    }
    if host.load1 > LOAD_MAX {
        eprintln!("warning: load average {:.2}: something else is running, expect noise", host.load1);
    }
    let directory = args.out.clone().unwrap_or_else(|| setup::default_directory(&setups[0]));
    store::refuse_used(&directory)?;
    let bench = bench(&setups[0], &binaries, &placement)?;
    prepare(&servers, &setups, &bench)?;
    for (setup, cells) in setups.iter_mut().zip(&servers) {
        calibrate(setup, cells, &bench)?;
    }
    let plan = |setup| Planned { plan: plan::shuffled(&setup), setup };
    let manifest = Manifest { schema: SCHEMA.to_owned(), matrices: setups.into_iter().map(plan).collect() };
    let store = Store::create(&directory, &manifest)?;
    let estimates = manifest.matrices.iter().zip(&servers);
    let estimates = estimates.map(|(planned, cells)| setup::estimate(cells.kind, &planned.setup));
    let (visits, seconds) = estimates.fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    eprintln!("{visits} visits, about {}, into {}", setup::minutes(seconds), setup::shown_path(&directory));
    let visits = vec![Vec::new(); manifest.matrices.len()];
    measure(&manifest, visits, store, &servers, &bench)
}

fn resume(args: &Args, directory: &Path) -> Result<ExitCode> {
    let (store, manifest, visits) = Store::open(directory)?;
    let Some(Planned { setup, .. }) = manifest.matrices.first() else { bail!("the run has no matrix") };
    let now = setup::git();
    if now != setup.git && !args.force {
        let (was, is) = (&setup.git.sha, &now.sha);
        bail!(
            "the run was made from {was}, this is {is} or has other changes: figures would mix (--force resumes all the same)"
        );
    }
    let placement = Placement {
        server: CpuList::parse(&setup.pinning.server_cpus)?,
        client: CpuList::parse(&setup.pinning.client_cpus)?,
    };
    let _lock = setup::lock(args.force)?;
    let kind_of = |planned: &Planned| KINDS.into_iter().find(|kind| kind.server() == planned.setup.server);
    let Some(kinds) = manifest.matrices.iter().map(kind_of).collect::<Option<Vec<&dyn Kind>>>() else {
        bail!("the run has a server that is not known here");
    };
    let binaries = setup::build(&kinds)?;
    let servers = ask(&kinds, &binaries, &placement)?;
    let bench = bench(setup, &binaries, &placement)?;
    prepare(&servers, manifest.matrices.iter().map(|planned| &planned.setup), &bench)?;
    let visits = manifest.by_matrix(visits);
    measure(&manifest, visits, store, &servers, &bench)
}

fn ask(kinds: &[&'static dyn Kind], binaries: &Path, placement: &Placement) -> Result<Vec<Cells>> {
    kinds.iter().map(|kind| Cells::ask(*kind, binaries, &placement.server)).collect()
}

fn bench(setup: &Setup, binaries: &Path, placement: &Placement) -> Result<Bench> {
    host::raise_open_files()?;
    Ok(Bench {
        scratch: Scratch::new()?,
        loadgen: setup::loadgen(binaries),
        binaries: binaries.to_path_buf(),
        timing: placement.timing(setup.slice_s, setup.warmup_s),
        server_cpus: placement.server.clone(),
        pinning: setup.pinning.clone(),
        interrupts: Interrupts::watch()?,
    })
}

/// Writes what the cells serve. `servers` and `setups`: one for each matrix.
fn prepare<'a>(servers: &[Cells], setups: impl IntoIterator<Item = &'a Setup>, bench: &Bench) -> Result<()> {
    let site = bench.scratch.site();
    servers.iter().zip(setups).try_for_each(|(cells, setup)| cells.prepare(setup, &site))
}

/// Finds the load that the open loops offer: one closed-loop visit of the reference.
fn calibrate(setup: &mut Setup, cells: &Cells, bench: &Bench) -> Result<()> {
    if setup.workloads.iter().all(|workload| workload.arrivals == Arrivals::Closed) {
        return Ok(());
    }
    let kind = cells.kind;
    let names = [kind.calibration().to_owned()];
    let workloads = kinds::select(kind, &names, &bench.timing, setup.quick);
    let reference = setup.cells.iter().find(|cell| cell.id == setup.reference);
    let (Some(reference), Some(workload)) = (reference, workloads.first()) else { bail!("nothing to calibrate with") };
    let Some(attempt) = bench.visit(cells, reference, workload) else { bail!("interrupted before the first visit") };
    match attempt.measured {
        Some(measured) if !attempt.flags.iter().copied().any(Flag::is_fatal) => {
            kinds::calibrate(kind, &mut setup.workloads, measured.throughput_rps, &bench.timing);
            Ok(())
        }
        failed => {
            let errors = failed.map(|measured| format!("{:?}", measured.errors));
            let why = attempt.failure.or(errors).unwrap_or_default();
            bail!("calibration visit of {}: {why}", reference.id)
        }
    }
}

/// Makes the missing visits, writes the summary, and says how it went. `visits` and `servers`: one for each matrix.
fn measure(
    manifest: &Manifest,
    mut visits: Vec<Vec<Visit>>,
    mut store: Store,
    servers: &[Cells],
    bench: &Bench,
) -> Result<ExitCode> {
    let outcome = make_visits(manifest, &mut visits, &mut store, servers, bench);
    let report = analysis::report(manifest, &visits);
    let path = store.write_summary(&report)?;
    let is_finished = outcome?;
    for summary in &report.matrices {
        print!("{}", output::table(summary));
        for warning in &summary.warnings {
            println!("warning: {warning}");
        }
    }
    println!("report: {}", setup::shown_path(&path));
    if !is_finished {
        eprintln!("continue with: cargo xtask bench-matrix --resume {}", setup::shown_path(store.directory()));
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    let has_failed = report.matrices.iter().any(|summary| summary.progress.visits_failed > 0);
    Ok(if has_failed { ExitCode::from(EXIT_FAILED_VISITS) } else { ExitCode::SUCCESS })
}

/// Goes through the plans block by block, a block of each matrix in turn; whether it got to the end before the user
/// interrupted.
fn make_visits(
    manifest: &Manifest,
    visits: &mut [Vec<Visit>],
    store: &mut Store,
    servers: &[Cells],
    bench: &Bench,
) -> Result<bool> {
    let progress = Progress::new(manifest, visits);
    let blocks = manifest.matrices.iter().map(|planned| planned.plan.len()).max().unwrap_or(0);
    for block in 0..blocks {
        for ((planned, cells), visits) in manifest.matrices.iter().zip(servers).zip(visits.iter_mut()) {
            if !make_block(block, planned, visits, store, cells, bench, &progress)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn make_block(
    block: usize,
    planned: &Planned,
    visits: &mut Vec<Visit>,
    store: &mut Store,
    cells: &Cells,
    bench: &Bench,
    progress: &Progress,
) -> Result<bool> {
    let setup = &planned.setup;
    let Some(slots) = planned.plan.get(block) else { return Ok(true) };
    let block = u32::try_from(block)?;
    loop {
        let retries_max = if plan::has_time_to_repeat(planned, visits) { setup.retries_max } else { 0 };
        let Some(due) = plan::next(block, slots.len(), visits, retries_max) else { return Ok(true) };
        if bench.interrupts.are_pending() {
            return Ok(false);
        }
        let slot = &slots[due.slot as usize];
        let cell = setup.cells.iter().find(|cell| cell.id == slot.cell);
        let workload = setup.workloads.iter().find(|workload| workload.name == slot.workload);
        let (Some(cell), Some(workload)) = (cell, workload) else {
            bail!("the plan names {} {}, which the setup does not have", slot.cell, slot.workload);
        };
        progress.begin(block, cell, workload, due.attempt);
        let started_utc = setup::now_utc();
        let began = Instant::now();
        let Some(attempt) = bench.visit(cells, cell, workload) else { return Ok(false) };
        let visit = Visit {
            v: 2,
            matrix: setup.server.clone(),
            block,
            slot: due.slot,
            attempt: due.attempt,
            cell: cell.id.clone(),
            workload: workload.name.clone(),
            started_utc,
            elapsed_s: Duration::as_secs_f64(&began.elapsed()),
            valid: attempt.measured.is_some() && !attempt.flags.iter().copied().any(Flag::is_invalid),
            flags: attempt.flags,
            failure: attempt.failure,
            measured: attempt.measured,
            host: attempt.host,
        };
        store.append(&visit)?;
        progress.end(&visit);
        visits.push(visit);
    }
}
