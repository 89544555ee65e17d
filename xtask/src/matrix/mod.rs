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
mod latency;
pub(crate) mod model;
mod output;
mod peers;
mod plan;
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
mod workloads;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) use self::args::Args;
use self::cpus::CpuList;
use self::interrupt::Interrupts;
use self::model::{Arrivals, Flag, SCHEMA, Setup};
use self::progress::Progress;
use self::record::{Manifest, Visit};
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
    let (servers, _, _) = (args.servers()?, args.workloads()?, args.peers()?);
    let host = host::facts()?;
    let (server, client) = args.cpus(host.cores)?;
    let placement = Placement { server, client };
    let _lock = setup::lock(args.force || args.list)?;
    let binaries = setup::build(servers)?;
    let cells = setup::ask_servers(servers, &binaries, &placement.server)?;
    let mut setup = setup::plan(args, &cells, &placement, host)?;
    if args.list {
        print!("{}", setup::list(&setup));
        return Ok(ExitCode::SUCCESS);
    }
    for note in setup.notes.iter().filter(|note| note.contains("not installed")) {
        eprintln!("note: {note}");
    }
    if setup.host.load1 > LOAD_MAX {
        eprintln!("warning: load average {:.2}: something else is running, expect noise", setup.host.load1);
    }
    let directory = args.out.clone().unwrap_or_else(|| setup::default_directory(&setup));
    store::refuse_used(&directory)?;
    let bench = bench(&setup, cells, &binaries, &placement)?;
    calibrate(&mut setup, &bench)?;
    let manifest = Manifest { schema: SCHEMA.to_owned(), plan: plan::shuffled(&setup), setup };
    let store = Store::create(&directory, &manifest)?;
    let (visits, seconds) = setup::estimate(&manifest.setup);
    eprintln!("{visits} visits, about {}, into {}", setup::minutes(seconds), setup::shown_path(&directory));
    measure(&manifest, Vec::new(), store, &bench)
}

fn resume(args: &Args, directory: &Path) -> Result<ExitCode> {
    let (store, manifest, visits) = Store::open(directory)?;
    let setup = &manifest.setup;
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
    let mut servers: Vec<String> = Vec::new();
    for cell in setup.cells.iter().filter(|cell| cell.role == model::Role::Ours) {
        if !servers.contains(&cell.server) {
            servers.push(cell.server.clone());
        }
    }
    let binaries = setup::build(&servers)?;
    let cells = setup::ask_servers(&servers, &binaries, &placement.server)?;
    let bench = bench(setup, cells, &binaries, &placement)?;
    measure(&manifest, visits, store, &bench)
}

fn bench(setup: &Setup, cells: cells::Cells, binaries: &Path, placement: &Placement) -> Result<Bench> {
    host::raise_open_files()?;
    Ok(Bench {
        scratch: Scratch::new()?,
        cells,
        loadgen: setup::loadgen(binaries),
        timing: placement.timing(setup.slice_s, setup.warmup_s),
        server_cpus: placement.server.clone(),
        pinning: setup.pinning.clone(),
        interrupts: Interrupts::watch()?,
    })
}

/// Finds the load that the open loops offer: one closed-loop visit of the reference.
fn calibrate(setup: &mut Setup, bench: &Bench) -> Result<()> {
    if setup.workloads.iter().all(|workload| workload.arrivals == Arrivals::Closed) {
        return Ok(());
    }
    let names = [workloads::CALIBRATION.to_owned()];
    let workloads = workloads::select(&names, &bench.timing);
    let reference = setup.cells.iter().find(|cell| cell.id == setup.reference);
    let (Some(reference), Some(workload)) = (reference, workloads.first()) else { bail!("nothing to calibrate with") };
    let Some(attempt) = bench.visit(reference, workload) else { bail!("interrupted before the first visit") };
    match attempt.measured {
        Some(measured) if !attempt.flags.iter().copied().any(Flag::is_fatal) => {
            workloads::calibrate(&mut setup.workloads, measured.throughput_rps, &bench.timing);
            Ok(())
        }
        failed => {
            let errors = failed.map(|measured| format!("{:?}", measured.errors));
            let why = attempt.failure.or(errors).unwrap_or_default();
            bail!("calibration visit of {}: {why}", reference.id)
        }
    }
}

/// Makes the missing visits, writes the summary, and says how it went.
fn measure(manifest: &Manifest, mut visits: Vec<Visit>, mut store: Store, bench: &Bench) -> Result<ExitCode> {
    let outcome = make_visits(manifest, &mut visits, &mut store, bench);
    let summary = analysis::summarise(manifest, &visits);
    let report = store.write_summary(&summary)?;
    let is_finished = outcome?;
    print!("{}", output::table(&summary));
    for warning in &summary.warnings {
        println!("warning: {warning}");
    }
    println!("report: {}", setup::shown_path(&report));
    if !is_finished {
        eprintln!("continue with: cargo xtask bench-matrix --resume {}", setup::shown_path(store.directory()));
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    }
    Ok(if summary.progress.visits_failed > 0 { ExitCode::from(EXIT_FAILED_VISITS) } else { ExitCode::SUCCESS })
}

/// Goes through the plan; whether it got to its end before the user interrupted.
fn make_visits(manifest: &Manifest, visits: &mut Vec<Visit>, store: &mut Store, bench: &Bench) -> Result<bool> {
    let setup = &manifest.setup;
    let progress = Progress::new(manifest, visits);
    for (block, slots) in (0..).zip(&manifest.plan) {
        loop {
            let retries_max = if plan::has_time_to_repeat(manifest, visits) { setup.retries_max } else { 0 };
            let Some(due) = plan::next(block, slots.len(), visits, retries_max) else { break };
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
            let Some(attempt) = bench.visit(cell, workload) else { return Ok(false) };
            let visit = Visit {
                v: 1,
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
    Ok(true)
}
