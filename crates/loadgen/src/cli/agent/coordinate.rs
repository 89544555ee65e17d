//! The coordinator: it has agents prepare, begin at one time and end, and merges what they measured.

use std::{
    io::IsTerminal as _,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, anyhow};
use clap::{ArgMatches, Command};
use loadgen::{
    merge::{self, Merged},
    result::{AgentShare, NamedResult, RunResult},
    units,
};
use serde_json::json;

use super::{
    super::{ExitOutcome, Failure, eprint_line, load::LoadArgs, progress::ProgressMode, socket_run::interrupt_flag},
    clock::{Offset, PINGS},
    message::{FromAgent, PROTOCOL, ToAgent, VERSION},
    process::{AgentProcess, Event},
    share::{Whole, divide},
    unix_nanos,
};

/// Limit of the time that an agent takes to say hello, and to answer a ping.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Time between two looks at the interrupt flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time that the order to begin has for its way, besides twice the longest that a message has taken.
const START_MARGIN: Duration = Duration::from_millis(200);
/// Limit of the time in which agents end that were told to.
const STOP_MAX: Duration = Duration::from_secs(30);

/// Makes the load of a command by its agents, and reports it as the command would.
pub(in super::super) fn coordinate(
    args: &LoadArgs,
    command: &Command,
    matches: &ArgMatches,
) -> Result<ExitOutcome, Failure> {
    let ([] | [_]) = &args.rate[..] else {
        return Err(Failure::usage("--agent goes with one rate"));
    };
    args.check_files()?;
    let whole = Whole {
        connections: args.connections,
        requests: args.requests,
        rate: args.rate.first().copied(),
        seed: args.seed,
    };
    let names = &args.agents.agents;
    let arguments = divide(command, matches, whole, names.len())?;
    let interrupt = interrupt_flag()?;
    let mut run = Coordinator::start(names, &args.agents.agent_program, &interrupt)?;
    run.greet()?;
    run.compare_clocks()?;
    run.prepare(arguments)?;
    run.begin(whole.rate);
    run.measure(LiveView::new(args.output.progress));
    run.report(args)
}

/// An agent, and what is known of it.
struct Agent {
    name: String,
    process: AgentProcess,
    host: Option<String>,
    has_greeted: bool,
    clock: Option<Offset>,
    /// Time at which a ping left that has not been answered.
    ping_sent: Option<u64>,
    is_ready: bool,
    /// Requests that it has counted so far.
    live: (u64, u64),
    result: Option<RunResult>,
    /// Its exit status.
    ended: Option<u8>,
    /// Reason why it failed.
    failure: Option<String>,
}

impl Agent {
    fn is_over(&self) -> bool {
        self.ended.is_some() || self.failure.is_some()
    }
}

struct Coordinator<'a> {
    agents: Vec<Agent>,
    events: Receiver<(usize, Event)>,
    interrupt: &'a AtomicBool,
    was_stopped: bool,
}

