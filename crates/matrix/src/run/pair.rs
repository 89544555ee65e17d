//! Two servers side by side, loaded in turns of milliseconds: a round of a paired comparison.
//!
//! Both live, each with a generator of its own (`loadgen --turns`), and only one of the four has something to do. CPU time is read
//! from the process's clock between turns, when no request is under way.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use loadgen::engine::TurnReport;
use nix::{
    time::{ClockId, clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use procfs::{CurrentSI as _, FromRead as _, KernelStats, process::Schedstat};

use results::{Cell, Setup, TurnPlan, Workload, record::TurnFigures};

use crate::{
    judge::paired::{self, Pair, RoundValues, Turn},
    plan::{cells::Cells, cpus::CpuList, subjects},
    run::{interrupt::Interrupts, process::Process, visit::Bench},
};

/// Limit for the last reply of a turn, and for the end of a generator: several times what the slowest workload takes until each
/// of 20 clients has its copy of a file of 1.7 GiB.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// After the last reply a server still goes back to waiting, which is a part of its turn.
const SETTLE: Duration = Duration::from_micros(300);

/// Shape of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundShape {
    pub(crate) turn: Duration,
    pub(crate) pairs: u32,
    /// Turns of each server before them: connections are opened, caches filled.
    pub(crate) warm_up_turns: u32,
}

/// The usual: 0.6 s of each server in twelve turns, behind a tenth of a second. More rounds tell more than longer ones, as processes differ.
pub(crate) const SHAPE: RoundShape = RoundShape { turn: Duration::from_millis(50), pairs: 12, warm_up_turns: 2 };

/// The cell beside which visits take turns, and how many as a rule.
pub(crate) struct BesideReference {
    pub(crate) reference: Cell,
    pub(crate) plan: TurnPlan,
}

impl BesideReference {
    /// Of a matrix whose visits take turns.
    pub(crate) fn of(setup: &Setup) -> Option<Self> {
        let plan = setup.turns?;
        let reference = setup.cells.iter().find(|cell| cell.id == setup.reference)?.clone();
        Some(Self { reference, plan })
    }
}

impl Bench {
    /// Loads a server that has been visited in turns with a fresh process of the reference; `None` where it takes none.
    pub(super) fn turns_beside_reference(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        server: &Process,
        address: &str,
    ) -> Result<Option<TurnFigures>> {
        let Some(BesideReference { reference, plan }) = self.turns.get(cells.subject.server()) else {
            return Ok(None);
        };
        let Some(shape) = cells.subject.turns(workload, *plan).filter(|_| cell.id != reference.id) else {
            return Ok(None);
        };
        let what = || format!("turns beside {}", reference.id);
        let log = self.scratch.path().join("reference.log");
        let (beside, its_address) = self.start_logged(cells, reference, workload, &[], &log).with_context(what)?;
        if self.fill_once(cells, reference, workload, &beside, &its_address)?.is_none() {
            bail!("interrupted");
        }
        let sides = [
            Running { cells, cell: reference, server: &beside, address: &its_address },
            Running { cells, cell, server, address },
        ];
        let pairs = self.side_by_side(&sides, workload, shape, &mut fastrand::Rng::new()).with_context(what)?;
        let Some(pairs) = pairs else { bail!("interrupted") };
        beside.stop().with_context(what)?;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(paired::round_values(&pairs).map(|RoundValues { cpu, p99, kept, rejected }| TurnFigures {
            cpu_log: cpu,
            p99_log: p99,
            pairs: count(kept),
            rejected: count(rejected),
        }))
    }
}

/// A server of a cell that runs and has what it serves.
pub(crate) struct Running<'a> {
    pub(crate) cells: &'a Cells,
    pub(crate) cell: &'a Cell,
    pub(crate) server: &'a Process,
    pub(crate) address: &'a str,
}

impl Bench {
    /// Loads two servers in turns, base first. `None` when the user asked to stop at once.
    pub(crate) fn side_by_side(
        &self,
        sides: &[Running<'_>; 2],
        workload: &Workload,
        shape: RoundShape,
        random: &mut fastrand::Rng,
    ) -> Result<Option<Vec<Pair>>> {
        let contender = |side: &Running<'_>| {
            let Running { cells, cell, server, address } = *side;
            let load = subjects::in_turns(&self.load_arguments(cells, cell, workload, address, server));
            Contender { pid: server.pid(), load }
        };
        let [base, change] = sides;
        let (base, change) = (contender(base), contender(change));
        let cpus = CpuList::parse(&self.timing.client_cpus)?;
        let bench = PairBench {
            loadgen: &self.loadgen,
            cpus: cpus.as_slice(),
            logs: self.scratch.path(),
            interrupts: &self.interrupts,
        };
        bench.round([&base, &change], shape, random)
    }
}

