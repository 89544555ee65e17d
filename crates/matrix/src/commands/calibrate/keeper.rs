//! Keeper of the labels, a process of its own: it draws effects from the system's randomness, tells their digest beforehand
//! and the labels at the end, and in between starts servers by number.

use std::{
    ffi::OsString,
    io::{BufRead as _, Write as _},
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::burners::Burners;
use crate::{plan::cpus::CpuList, run::process::Process};

/// Name of the hidden subcommand.
pub(crate) const COMMAND: &str = "keep-labels";
/// CPU time that every server burns on a request at least, so that it is slower than its generator, as real ones are, and so that
/// an effect may be negative.
const BASE_BURN_NS: f64 = 3_000.0;
/// Factor by which the burn exceeds the largest effect.
const BURN_MARGIN: f64 = 1.2;
/// Number of requests of which one is held up to move the 99th percentile: those that wait behind it are then some of a hundred.
const TAIL_EVERY: u32 = 2_000;
/// Servers are asked for within this time.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const NONCE_BYTES: usize = 32;

#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct KeepArgs {
    #[arg(long)]
    pub(super) loadgen: PathBuf,
    #[arg(long, value_parser = CpuList::parse)]
    pub(super) server_cpus: CpuList,
    #[arg(long, value_parser = CpuList::parse)]
    pub(super) client_cpus: CpuList,
    #[arg(long)]
    pub(super) logs: PathBuf,
    /// Name of a real server, which burns as the null server does.
    #[arg(long, requires_all = ["program", "workload"])]
    pub(super) server: Option<String>,
    #[arg(long)]
    pub(super) program: Option<PathBuf>,
    #[arg(long)]
    pub(super) workload: Option<String>,
    #[arg(long)]
    pub(super) reference: Option<String>,
}

impl KeepArgs {
    /// Words of the command line from which they are parsed.
    fn words(&self) -> Vec<OsString> {
        let Self { loadgen, server_cpus, client_cpus, logs, server, program, workload, reference } = self;
        let mut words: Vec<OsString> = vec!["--loadgen".into(), loadgen.into(), "--logs".into(), logs.into()];
        words.extend(["--server-cpus".into(), server_cpus.text().into()]);
        words.extend(["--client-cpus".into(), client_cpus.text().into()]);
        let program = program.as_ref().map(|program| program.clone().into_os_string());
        let of = |value: &Option<String>| value.as_ref().map(OsString::from);
        let named = [
            ("--server", of(server)),
            ("--program", program),
            ("--workload", of(workload)),
            ("--reference", of(reference)),
        ];
        words.extend(named.into_iter().filter_map(|(flag, value)| Some([flag.into(), value?])).flatten());
        words
    }
}

/// Figure that an effect is put on, and its size as a fraction.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Label {
    None,
    Cpu { effect: f64 },
    P99(Tail),
}

/// Effect on the 99th percentile: one request of [`TAIL_EVERY`] is held up.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Tail {
    /// As asked for.
    pub(super) effect: f64,
    pub(super) pause_us: f64,
    /// Effect that this pause had in a pilot.
    pub(super) moved: f64,
}

/// Labels of all pairs, with what makes their digest impossible to guess.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Opened {
    pub(super) nonce: String,
    pub(super) labels: Vec<Label>,
}