impl<'a> Coordinator<'a> {
    fn start(names: &[String], program: &str, interrupt: &'a AtomicBool) -> Result<Self, Failure> {
        let (sender, events) = channel();
        let start = |(number, name): (usize, &String)| {
            let process = AgentProcess::start(name, program, number, sender.clone())
                .with_context(|| format!("cannot start the agent `{name}`"))?;
            Ok(Agent {
                name: name.clone(),
                process,
                host: None,
                has_greeted: false,
                clock: None,
                ping_sent: None,
                is_ready: false,
                live: (0, 0),
                result: None,
                ended: None,
                failure: None,
            })
        };
        let agents = names.iter().enumerate().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { agents, events, interrupt, was_stopped: false })
    }

    /// Waits for an event until `deadline`, and takes note of it. Returns false if there was none.
    fn next(&mut self, deadline: Instant) -> bool {
        let wait = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(wait) {
            Ok((number, Event::Said(message, at))) => {
                self.on_message(number, *message, at);
                true
            }
            Ok((number, Event::Gone(error))) => {
                self.on_gone(number, error.as_ref());
                true
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
        }
    }

    fn on_message(&mut self, number: usize, message: FromAgent, at: u64) {
        let agent = &mut self.agents[number];
        match message {
            FromAgent::Hello { protocol, version, host } => {
                (agent.host, agent.has_greeted) = (host, true);
                if (protocol, version.as_str()) != (PROTOCOL, VERSION) {
                    agent.failure = Some(format!(
                        "it is loadgen {version} (messages {protocol}), and this is {VERSION} (messages {PROTOCOL})"
                    ));
                }
            }
            FromAgent::Pong { time } => {
                if let Some(sent) = agent.ping_sent.take() {
                    let offset = Offset::new(sent, time, at);
                    agent.clock = Some(agent.clock.map_or(offset, |clock| clock.better(offset)));
                }
            }
            FromAgent::Ready => agent.is_ready = true,
            FromAgent::Live { ok, failed } => agent.live = (ok, failed),
            FromAgent::Result(result) => agent.result = Some(*result),
            FromAgent::End { status, error } => {
                agent.ended = Some(status);
                if agent.result.is_none() {
                    agent.failure = Some(error.unwrap_or_else(|| format!("it ended with status {status}")));
                }
            }
        }
    }

    fn on_gone(&mut self, number: usize, error: Option<&std::io::Error>) {
        let agent = &mut self.agents[number];
        if !agent.is_over() {
            let ending = agent.process.ending();
            agent.failure = Some(match error {
                Some(error) => format!("{error} ({ending})"),
                None => format!("it has gone ({ending})"),
            });
        }
    }

    /// Waits until all agents are as they should be, or one fails.
    fn await_all(&mut self, what: &str, most: Option<Duration>, is_so: impl Fn(&Agent) -> bool) -> Result<(), Failure> {
        let deadline = most.map(|most| Instant::now() + most);
        loop {
            if let Some(agent) = self.agents.iter().find(|agent| agent.is_over() && !is_so(agent)) {
                let why = agent.failure.clone().unwrap_or_else(|| "it ended".to_owned());
                return Err(self.give_up(&agent.name.clone(), &why));
            }
            if self.agents.iter().all(&is_so) {
                return Ok(());
            }
            if self.interrupt.load(Ordering::Relaxed) {
                self.stop();
                return Err(Failure::Interrupted(anyhow!("interrupted before the start")));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let late = self.agents.iter().find(|agent| !is_so(agent)).map(|agent| agent.name.clone());
                return Err(self.give_up(&late.unwrap_or_default(), &format!("{what} has not come in time")));
            }
            self.next(Instant::now() + LOOK_EVERY);
        }
    }

    /// Tells all agents to end, and says which has failed before there was a load.
    fn give_up(&mut self, name: &str, why: &str) -> Failure {
        self.stop();
        Failure::Other(anyhow!("agent `{name}`: {why}"))
    }

    fn stop(&mut self) {
        if !self.was_stopped {
            self.was_stopped = true;
            self.agents.iter_mut().for_each(|agent| agent.process.tell(&ToAgent::Stop));
        }
    }

    fn greet(&mut self) -> Result<(), Failure> {
        for agent in &mut self.agents {
            agent.process.tell(&ToAgent::Hello { protocol: PROTOCOL, version: VERSION.to_owned() });
        }
        self.await_all("a greeting", Some(ANSWER_MAX), |agent| agent.has_greeted && agent.failure.is_none())
    }

    /// Compares the clocks with one agent after the other, so that no message waits for another.
    fn compare_clocks(&mut self) -> Result<(), Failure> {
        for number in 0..self.agents.len() {
            for _ in 0..PINGS {
                let agent = &mut self.agents[number];
                agent.ping_sent = Some(unix_nanos());
                agent.process.tell(&ToAgent::Ping);
                self.await_all("its time", Some(ANSWER_MAX), |agent| {
                    agent.ping_sent.is_none() && agent.failure.is_none()
                })?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, arguments: Vec<Vec<String>>) -> Result<(), Failure> {
        for (agent, arguments) in self.agents.iter_mut().zip(arguments) {
            agent.process.tell(&ToAgent::Run { arguments });
        }
        // Storing keys and hashing documents may take as long as they like.
        self.await_all("its readiness", None, |agent| agent.is_ready && agent.failure.is_none())
    }

    /// Has all agents begin at one time, but for what spreads the schedules of an open loop evenly.
    fn begin(&mut self, rate: Option<f64>) {
        let slowest = self.agents.iter().filter_map(|agent| agent.clock).map(|clock| clock.error).max().unwrap_or(0);
        let margin = u64::try_from(START_MARGIN.as_nanos()).unwrap_or(u64::MAX);
        let start = unix_nanos().saturating_add(margin).saturating_add(slowest.saturating_mul(4));
        for (number, agent) in self.agents.iter_mut().enumerate() {
            let at = start + schedule_shift(number, rate);
            let at = agent.clock.map_or(at, |clock| clock.there(at));
            agent.process.tell(&ToAgent::Start { at });
        }
    }

    /// Waits for the results. An agent that fails ends the run of all.
    fn measure(&mut self, mut view: LiveView) {
        let mut stop_by = None;
        while !self.agents.iter().all(Agent::is_over) {
            self.next(Instant::now() + LOOK_EVERY);
            let has_failed = self.agents.iter().any(|agent| agent.failure.is_some());
            if has_failed || self.interrupt.load(Ordering::Relaxed) {
                self.stop();
                let by = *stop_by.get_or_insert_with(|| Instant::now() + STOP_MAX);
                if Instant::now() >= by {
                    let silent = self.agents.iter_mut().filter(|agent| !agent.is_over());
                    silent.for_each(|agent| agent.failure = Some("it did not end when it was told to".to_owned()));
                }
            }
            view.update(&self.agents);
        }
        view.finish();
    }

    /// Merges the results, and reports the whole as a single generator would.
    fn report(mut self, args: &LoadArgs) -> Result<ExitOutcome, Failure> {
        let failed: Vec<_> =
            self.agents.iter().filter_map(|agent| Some((&agent.name, agent.failure.as_ref()?))).collect();
        let problem = failed.first().map(|(name, why)| {
            let others = if failed.len() > 1 { format!(", and {} more", failed.len() - 1) } else { String::new() };
            anyhow!("agent `{name}`: {why}{others}")
        });
        let parts: Vec<_> = self.agents.iter_mut().filter_map(Agent::take_part).collect();
        if parts.is_empty() {
            return Err(match problem {
                Some(_) if self.interrupt.load(Ordering::Relaxed) => {
                    Failure::Interrupted(anyhow!("interrupted before any reply"))
                }
                Some(problem) => Failure::Other(problem),
                None => Failure::Other(anyhow!("no agent has a result")),
            });
        }
        let cannot = |error: merge::MergeError| Failure::Other(anyhow!("the agents' results do not add up: {error}"));
        let Merged { mut result, notes } = merge::merge_agents(&parts).map_err(cannot)?;
        notes.iter().for_each(|note| eprint_line(&format!("note: {note}")));
        result.agents = self.agents.iter().map(|agent| agent.share(&parts, result.ok)).collect();
        let outcome = args.output.report_merged(&result)?;
        match problem {
            Some(problem) => Err(Failure::Other(problem.context("this is what was measured until an agent failed"))),
            None => Ok(outcome),
        }
    }
}

impl Agent {
    /// Returns its result as a part of the whole, with times by our clock.
    fn take_part(&mut self) -> Option<NamedResult> {
        let mut result = self.result.take()?;
        let started = result.origin.started_utc.as_deref().and_then(|text| humantime::parse_rfc3339(text).ok());
        result.origin.started_utc = started.zip(self.clock).and_then(|(started, clock)| ours(started, clock));
        // It is done once, for all.
        if result.config.get("preload").is_some_and(|preload| preload.is_boolean()) {
            result.config.insert("preload".to_owned(), json!(null));
        }
        Some(NamedResult { name: self.name.clone(), result })
    }

    /// Returns what it contributed to the whole.
    #[expect(clippy::cast_precision_loss, reason = "counts of a run fit a double")]
    fn share(&self, parts: &[NamedResult], ok: u64) -> AgentShare {
        let part = parts.iter().find(|part| part.name == self.name).map(|part| &part.result);
        let counted = part.map_or(self.live, |part| (part.ok, part.requests - part.ok));
        let (clock_offset_us, clock_error_us) = self.clock.map(Offset::micros).unzip();
        AgentShare {
            agent: self.name.clone(),
            host: self.host.clone(),
            ok: counted.0,
            failed: counted.1,
            share: if part.is_some() && ok > 0 { counted.0 as f64 / ok as f64 } else { 0.0 },
            throughput_rps: part.map(|part| part.throughput_rps),
            latency_us: part.map(|part| part.latency_us),
            lag_us: part.and_then(|part| part.lag_us),
            saturation: part.map(|part| part.saturation.clone()),
            clock_offset_us,
            clock_error_us,
            failure: self.failure.clone(),
        }
    }
}

/// Returns by how much the schedule of an agent begins later, so that those of all do not fall due at the same times.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "less than a gap between two requests"
)]
fn schedule_shift(number: usize, rate: Option<f64>) -> u64 {
    rate.map_or(0, |rate| (1e9 * number as f64 / rate) as u64)
}

