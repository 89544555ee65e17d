//! One run, or several at different rates; and what belongs before it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use loadgen::ceiling;
use loadgen::engine::{self, Endpoint, Limit, Load, Measured, Pacing};
use loadgen::error::ErrorClass;
use loadgen::null::Dialogue;
use loadgen::output;
use loadgen::protocol::ClientProtocol;
use loadgen::result::{Capacity, RunResult, Step};
use loadgen::summary::{self, Subject};
use loadgen::usage::ServerProbe;
use rustix::io::Errno;
use serde_json::json;

use super::drive::{DriveArgs, drive};
use super::{Failure, Outcome, complain};

/// A capacity is measured for as long as a step, and at most for this long.
const CAPACITY_WINDOW_MAX: Duration = Duration::from_secs(3);
const CAPACITY_WINDOW_DEFAULT: Duration = Duration::from_secs(1);

/// What is known of what the generator itself can do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ceiling {
    /// Requests per second.
    Measured(f64),
    /// Nobody asked for it.
    NotWanted,
    /// It cannot be measured, for this reason.
    Unknown(&'static str),
}

impl Ceiling {
    pub(super) fn note(self, result: &mut RunResult) {
        match self {
            Self::Measured(rps) => summary::note_ceiling(result, rps),
            Self::NotWanted => {}
            Self::Unknown(why) => result.saturation.ceiling_unknown = Some(why.to_owned()),
        }
    }
}

/// What is driven, and how.
pub(super) struct Campaign<'a> {
    pub(super) args: &'a DriveArgs,
    pub(super) endpoint: &'a Endpoint,
    pub(super) load: &'a Load,
    pub(super) server: Option<ServerProbe>,
    pub(super) interrupt: &'a AtomicBool,
}

/// Whether anybody is there, and speaks TLS if that is asked for. If not, programs that read the result get one.
pub(super) fn probe(args: &DriveArgs, subject: Subject, endpoint: &Endpoint, load: &Load) -> Result<(), Failure> {
    args.sources.refuse_unusable(endpoint)?;
    let source = load.sources.first().copied();
    let Err(error) = endpoint.probe(load.timeouts.connect, load.tls.as_ref(), source) else { return Ok(()) };
    args.tell_unreachable(&summary::unreachable(subject, class(&error, load)))?;
    let advice = engine::tls_advice(&error);
    let error = anyhow::Error::from(error);
    let error = match advice {
        Some(advice) => anyhow!("{error}; {advice}"),
        None => error,
    };
    Err(Failure::Other(error.context(format!("cannot connect to {endpoint}"))))
}

/// As the engine would have counted it.
fn class(error: &io::Error, load: &Load) -> ErrorClass {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => ErrorClass::ConnectTimeout,
        Some(errno) => ErrorClass::of_connect(errno),
        None if error.kind() == io::ErrorKind::TimedOut => ErrorClass::ConnectTimeout,
        None if load.tls.is_some() => ErrorClass::Tls,
        None => ErrorClass::ConnectFailed,
    }
}