/// A server that runs, and how it is loaded.
pub(crate) struct Contender {
    pub(crate) pid: u32,
    /// Arguments of the generator, without its program.
    pub(crate) load: Vec<String>,
}

/// The generator, and where it runs.
pub(crate) struct PairBench<'a> {
    pub(crate) loadgen: &'a Path,
    pub(crate) cpus: &'a [usize],
    /// Directory of the generators' standard error.
    pub(crate) logs: &'a Path,
    pub(crate) interrupts: &'a Interrupts,
}

impl PairBench<'_> {
    /// Makes a round of base and change. `None` when the user asked to stop at once.
    pub(crate) fn round(
        &self,
        [base, change]: [&Contender; 2],
        shape: RoundShape,
        random: &mut fastrand::Rng,
    ) -> Result<Option<Vec<Pair>>> {
        let mut sides = in_either_order(random, |side| self.side([base, change][side], ["base", "change"][side]))?;
        for _ in 0..shape.warm_up_turns {
            in_either_order(random, |side| sides[side].turn(shape.turn))?;
        }
        let mut pairs = Vec::new();
        for _ in 0..shape.pairs {
            if self.interrupts.are_urgent() {
                return Ok(None);
            }
            let [base, change] = in_either_order(random, |side| sides[side].turn(shape.turn))?;
            pairs.push(Pair { base, change });
        }
        // One turn may be too short on a busy machine, and is then no pair's. A server that never answers is another thing.
        let of: [fn(&Pair) -> Turn; 2] = [|pair| pair.base, |pair| pair.change];
        for (side, turn) in sides.iter().zip(of) {
            if pairs.iter().all(|pair| turn(pair).ok == 0) {
                bail!("no reply in any turn{}", side.generator.quote());
            }
        }
        sides.into_iter().try_for_each(Side::end)?;
        Ok(Some(pairs))
    }

    fn side(&self, contender: &Contender, name: &str) -> Result<Side> {
        let words = contender.load.iter().map(OsString::from);
        let command: Vec<OsString> = std::iter::once(self.loadgen.into()).chain(words).collect();
        let log = self.logs.join(format!("{name}.log"));
        let generator = Process::start_fed(&command, self.cpus, &log, Stdio::piped(), Stdio::piped())?;
        let pid = Pid::from_raw(i32::try_from(contender.pid).context("pid")?);
        let clock = clock_getcpuclockid(pid).context("the server's CPU clock")?;
        Ok(Side { generator, server: contender.pid, clock })
    }
}

/// Does something for base and for change, by chance for one or the other first: whoever always comes first may find the machine
/// otherwise, and may be cheaper for it in many rounds in a row.
fn in_either_order<T>(random: &mut fastrand::Rng, mut act: impl FnMut(usize) -> Result<T>) -> Result<[T; 2]> {
    if random.bool() {
        return Ok([act(0)?, act(1)?]);
    }
    let change = act(1)?;
    Ok([act(0)?, change])
}

/// A server and its generator.
struct Side {
    generator: Process,
    server: u32,
    clock: ClockId,
}

impl Side {
    /// Loads the server for a while.
    fn turn(&mut self, length: Duration) -> Result<Turn> {
        let before = Reading::take(self)?;
        self.generator.tell("go")?;
        std::thread::sleep(length);
        self.generator.tell("hold")?;
        let line = self.generator.answer(ANSWER_WITHIN)?;
        let report: TurnReport = serde_json::from_str(&line).with_context(|| format!("loadgen said `{line}`"))?;
        if report.failed > 0 {
            bail!("{} of {} requests failed{}", report.failed, report.ok + report.failed, self.generator.quote());
        }
        std::thread::sleep(SETTLE);
        Ok(Reading::take(self)?.since(&before, &report))
    }

    fn end(mut self) -> Result<()> {
        self.generator.end_input();
        let deadline = Instant::now() + ANSWER_WITHIN;
        match self.generator.wait_until(|| Instant::now() >= deadline)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("loadgen ended with {status}{}", self.generator.quote()),
            None => bail!("loadgen did not end{}", self.generator.quote()),
        }
    }
}

/// Clocks at the edge of a turn.
struct Reading {
    cpu: Duration,
    at: Instant,
    /// Run-queue wait of each thread of server and generator.
    waited: HashMap<u32, u64>,
    /// Ticks of all CPUs, and those that the hypervisor took.
    ticks: (u64, u64),
}

