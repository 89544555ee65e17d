//! `--program base=PATH --program change=PATH`: two builds of one server side by side, until it is known if the change costs more.

mod verdict;

use std::{
    cell::RefCell,
    fs::{self, File},
    io::Write as _,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use results::{Cell, Role, Workload};

use self::verdict::{Comparison, Instructions, Outcome, Rule, Verdict};
use super::EXIT_REGRESSION;
use crate::{
    judge::{
        paired::{self, ERROR, Pair, Sequence},
        stats::median,
    },
    plan::{
        cells::Cells,
        cpus::CpuList,
        filter::Filter,
        setup,
        spec::ProgramsSpec,
        subjects::{self, Subject, Timing},
    },
    run::{
        host, instructions,
        interrupt::Interrupts,
        machine::Machine,
        pair::{RoundShape, Running},
        process::Process,
        quiet,
        session::{EXIT_INCOMPLETE, EXIT_INTERRUPTED},
        site::Scratch,
        visit::Bench,
    },
    workspace,
};

/// Time for each workload where nobody chose another.
const WORKLOAD_BUDGET: Duration = Duration::from_secs(300);

/// One of the two: a program and the configuration in which it runs.
struct Contestant {
    cells: Cells,
    cell: Cell,
    log: PathBuf,
}

pub(crate) fn run(spec: &ProgramsSpec) -> Result<ExitCode> {
    let _lock = setup::lock(spec.is_forced)?;
    let binaries = if spec.is_built { setup::built(&[], &spec.profile)? } else { setup::build(&[], &spec.profile)? };
    if spec.counts_instructions && !instructions::is_possible() {
        bail!(crate::usage("--witness instructions: valgrind is not installed"));
    }
    if !spec.is_forced {
        quiet::wait()?;
    }
    let bench = bench(spec.placement.timing(1.0, 0.0, None), setup::loadgen(&binaries), &binaries)?;
    let timing = &bench.timing;
    // Keys and files are stored anew in each round: those of a quick run.
    let known = subjects::select(spec.subject, &spec.workloads, timing, true);
    let (workloads, left_out): (Vec<Workload>, Vec<Workload>) = known.into_iter().partition(subjects::takes_turns);
    for workload in &left_out {
        eprintln!("note: {} is left out: two programs take turns in closed loops only", workload.name);
    }
    if workloads.is_empty() {
        bail!(crate::usage("--program: no workload is left that can be loaded in turns"));
    }
    let [base, change] = &spec.programs;
    let contestants =
        [contestant(spec, base, &workloads, &bench, "base")?, contestant(spec, change, &workloads, &bench, "change")?];
    let directory = directory(spec)?;
    let rounds = File::create_new(directory.join("rounds.jsonl")).context("rounds.jsonl")?;
    let budget = match spec.time_budget_s {
        Some(seconds) => Duration::from_secs_f64(seconds) / u32::try_from(workloads.len()).unwrap_or(1),
        None => WORKLOAD_BUDGET,
    };
    let rule = Rule { threshold: spec.gate.fail_on_regression };
    let (shape, random) = (spec.shape, fastrand::Rng::new());
    let mut contest = Contest { bench: &bench, contestants, rule, shape, budget, rounds, random };
    let mut comparisons = Vec::new();
    for workload in &workloads {
        let Some(mut comparison) = contest.compare(workload)? else { break };
        if spec.counts_instructions && !bench.interrupts.are_pending() {
            comparison.instructions = Some(contest.instructions(workload));
        }
        eprintln!("{}", comparison.line());
        comparisons.push(comparison);
        if bench.interrupts.are_pending() {
            break;
        }
    }
    let is_whole = comparisons.len() == workloads.len() && !bench.interrupts.are_pending();
    let outcome = Outcome::new(spec.subject.server(), &spec.programs, rule, comparisons, workspace::now_utc());
    write(&directory.join("gate.json"), &serde_json::to_string_pretty(&outcome)?)?;
    let comment = outcome.markdown();
    write(&directory.join("comment.md"), &comment)?;
    print!("{comment}");
    let is = |verdict| outcome.verdict == verdict;
    Ok(match () {
        () if !is_whole => ExitCode::from(EXIT_INTERRUPTED),
        () if is(Verdict::Regressed) && rule.threshold.is_some() => ExitCode::from(EXIT_REGRESSION),
        () if is(Verdict::Unknown) && spec.gate.strict => ExitCode::from(EXIT_INCOMPLETE),
        () => ExitCode::SUCCESS,
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}", path.display()))
}

fn directory(spec: &ProgramsSpec) -> Result<PathBuf> {
    let stamp: String = workspace::now_utc().chars().filter(|it| !matches!(it, '-' | ':')).collect();
    let default = || workspace::results().join(format!("gate-{stamp}"));
    let directory = spec.out.clone().unwrap_or_else(default);
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    Ok(directory)
}

/// Returns the means to drive servers of this machine, whose peers are in `binaries`.
pub(crate) fn bench(timing: Timing, loadgen: PathBuf, binaries: &Path) -> Result<Bench> {
    host::raise_open_files()?;
    Ok(Bench {
        scratch: Scratch::new()?,
        loadgen,
        binaries: binaries.to_path_buf(),
        timing,
        machine: Machine::Here,
        host: IpAddr::V4(Ipv4Addr::LOCALHOST),
        agents: Vec::new(),
        histograms: None,
        turns: [].into(),
        interrupts: Interrupts::watch()?,
        checked: RefCell::default(),
    })
}

fn contestant(
    spec: &ProgramsSpec,
    program: &Path,
    workloads: &[Workload],
    bench: &Bench,
    name: &str,
) -> Result<Contestant> {
    let (cells, cell) =
        prepared(spec.subject, program, &spec.placement.server, workloads, bench, spec.reference.as_deref())?;
    Ok(Contestant { cells, cell, log: bench.scratch.path().join(format!("server-{name}.log")) })
}

/// Asks a program for its back ends, and prepares what its default, or the one that was named, serves.
pub(crate) fn prepared(
    subject: &'static Subject,
    program: &Path,
    cpus: &CpuList,
    workloads: &[Workload],
    bench: &Bench,
    reference: Option<&str>,
) -> Result<(Cells, Cell)> {
    let cells = Cells::ask_program(subject, program, cpus)?;
    let selection = cells.select(&Filter::default(), &[], workloads, reference)?;
    let cell = selection.and_then(|selection| {
        let reference = selection.reference;
        selection.cells.into_iter().find(|cell| cell.id == reference && cell.role == Role::Ours)
    });
    let cell = cell.with_context(|| format!("{}: no back end can run here", program.display()))?;
    subject.prepare(std::slice::from_ref(&cell), workloads, &bench.scratch.site(), program)?;
    Ok((cells, cell))
}

struct Contest<'a> {
    bench: &'a Bench,
    /// Base and change.
    contestants: [Contestant; 2],
    rule: Rule,
    shape: RoundShape,
    /// For each workload.
    budget: Duration,
    rounds: File,
    random: fastrand::Rng,
}

impl Contest<'_> {
    /// Compares the two under a workload until it is known, or time is over. `None` when the user asked to stop at once.
    fn compare(&mut self, workload: &Workload) -> Result<Option<Comparison>> {
        let began = Instant::now();
        let (mut cpu, mut p99, mut costs) = (Sequence::default(), Sequence::default(), [Vec::new(), Vec::new()]);
        loop {
            let Some(pairs) = self.round(workload)? else { return Ok(None) };
            let values = paired::round_values(&pairs);
            let line = serde_json::json!({ "workload": workload.name, "values": values, "pairs": pairs });
            writeln!(self.rounds, "{line}").context("rounds.jsonl")?;
            if let Some(values) = values {
                cpu.push(values.cpu);
                p99.push(values.p99);
                costs[0].extend(pairs.iter().map(|pair| pair.base.cost_ns()));
                costs[1].extend(pairs.iter().map(|pair| pair.change.cost_ns()));
            }
            let (known, seconds) = (cpu.known(ERROR), began.elapsed().as_secs_f64());
            let verdict = self.rule.judge(known);
            let is_over = began.elapsed() >= self.budget || self.bench.interrupts.are_pending();
            if verdict != Verdict::Unknown || is_over {
                return Ok(Some(Comparison {
                    workload: workload.name.clone(),
                    title: workload.title.clone(),
                    verdict,
                    cpu: known,
                    p99: p99.known(ERROR),
                    base_us: median(&costs[0]) / 1e3,
                    change_us: median(&costs[1]) / 1e3,
                    rounds: cpu.rounds(),
                    seconds,
                    instructions: None,
                }));
            }
        }
    }

    /// Counts the instructions of both, one after the other.
    fn instructions(&self, workload: &Workload) -> Instructions {
        let count = |contestant: &Contestant| {
            instructions::per_request(self.bench, &contestant.cells, &contestant.cell, workload)
                .map_err(|error| format!("{error:#}"))
        };
        let [base, change] = &self.contestants;
        match count(base).and_then(|base| Ok((base, count(change)?))) {
            Ok((base, change)) => Instructions::Counted { base, change },
            Err(reason) => Instructions::NotCounted { reason },
        }
    }

    /// Two fresh processes, which take turns.
    fn round(&mut self, workload: &Workload) -> Result<Option<Vec<Pair>>> {
        let [base, change] = &self.contestants;
        // Which of them starts first must not matter.
        let ((base_server, base_address), (change_server, change_address)) = if self.random.bool() {
            let first = self.start(base, workload)?;
            (first, self.start(change, workload)?)
        } else {
            let first = self.start(change, workload)?;
            (self.start(base, workload)?, first)
        };
        let sides = [
            Running { cells: &base.cells, cell: &base.cell, server: &base_server, address: &base_address },
            Running { cells: &change.cells, cell: &change.cell, server: &change_server, address: &change_address },
        ];
        let pairs = self.bench.side_by_side(&sides, workload, self.shape, &mut self.random)?;
        base_server.stop().context("base")?;
        change_server.stop().context("change")?;
        Ok(pairs)
    }

    fn start(&self, contestant: &Contestant, workload: &Workload) -> Result<(Process, String)> {
        let Contestant { cells, cell, log } = contestant;
        let (server, address) = self.bench.start_logged(cells, cell, workload, &[], log)?;
        match self.bench.fill(cells, cell, workload, &server, &address)? {
            Some(_) => Ok((server, address)),
            None => bail!("interrupted"),
        }
    }
}
