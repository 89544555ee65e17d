//! A load that is run once, or at several rates one after the other: the same for sockets and for queues.

use std::{
    fmt::Display,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use loadgen::{
    engine::{Limit, Load, Measured, Pacing},
    output,
    result::{Capacity, RunResult, Step},
    summary::{self, Subject},
    usage::ServerProbe,
};
use serde_json::json;

use super::{Failure, Outcome, complain, load::DriveArgs, socket_run::Ceiling};

/// A capacity is measured for as long as a step, and at most for this long.
const CAPACITY_WINDOW_MAX: Duration = Duration::from_secs(3);
const CAPACITY_WINDOW_DEFAULT: Duration = Duration::from_secs(1);

/// What is to be run, whatever it is driven by.
pub(super) struct Series<'a> {
    pub(super) args: &'a DriveArgs,
    /// Each step has a rate of its own, and is this for the rest.
    pub(super) load: &'a Load,
    pub(super) server: Option<&'a ServerProbe>,
    pub(super) interrupt: &'a AtomicBool,
    pub(super) ceiling: Ceiling,
}

impl Series<'_> {
    /// Runs, stores and prints. `measure` runs one load against `target`, `describe` says what was asked for.
    pub(super) fn carry_out<P>(
        &self,
        target: &impl Display,
        measure: impl Fn(&Load) -> anyhow::Result<Measured<P>>,
        describe: impl Fn(&Load) -> Subject,
    ) -> Result<Outcome, Failure> {
        let run = |load: &Load| -> Result<(Measured<P>, RunResult), Failure> {
            let measured = measure(load).context("the run failed")?;
            let mut result = summary::summarize(describe(load), &measured, self.server);
            self.ceiling.note(&mut result);
            Ok((measured, result))
        };
        let capacity = match self.args.rate_sweep {
            Some(_) => Some(self.capacity(&run)?),
            None => None,
        };
        let paces = self.paces(capacity.as_ref());
        if paces.len() < 2 && capacity.is_none() {
            let (measured, result) = run(self.load)?;
            return self.args.tell(&result, &measured, target);
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
        self.args.tell(&result, &total, target)
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
        let (measured, result) = run(&load)?;
        if measured.was_interrupted {
            return Err(Failure::Interrupted(anyhow!("interrupted before the first step")));
        }
        if result.ok == 0 {
            return Err(Failure::Other(anyhow!("no capacity was found: no request succeeded in a closed loop")));
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