/// Returns a time of an agent by our clock.
fn ours(time: SystemTime, clock: Offset) -> Option<String> {
    let distance = Duration::from_nanos(clock.nanos.unsigned_abs());
    let ours = if clock.nanos < 0 { time.checked_add(distance) } else { time.checked_sub(distance) };
    ours.map(|time| humantime::format_rfc3339_millis(time).to_string())
}

/// View of what all agents have counted, on standard error.
struct LiveView {
    next: Option<Instant>,
    every: Duration,
    is_terminal: bool,
    begin: Instant,
    before: (Instant, Vec<u64>),
}

impl LiveView {
    /// Time for which a run without a terminal is silent, and between two lines after that.
    const SILENCE: Duration = Duration::from_secs(60);
    const LINE_EVERY: Duration = Duration::from_secs(10);

    fn new(mode: ProgressMode) -> Self {
        let now = Instant::now();
        let is_terminal = mode == ProgressMode::Auto && std::io::stderr().is_terminal();
        let (next, every) = match mode {
            ProgressMode::None => (None, Duration::MAX),
            ProgressMode::Lines => (Some(now), Duration::from_secs(1)),
            ProgressMode::Auto if is_terminal => (Some(now), Duration::from_secs(1)),
            ProgressMode::Auto => (Some(now + Self::SILENCE), Self::LINE_EVERY),
        };
        Self { next, every, is_terminal, begin: now, before: (now, Vec::new()) }
    }