impl Campaign<'_> {
    /// What the generator itself can do against a null server, if that is to be known.
    pub(super) fn ceiling<P: ClientProtocol, D: Dialogue>(
        &self,
        replies: D::Replies,
        make_client: impl Fn(usize) -> P,
    ) -> Result<Ceiling, Failure>
    where
        D::Replies: Send,
    {
        if !self.args.wants_ceiling(self.load) {
            return Ok(Ceiling::NotWanted);
        }
        if self.load.tls.is_some() {
            return Ok(Ceiling::Unknown("no null server speaks TLS"));
        }
        let measured = ceiling::measure::<P, D>(self.load, replies, make_client, self.interrupt);
        Ok(Ceiling::Measured(measured.context("the self-check failed (--self-check=off does without)")?))
    }

    /// Runs, stores and prints. `inspect` sees what each run measured before it is summarized.
    pub(super) fn carry_out<P: ClientProtocol>(
        &self,
        make_client: impl Fn(usize) -> P,
        inspect: impl Fn(&mut Measured<P>),
        describe: impl Fn(&Load) -> Subject,
        ceiling: Ceiling,
    ) -> Result<Outcome, Failure> {
        let run = |load: &Load| -> Result<(Measured<P>, RunResult), Failure> {
            let server = self.server.as_ref();
            let mut measured = drive(self.endpoint, load, &make_client, server, self.interrupt, self.args.progress)
                .context("the run failed")?;
            inspect(&mut measured);
            let mut result = summary::summarize(describe(load), &measured, server);
            ceiling.note(&mut result);
            Ok((measured, result))
        };
        let capacity = match self.args.rate_sweep {
            Some(_) => Some(self.capacity(&run)?),
            None => None,
        };
        let paces = self.paces(capacity.as_ref());
        if paces.len() < 2 && capacity.is_none() {
            let (measured, result) = run(self.load)?;
            return self.args.tell(&result, &measured, self.endpoint);
        }
        let Steps { total, steps } = self.climb(&paces, &run)?;
        let Some(total) = total else {
            return Err(Failure::Interrupted(anyhow!("interrupted before the first step")));
        };
        let mut result = summary::summarize(describe(self.load), &total, None);
        let rates: Vec<_> = paces.iter().map(|pace| pace.rate).collect();
        result.config.insert("rate".to_owned(), json!(null));
        result.config.insert("rates".to_owned(), json!(rates));
        result.config.insert("rate_sweep".to_owned(), json!(self.args.rate_sweep.as_ref().map(ToString::to_string)));
        (result.capacity, result.steps) = (capacity, steps);
        self.args.tell(&result, &total, self.endpoint)
    }

    /// What the server does when every reply lets the next request go.
    fn capacity<P>(
        &self,
        run: &impl Fn(&Load) -> Result<(Measured<P>, RunResult), Failure>,
    ) -> Result<Capacity, Failure> {
        let window = match self.load.limit {
            Limit::Duration(duration) => duration.min(CAPACITY_WINDOW_MAX),
            Limit::Requests(_) => CAPACITY_WINDOW_DEFAULT,
        };
        let limit = Limit::Duration(window);
        let load =
            Load { pacing: Pacing::Closed, limit, timeline: None, request_log: None, spin: false, ..self.load.clone() };
        let (_, result) = run(&load)?;
        if result.ok == 0 {
            return Err(Failure::Other(anyhow::anyhow!(
                "no capacity was found: no request succeeded in a closed loop"
            )));
        }
        let RunResult { throughput_rps, duration_s, latency_us: service_us, .. } = result;
        Ok(Capacity { throughput_rps, duration_s, service_us })
    }

    fn paces(&self, capacity: Option<&Capacity>) -> Vec<Pace> {
        match (&self.args.rate_sweep, capacity) {
            (Some(sweep), Some(capacity)) => {
                let pace = |&share: &f64| Pace { rate: share * capacity.throughput_rps, share: Some(share) };
                sweep.shares.iter().map(pace).collect()
            }
            _ => self.args.rate.iter().map(|&rate| Pace { rate, share: None }).collect(),
        }
    }

    /// Step by step, until the server cannot keep up.
    fn climb<P>(
        &self,
        paces: &[Pace],
        run: &impl Fn(&Load) -> Result<(Measured<P>, RunResult), Failure>,
    ) -> Result<Steps<P>, Failure> {
        let mut steps = Steps { total: None, steps: Vec::new() };
        for (index, pace) in paces.iter().enumerate() {
            if self.interrupt.load(Ordering::Relaxed) {
                if let Some(total) = &mut steps.total {
                    total.was_interrupted = true;
                }
                break;
            }
            let load = Load { pacing: self.args.pace(pace.rate), ..self.load.clone() };
            let (measured, result) = run(&load)?;
            if let Some(directory) = self.args.out() {
                store(&directory.join(format!("step-{}", index + 1)), &result, &measured)?;
            }
            let note = if measured.was_interrupted { None } else { summary::shortfall(pace.rate, &load, &result) };
            let is_served = note.is_none();
            let note = note.unwrap_or_default();
            if !is_served {
                let left = paces.len() - index - 1;
                let rest = if left > 0 { format!("; {left} higher rates are left out") } else { String::new() };
                complain(&format!("at {} requests/s {note}{rest}", output::rate(pace.rate)));
            }
            steps.steps.push(Step { rate: pace.rate, share: pace.share, is_served, note, result });
            let is_over = !is_served || measured.was_abandoned;
            match &mut steps.total {
                Some(total) => total.absorb(&measured),
                None => steps.total = Some(measured),
            }
            if is_over {
                break;
            }
        }
        Ok(steps)
    }
}

fn store<P>(directory: &Path, result: &RunResult, measured: &Measured<P>) -> anyhow::Result<()> {
    summary::store(directory, result, measured)
        .with_context(|| format!("cannot write the result into {}", directory.display()))
}

/// One rate of several.
struct Pace {
    rate: f64,
    share: Option<f64>,
}

struct Steps<P> {
    /// All steps together.
    total: Option<Measured<P>>,
    steps: Vec<Step>,
}
