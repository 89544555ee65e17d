//! `bench-matrix calibrate`: blind proof of what the instrument sees on this machine.
//!
//! Another process, the [`keeper`], draws effects, keeps them to itself, and starts pairs of servers that burn accordingly: null
//! servers, or real ones. This one sees two processes, lets them take turns and judges. Only when all judgements are written does it ask
//! for the labels, and checks that they are those that were sealed before the first pair.

mod burners;
mod choice;
mod keeper;
mod pilot;
mod verdict;

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use report::roc;
use results::{Host, StoredCalibration};
use serde::{Deserialize, Serialize};

pub(crate) use self::keeper::{KeepArgs, keep};
use self::{
    choice::Choice,
    keeper::{Base, BaseOrder, Keeper, Running, SealOrder},
    verdict::Calibration,
};
use crate::{
    judge::paired::{self, Decision, ERROR, Known, Pair, RoundValues, Sequence},
    plan::{
        args::seconds,
        cpus::CpuList,
        setup,
        spec::{default_client_cpu, default_server_cpu},
    },
    run::{
        host,
        interrupt::Interrupts,
        pair::{Contender, PairBench, SHAPE},
        quiet,
        site::Scratch,
    },
    usage, workspace,
};

/// Differences of cost that matter: what a comparison that ends as "alike" would have seen.
pub(crate) const RESOLUTION: f64 = 0.01;
/// The same of the 99th percentile, which a busy machine moves more.
const P99_RESOLUTION: f64 = 0.1;
const CONNECTIONS: &str = "64";
/// Beginning of the name of a calibration's directory, and its file.
const PREFIX: &str = "calibration-";
const FILE: &str = "calibration.json";

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CalibrateArgs {
    /// Pairs of servers to judge; about two of five are equal
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = |text: &str| usage::whole(text, 4..=10_000_u32, "40"))]
    trials: u32,
    /// Time after which a pair is left undecided
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = seconds)]
    budget: f64,
    /// Effects on CPU per request, in per cent, each of them in both directions
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "1,2,5,10", value_parser = effect)]
    effects: Vec<f64>,
    /// Effects on the 99th percentile, in per cent, upwards
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "25,50", value_parser = tail_effect)]
    tail_effects: Vec<f64>,
    /// Directory to write to [default: bench-results/calibration-UTC]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Calibrate with this server instead of the null server: a program of it that burns CPU time on each request is built
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// With it: the workload, a closed loop [default: the first of a quick run]
    #[arg(long, value_name = "NAME", requires = "server")]
    workload: Option<String>,
    /// With it: the back end [default: the server's own]
    #[arg(long, value_name = "CELL", requires = "server")]
    reference: Option<String>,
    /// CPU of the servers
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    server_cpus: Option<CpuList>,
    /// CPU of the generators
    #[arg(long, value_name = "LIST", value_parser = CpuList::parse)]
    client_cpus: Option<CpuList>,
    /// Cargo profile of servers and generators
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Take what that profile has built before
    #[arg(long)]
    no_build: bool,
    /// Calibrate although another bench-matrix runs or the machine is busy
    #[arg(long)]
    force: bool,
}

/// An effect may take away a part of what is burnt at most.
const EFFECT_PERCENT_MAX: f64 = 20.0;
const TAIL_EFFECT_PERCENT_MAX: f64 = 1_000.0;

fn effect(text: &str) -> Result<f64, String> {
    percent(text, EFFECT_PERCENT_MAX)
}

fn tail_effect(text: &str) -> Result<f64, String> {
    percent(text, TAIL_EFFECT_PERCENT_MAX)
}

fn percent(text: &str, max: f64) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= max);
    number.ok_or_else(|| format!("expected a percentage above 0, at most {max}, such as 2"))
}

/// Judgement of one pair, before the labels were opened.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Judgement {
    trial: u32,
    rounds: usize,
    seconds: f64,
    cpu: Judged,
    p99: Judged,
    /// Scores of the cost, after each round from the first that has an interval on.
    scores: Vec<f64>,
    pairs_kept: usize,
    pairs_rejected: usize,
}

/// Judgement by one figure.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Judged {
    decision: Decision,
    /// Time and rounds until then; the whole time if it is undecided.
    after_s: f64,
    after_rounds: usize,
    known: Option<Known>,
}