    fn update(&mut self, agents: &[Agent]) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + self.every);
        let counts: Vec<_> = agents.iter().map(|agent| agent.live.0).collect();
        let elapsed = now.duration_since(self.before.0).as_secs_f64();
        let line = self.line(agents, &counts, elapsed);
        self.before = (now, counts);
        // A line that is drawn over is as long as the terminal at most.
        match self.is_terminal {
            true => eprint_raw(&format!("\r\x1b[K{}", line.chars().take(units::COLUMNS - 1).collect::<String>())),
            false => eprint_line(&format!("{} s: {line}", now.duration_since(self.begin).as_secs())),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    fn line(&self, agents: &[Agent], counts: &[u64], elapsed: f64) -> String {
        let rate = |number: usize| {
            let before = self.before.1.get(number).copied().unwrap_or(0);
            if elapsed > 0.0 { counts[number].saturating_sub(before) as f64 / elapsed } else { 0.0 }
        };
        let failed: u64 = agents.iter().map(|agent| agent.live.1).sum();
        let all: f64 = (0..agents.len()).map(rate).sum();
        let each = agents.iter().enumerate().map(|(number, agent)| {
            let state =
                if agent.failure.is_some() { "failed".to_owned() } else { format!("{}/s", units::rate(rate(number))) };
            format!("{} {state}", agent.name)
        });
        let each: Vec<_> = each.collect();
        format!("{} requests/s, {failed} failed ({})", units::rate(all), each.join(", "))
    }

    fn finish(&self) {
        if self.is_terminal {
            eprint_raw("\r\x1b[K");
        }
    }
}

/// Writes without a line end. If nobody reads it there is nobody to tell.
fn eprint_raw(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stderr();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