impl Reading {
    fn take(side: &Side) -> Result<Self> {
        let stat = KernelStats::current().context("/proc/stat")?.total;
        let steal = stat.steal.unwrap_or(0);
        let busy = stat.user + stat.nice + stat.system + stat.irq.unwrap_or(0) + stat.softirq.unwrap_or(0);
        let all = busy + steal + stat.idle + stat.iowait.unwrap_or(0);
        let waited = [side.server, side.generator.pid()].into_iter().flat_map(waits).collect();
        let cpu = Duration::from(clock_gettime(side.clock).context("the server has ended")?);
        Ok(Self { cpu, at: Instant::now(), waited, ticks: (all, steal) })
    }

    fn since(&self, earlier: &Self, report: &TurnReport) -> Turn {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // A thread that was not there before has waited in this turn only.
        let waited = self
            .waited
            .iter()
            .map(|(thread, now)| now.saturating_sub(earlier.waited.get(thread).copied().unwrap_or(0)));
        let (all, steal) = (self.ticks.0 - earlier.ticks.0, self.ticks.1.saturating_sub(earlier.ticks.1));
        Turn {
            cpu_ns: nanos(self.cpu.saturating_sub(earlier.cpu)),
            ok: report.ok,
            p99_us: report.p99_us,
            elapsed_ns: nanos(self.at - earlier.at),
            waited_ns: waited.sum(),
            stolen: steal as f64 / all.max(1) as f64,
        }
    }
}

/// Run-queue wait of each thread of a process, in nanoseconds; of one that ends meanwhile nothing.
fn waits(pid: u32) -> Vec<(u32, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: fs::DirEntry| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        let text = fs::read(task.path().join("schedstat")).ok()?;
        Some((thread, Schedstat::from_read(text.as_slice()).ok()?.run_delay))
    };
    tasks.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that notes in the file `$1` its process and each of its turns, behind its name.
    const GENERATOR: &str = r#"
        echo "$0 $$" >>"$1"
        while read -r order; do
            case $order in
            go) echo "$0 go" >>"$1" ;;
            hold) echo '{"ok":1,"failed":0,"p50_us":1,"p99_us":1}' ;;
            esac
        done"#;

    /// Makes a round, and returns who came first: of the generators, of the warm-up turns, of the pair.
    fn firsts_of_a_round(random: &mut fastrand::Rng) -> [String; 3] {
        let directory = tempfile::tempdir().unwrap();
        let notes = directory.path().join("notes");
        let contender = |name: &str| Contender {
            pid: std::process::id(),
            load: ["-c", GENERATOR, name, notes.to_str().unwrap()].map(str::to_owned).to_vec(),
        };
        let bench = PairBench {
            loadgen: Path::new("sh"),
            cpus: &[0],
            logs: directory.path(),
            interrupts: &Interrupts::default(),
        };
        let shape = RoundShape { turn: Duration::from_millis(1), pairs: 1, warm_up_turns: 1 };
        let pairs = bench.round([&contender("base"), &contender("change")], shape, random).unwrap().unwrap();
        assert_eq!(pairs.len(), 1);
        let notes = fs::read_to_string(&notes).unwrap();
        let words = notes.lines().filter_map(|line| line.split_once(' '));
        let (turns, mut started): (Vec<_>, Vec<_>) = words.partition(|(_, what)| *what == "go");
        started.sort_by_key(|(_, pid)| pid.parse::<u32>().unwrap());
        assert_eq!((started.len(), turns.len()), (2, 4), "{notes}");
        [started[0], turns[0], turns[2]].map(|(name, _)| name.to_owned())
    }

    /// Rounds in which one side always came first resembled those before them, and intervals were too narrow.
    #[test]
    fn which_generator_starts_first_and_takes_the_first_turn_is_by_chance() {
        let mut random = fastrand::Rng::with_seed(7);
        let rounds: Vec<[String; 3]> = (0..16).map(|_| firsts_of_a_round(&mut random)).collect();
        for (place, what) in ["generator", "turn of the warm-up", "turn of the pair"].iter().enumerate() {
            let of_base = rounds.iter().filter(|round| round[place] == "base").count();
            assert!((1..16).contains(&of_base), "base had the first {what} in {of_base} of 16 rounds");
        }
    }

    #[test]
    fn what_was_done_for_a_side_stays_with_it() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..16 {
            assert_eq!(in_either_order(&mut random, Ok).unwrap(), [0, 1]);
        }
    }
}