/// A line of `rounds.jsonl`.
#[derive(Serialize)]
struct RoundLine<'a> {
    trial: u32,
    round: usize,
    values: Option<RoundValues>,
    pairs: &'a [Pair],
}

pub(crate) fn run(args: &CalibrateArgs) -> Result<ExitCode> {
    let _lock = setup::lock(args.force)?;
    let choice = Choice::build(args)?;
    let loadgen = &choice.loadgen;
    if !args.force {
        quiet::wait()?;
    }
    let server_cpus = args.server_cpus.clone().map_or_else(default_server_cpu, Ok)?;
    let cores = host::cores()?;
    let client_cpus = args.client_cpus.clone().map_or_else(|| default_client_cpu(cores, &host::siblings(0)), Ok)?;
    let (scratch, interrupts) = (Scratch::new()?, Interrupts::watch()?);
    let bench = PairBench { loadgen, cpus: client_cpus.as_slice(), logs: scratch.path(), interrupts: &interrupts };
    let directory = directory(args)?;
    let real = choice.real.as_ref();
    let mut keeper = Keeper::start(&KeepArgs {
        loadgen: loadgen.clone(),
        server_cpus,
        client_cpus: client_cpus.clone(),
        logs: scratch.path().to_path_buf(),
        server: real.map(|real| real.server.clone()),
        program: real.map(|real| real.program.clone()),
        workload: real.map(|real| real.workload.name.clone()),
        reference: args.reference.clone(),
    })?;
    let mut judge = Judge {
        bench,
        random: fastrand::Rng::new(),
        rounds: create(&directory.join("rounds.jsonl"))?,
        judgements: create(&directory.join("judgements.jsonl"))?,
        budget: Duration::from_secs_f64(args.budget),
    };
    let Some((cost_ns, p99_us)) = judge.pilot(&mut keeper)? else { return Ok(interrupted()) };
    let Base { cost_ns, burn_ns } = keeper.base(BaseOrder { cost_ns, effects_percent: args.effects.clone() })?;
    let Some(tails) = judge.tails(&mut keeper, &args.tail_effects, p99_us)? else { return Ok(interrupted()) };
    let seal = keeper.seal(SealOrder { trials: args.trials, effects_percent: args.effects.clone(), tails })?;
    fs::write(directory.join("seal.txt"), format!("{seal}\n")).context("seal.txt")?;
    let (cost_us, burn_us) = (cost_ns / 1e3, burn_ns / 1e3);
    eprintln!("a request costs {cost_us:.2} µs, of which {burn_us:.2} are burnt; labels are sealed: {seal}");
    let mut judged = Vec::new();
    for trial in 0..args.trials {
        if interrupts.are_pending() {
            break;
        }
        let Some(judgement) = judge.trial(&mut keeper, trial)? else { break };
        eprintln!("{}", progress(args.trials, &judgement));
        judged.push(judgement);
    }
    if judged.is_empty() {
        return Ok(interrupted());
    }
    judge.judgements.sync_all().context("judgements.jsonl")?;
    let opened = keeper.open(&seal)?;
    write(&directory.join("labels.json"), &serde_json::to_string_pretty(&opened)?)?;
    let about = verdict::About {
        created_utc: workspace::now_utc(),
        host: host::facts()?,
        git: setup::git(),
        profile: args.profile.clone(),
        seal,
        servers: choice.title(args.reference.as_deref()),
        cost_ns,
        burn_ns,
        budget_s: args.budget,
        connections: choice.connections(),
    };
    let calibration = Calibration::new(about, &opened.labels, &judged);
    publish(&directory, &calibration)?;
    Ok(if interrupts.are_pending() { interrupted() } else { ExitCode::SUCCESS })
}

/// Returns the newest calibration of this machine below `results`, with what the profile builds.
pub(crate) fn stored(results: &Path, host: &Host, profile: &str) -> Option<StoredCalibration> {
    let read = |entry: fs::DirEntry| {
        let is_one = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // One that is broken, or of another version, says nothing.
        is_one.then(|| serde_json::from_slice(&fs::read(entry.path().join(FILE)).ok()?).ok())?
    };
    let found = fs::read_dir(results).ok()?.flatten().filter_map(read);
    let own = found.filter(|it: &Calibration| is_same(&it.about.host, host) && it.about.profile == profile);
    let newest = own.max_by(|one, other| one.about.created_utc.cmp(&other.about.created_utc))?;
    let verdict::About { created_utc, seal, .. } = newest.about;
    Some(StoredCalibration { created_utc, sentence: newest.sentence, seal })
}