impl Opened {
    /// Returns the digest in hexadecimal digits.
    fn seal(&self) -> Result<String> {
        let digest = Sha256::digest(serde_json::to_string(self)?.as_bytes());
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Order to burn as much as effects of these sizes need: the cost in a pilot, by which they become times.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct BaseOrder {
    pub(super) cost_ns: f64,
    pub(super) effects_percent: Vec<f64>,
}

/// Order to draw effects.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct SealOrder {
    pub(super) trials: u32,
    pub(super) effects_percent: Vec<f64>,
    pub(super) tails: Vec<Tail>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
enum Order {
    /// Two servers with an effect that is no secret.
    Pilot {
        label: Label,
    },
    Base(BaseOrder),
    Seal(SealOrder),
    Start {
        trial: u32,
    },
    Stop,
    Open,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
enum Answer {
    Running(Running),
    Base(Base),
    Sealed { digest: String },
    Stopped,
    Opened(Opened),
}

/// The server that all are compared with.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Base {
    /// CPU time of a request, and the part of it that is burnt.
    pub(super) cost_ns: f64,
    pub(super) burn_ns: f64,
}

/// Two servers that run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Running {
    pub(super) base: Server,
    pub(super) change: Server,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Server {
    pub(super) pid: u32,
    /// Arguments of the generator.
    pub(super) load: Vec<String>,
}

/// Error for an answer to another question.
const OUT_OF_TURN: &str = "the keeper of the labels answered something else";

/// The keeper as the judge sees it.
pub(super) struct Keeper(Process);

impl Keeper {
    pub(super) fn start(args: &KeepArgs) -> Result<Self> {
        let program = std::env::current_exe().context("this program")?;
        let mut command: Vec<OsString> = vec![program.into(), "bench-matrix".into(), COMMAND.into()];
        command.extend(args.words());
        let log = args.logs.join("keeper.log");
        let cpus: Vec<usize> = (0..std::thread::available_parallelism().context("cores")?.get()).collect();
        Ok(Self(Process::start_fed(&command, &cpus, &log, Stdio::piped(), Stdio::piped())?))
    }

    /// Starts two servers with an effect that is no secret.
    pub(super) fn pilot(&mut self, label: Label) -> Result<Running> {
        self.running(&Order::Pilot { label })
    }

    /// Settles what every server burns from here on.
    pub(super) fn base(&mut self, order: BaseOrder) -> Result<Base> {
        let Answer::Base(base) = self.ask(&Order::Base(order))? else { bail!(OUT_OF_TURN) };
        Ok(base)
    }

    /// Has the labels drawn, and returns their digest.
    pub(super) fn seal(&mut self, order: SealOrder) -> Result<String> {
        let Answer::Sealed { digest } = self.ask(&Order::Seal(order))? else { bail!(OUT_OF_TURN) };
        Ok(digest)
    }

    /// Starts the two servers of a pair afresh.
    pub(super) fn start_pair(&mut self, trial: u32) -> Result<Running> {
        self.running(&Order::Start { trial })
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        let Answer::Stopped = self.ask(&Order::Stop)? else { bail!(OUT_OF_TURN) };
        Ok(())
    }

    /// Returns the labels.
    ///
    /// # Errors
    /// They are not those of the digest.
    pub(super) fn open(&mut self, digest: &str) -> Result<Opened> {
        let Answer::Opened(opened) = self.ask(&Order::Open)? else { bail!(OUT_OF_TURN) };
        if opened.seal()? != digest {
            bail!("the labels are not those that were sealed");
        }
        Ok(opened)
    }

    fn running(&mut self, order: &Order) -> Result<Running> {
        let Answer::Running(running) = self.ask(order)? else { bail!(OUT_OF_TURN) };
        Ok(running)
    }

    fn ask(&mut self, order: &Order) -> Result<Answer> {
        self.0.tell(&serde_json::to_string(order)?)?;
        let line = self.0.answer(ANSWER_WITHIN).context("the keeper of the labels")?;
        serde_json::from_str(&line).with_context(|| format!("the keeper said `{line}`"))
    }
}

/// The keeper's process: answers orders until its input ends.
pub(crate) fn keep(args: &KeepArgs) -> Result<ExitCode> {
    let base = Base { burn_ns: BASE_BURN_NS, cost_ns: 0.0 };
    let mut state = State { burners: Burners::new(args)?, servers: Vec::new(), base, opened: None };
    for line in std::io::stdin().lock().lines() {
        let order = serde_json::from_str(&line.context("standard input")?).context("an order")?;
        let answer = serde_json::to_string(&state.carry_out(order)?)? + "\n";
        std::io::stdout().lock().write_all(answer.as_bytes()).context("standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

struct State<'a> {
    burners: Burners<'a>,
    servers: Vec<Process>,
    base: Base,
    opened: Option<Opened>,
}

impl Base {
    /// From a pilot that burnt [`BASE_BURN_NS`]. A server that needs more by itself burns more, so that the largest effect can be
    /// taken away from it.
    fn of(order: &BaseOrder) -> Self {
        let own_ns = order.cost_ns - BASE_BURN_NS;
        let share = order.effects_percent.iter().fold(0.0, |most: f64, percent| most.max(percent * 0.01)) * BURN_MARGIN;
        let burn_ns = BASE_BURN_NS.max(share * own_ns / (1.0 - share));
        Self { burn_ns, cost_ns: own_ns + burn_ns }
    }
}

impl State<'_> {
    fn carry_out(&mut self, order: Order) -> Result<Answer> {
        Ok(match order {
            Order::Pilot { label } => self.run_pair(label)?,
            Order::Base(order) => {
                self.base = Base::of(&order);
                Answer::Base(self.base)
            }
            Order::Seal(order) => {
                let mut random = fastrand::Rng::new();
                let nonce = (0..NONCE_BYTES).map(|_| format!("{:02x}", random.u8(..))).collect();
                let opened = Opened { nonce, labels: draw(&order, &mut random) };
                let digest = opened.seal()?;
                self.opened = Some(opened);
                Answer::Sealed { digest }
            }
            Order::Start { trial } => {
                let labels = self.opened.as_ref().context("nothing is sealed")?;
                self.run_pair(*labels.labels.get(trial as usize).context("no such pair")?)?
            }
            Order::Stop => {
                self.servers.drain(..).try_for_each(Process::stop)?;
                Answer::Stopped
            }
            Order::Open => Answer::Opened(self.opened.clone().context("nothing is sealed")?),
        })
    }

    fn run_pair(&mut self, label: Label) -> Result<Answer> {
        let (base, change) = (burns(Label::None, self.base), burns(label, self.base));
        // Which of them starts first must not tell, nor matter.
        let (base, change) = if fastrand::bool() {
            let base = self.run("base", &base)?;
            (base, self.run("change", &change)?)
        } else {
            let change = self.run("change", &change)?;
            (self.run("base", &base)?, change)
        };
        Ok(Answer::Running(Running { base, change }))
    }

    fn run(&mut self, name: &str, burns: &[String]) -> Result<Server> {
        let (process, load) = self.burners.start(name, burns)?;
        let pid = process.pid();
        self.servers.push(process);
        Ok(Server { pid, load })
    }
}

/// Returns what a server with this label burns, as `loadgen null --burn` takes it.
fn burns(label: Label, base: Base) -> Vec<String> {
    let Base { burn_ns, cost_ns } = base;
    match label {
        Label::None => vec![format!("{burn_ns:.1}ns")],
        Label::Cpu { effect } => vec![format!("{:.1}ns", burn_ns + effect * cost_ns)],
        Label::P99(Tail { pause_us, .. }) => {
            vec![format!("{burn_ns:.1}ns"), format!("{pause_us:.1}us/{TAIL_EVERY}")]
        }
    }
}

/// Two of five pairs are equal, the others share the effects, all in random order.
fn draw(order: &SealOrder, random: &mut fastrand::Rng) -> Vec<Label> {
    let both = |percent: &f64| [0.01, -0.01].map(|unit| Label::Cpu { effect: percent * unit });
    let mut kinds: Vec<Label> = order.effects_percent.iter().flat_map(both).collect();
    kinds.extend(order.tails.iter().copied().map(Label::P99));
    random.shuffle(&mut kinds);
    let equal = if kinds.is_empty() { order.trials } else { order.trials * 2 / 5 };
    let mut labels = vec![Label::None; equal as usize];
    labels.extend(kinds.iter().cycle().take((order.trials - equal) as usize));
    random.shuffle(&mut labels);
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: Tail = Tail { effect: 0.5, pause_us: 200.0, moved: 0.49 };

    fn order(trials: u32) -> SealOrder {
        SealOrder { trials, effects_percent: vec![1.0, 10.0], tails: vec![TAIL] }
    }

    fn base(cost_ns: f64) -> Base {
        Base::of(&BaseOrder { cost_ns, effects_percent: vec![1.0, 10.0] })
    }

    #[test]
    fn two_of_five_pairs_are_equal_and_the_rest_share_the_effects() {
        let labels = draw(&order(50), &mut fastrand::Rng::with_seed(1));
        let count = |label: Label| labels.iter().filter(|it| **it == label).count();
        assert_eq!((labels.len(), count(Label::None)), (50, 20));
        for effect in [0.01, -0.01, 0.1, -0.1] {
            assert_eq!(count(Label::Cpu { effect }), 6);
        }
        assert_eq!(count(Label::P99(TAIL)), 6);
        assert_ne!(labels, draw(&order(50), &mut fastrand::Rng::with_seed(2)));
    }

    #[test]
    fn an_effect_is_a_share_of_the_whole_cost() {
        let base = base(6_000.0);
        assert_eq!(base, Base { burn_ns: 3_000.0, cost_ns: 6_000.0 });
        assert_eq!(burns(Label::Cpu { effect: -0.1 }, base), ["2400.0ns"]);
        assert_eq!(burns(Label::P99(TAIL), base), ["3000.0ns", "200.0us/2000"]);
        assert_eq!(burns(Label::None, base), ["3000.0ns"]);
    }

    #[test]
    fn a_dear_server_burns_more_than_the_largest_effect() {
        let base = base(91_000.0);
        assert_eq!((base.burn_ns.round(), base.cost_ns.round()), (12_000.0, 100_000.0));
        assert_eq!(burns(Label::Cpu { effect: -0.1 }, base), ["2000.0ns"]);
    }

    #[test]
    fn labels_that_were_changed_have_another_seal() {
        let opened = Opened { nonce: "00".to_owned(), labels: vec![Label::None, Label::Cpu { effect: 0.01 }] };
        let seal = opened.seal().unwrap();
        let again: Opened = serde_json::from_str(&serde_json::to_string(&opened).unwrap()).unwrap();
        assert_eq!(again.seal().unwrap(), seal);
        let labels = vec![Label::Cpu { effect: 0.01 }, Label::None];
        assert_ne!(Opened { labels, ..opened.clone() }.seal().unwrap(), seal);
        assert_ne!(Opened { nonce: "01".to_owned(), ..opened }.seal().unwrap(), seal);
    }
}