/// True for one machine with one kernel, set up in one way.
fn is_same(one: &Host, other: &Host) -> bool {
    let facts = |host: &Host| {
        let Host { kernel, cpu_model, cores, governor, smt, virtual_machine, .. } = host.clone();
        (kernel, cpu_model, cores, governor, smt, virtual_machine)
    };
    facts(one) == facts(other)
}

fn interrupted() -> ExitCode {
    ExitCode::from(crate::run::session::EXIT_INTERRUPTED)
}

/// Makes the directory; one that holds a calibration is refused.
fn directory(args: &CalibrateArgs) -> Result<PathBuf> {
    let stamp: String = workspace::now_utc().chars().filter(|it| !matches!(it, '-' | ':')).collect();
    let default = || workspace::results().join(format!("{PREFIX}{stamp}"));
    let directory = args.out.clone().unwrap_or_else(default);
    if directory.join("judgements.jsonl").exists() {
        return Err(usage(format!("{}: holds a calibration already", directory.display())));
    }
    fs::create_dir_all(&directory).with_context(|| format!("{}", directory.display()))?;
    Ok(directory)
}

fn create(path: &Path) -> Result<File> {
    File::create_new(path).with_context(|| format!("{}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}", path.display()))
}

fn append(file: &mut File, line: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    file.write_all(text.as_bytes()).context("calibration")
}

fn publish(directory: &Path, calibration: &Calibration) -> Result<()> {
    write(&directory.join(FILE), &serde_json::to_string_pretty(calibration)?)?;
    let text = calibration.text();
    write(&directory.join("calibration.md"), &text)?;
    write(&directory.join("roc.svg"), &roc(&calibration.roc_title(), &calibration.curves()))?;
    print!("{text}");
    println!("calibration: {}", workspace::shown_path(&directory.join("calibration.md")));
    Ok(())
}

fn progress(trials: u32, judgement: &Judgement) -> String {
    let of = |judged: &Judged| format!("{:?}", judged.decision).to_lowercase();
    let Judgement { trial, rounds, seconds, cpu, p99, .. } = judgement;
    format!("pair {}/{trials}: cost {}, p99 {}, {rounds} rounds, {seconds:.0} s", trial + 1, of(cpu), of(p99))
}

/// The judge: it knows processes, how they are loaded, and nothing else.
struct Judge<'a> {
    bench: PairBench<'a>,
    random: fastrand::Rng,
    rounds: File,
    judgements: File,
    budget: Duration,
}

impl Judge<'_> {
    fn round(&mut self, running: &Running) -> Result<Option<Vec<Pair>>> {
        let contender = |server: &keeper::Server| Contender { pid: server.pid, load: server.load.clone() };
        let (base, change) = (contender(&running.base), contender(&running.change));
        self.bench.round([&base, &change], SHAPE, &mut self.random)
    }

    /// Compares a pair until both figures are decided or time is over. `None` when the user asked to stop at once.
    fn trial(&mut self, keeper: &mut Keeper, trial: u32) -> Result<Option<Judgement>> {
        let began = Instant::now();
        let (mut cpu, mut p99) = (Figure::new(RESOLUTION), Figure::new(P99_RESOLUTION));
        let (mut rounds, mut scores, mut kept, mut rejected) = (0, Vec::new(), 0, 0);
        while began.elapsed() < self.budget && (cpu.is_open() || p99.is_open()) {
            let running = keeper.start_pair(trial)?;
            let Some(pairs) = self.round(&running)? else { return Ok(None) };
            keeper.stop()?;
            let values = paired::round_values(&pairs);
            append(&mut self.rounds, &RoundLine { trial, round: rounds, values, pairs: &pairs })?;
            rounds += 1;
            let Some(values) = values else { continue };
            (kept, rejected) = (kept + values.kept, rejected + values.rejected);
            let after_s = began.elapsed().as_secs_f64();
            cpu.push(values.cpu, after_s);
            p99.push(values.p99, after_s);
            scores.extend(cpu.known().map(Known::score));
            if self.bench.interrupts.are_pending() {
                break;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let judgement = Judgement {
            trial,
            rounds,
            seconds,
            cpu: cpu.judged(seconds),
            p99: p99.judged(seconds),
            scores,
            pairs_kept: kept,
            pairs_rejected: rejected,
        };
        append(&mut self.judgements, &judgement)?;
        if kept == 0 {
            bail!("no pair of turns could be used");
        }
        Ok(Some(judgement))
    }
}

/// A figure under comparison: what it said first counts, whatever comes after.
struct Figure {
    resolution: f64,
    sequence: Sequence,
    decided: Option<Judged>,
}

impl Figure {
    fn new(resolution: f64) -> Self {
        Self { resolution, sequence: Sequence::default(), decided: None }
    }

    fn is_open(&self) -> bool {
        self.decided.is_none()
    }

    fn known(&self) -> Option<Known> {
        self.sequence.known(ERROR)
    }

    fn push(&mut self, value: f64, after_s: f64) {
        self.sequence.push(value);
        let Some(known) = self.known().filter(|_| self.decided.is_none()) else { return };
        let decision = known.decision(self.resolution);
        if decision != Decision::Undecided {
            self.decided = Some(Judged { decision, after_s, after_rounds: self.sequence.rounds(), known: Some(known) });
        }
    }

    fn judged(&self, seconds: f64) -> Judged {
        self.decided.unwrap_or_else(|| Judged {
            decision: Decision::Undecided,
            after_s: seconds,
            after_rounds: self.sequence.rounds(),
            known: self.known(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decision_counts() {
        let mut figure = Figure::new(0.01);
        (0..10).for_each(|at| figure.push(0.05 + 0.0001 * f64::from(at % 3), f64::from(at)));
        (10..100).for_each(|at| figure.push(-0.05 + 0.0001 * f64::from(at % 3), f64::from(at)));
        let judged = figure.judged(100.0);
        assert_eq!((judged.decision, judged.after_s, judged.after_rounds), (Decision::More, 5.0, 6));
        let open = Figure::new(0.01).judged(7.0);
        assert_eq!((open.decision, open.after_s, open.known), (Decision::Undecided, 7.0, None));
    }

    #[test]
    fn the_newest_calibration_of_the_same_machine_is_found() {
        let results = tempfile::tempdir().unwrap();
        let host = Host { cores: 2, kernel: "Linux 6.1".to_owned(), ..Host::default() };
        let found = |host: &Host, profile| stored(results.path(), host, profile).map(|it| it.created_utc);
        assert_eq!(found(&host, "release"), None);
        for (name, host, created_utc) in [
            ("calibration-1", host.clone(), "2026-01-01T00:00:00Z"),
            ("calibration-2", host.clone(), "2026-03-01T00:00:00Z"),
            ("calibration-3", Host { cores: 4, ..host.clone() }, "2026-04-01T00:00:00Z"),
            ("other-4", host.clone(), "2026-05-01T00:00:00Z"),
        ] {
            fs::create_dir(results.path().join(name)).unwrap();
            let about = verdict::About { created_utc: created_utc.to_owned(), host, ..verdict::samples::about() };
            let text = serde_json::to_string(&Calibration::new(about, &[], &[])).unwrap();
            fs::write(results.path().join(name).join(FILE), text).unwrap();
        }
        fs::create_dir(results.path().join("calibration-5")).unwrap();
        assert_eq!(found(&host, "release").as_deref(), Some("2026-03-01T00:00:00Z"));
        assert_eq!(found(&host, "dev"), None);
        assert_eq!(found(&Host { kernel: "Linux 6.2".to_owned(), ..host }, "release"), None);
    }

    #[test]
    fn effects_are_percentages_that_can_be_injected() {
        assert_eq!((effect("2"), effect("0.5%"), tail_effect("100")), (Ok(2.0), Ok(0.5), Ok(100.0)));
        for text in ["0", "-1", "21", "nan", "x", ""] {
            assert!(effect(text).is_err(), "{text}");
        }
    }
}
