//! A load that is run once, or at several rates one after the other. It is the same for sockets and for queues.

use std::{
    fmt::Display,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::anyhow;
use loadgen::{
    engine::{Limit, Load, Measured, Pacing},
    result::{Capacity, RunResult, Step},
    summary::{self, RunDescription},
    units,
    usage::ServerProbe,
};
use serde_json::json;

use super::{ExitOutcome, Failure, agent, ceiling::Ceiling, eprint_line, load::LoadArgs};

/// Limit of the time for which a capacity is measured, which is otherwise that of a step.
const CAPACITY_WINDOW_MAX: Duration = Duration::from_secs(3);
/// The same where steps have a number of requests.
const CAPACITY_WINDOW_DEFAULT: Duration = Duration::from_secs(1);

/// One run or several of the same kind, whatever drives them.
pub(super) struct Series<'a> {
    pub(super) args: &'a LoadArgs,
    /// The load but for the rate, which each step has of its own.
    pub(super) load: &'a Load,
    pub(super) server: Option<&'a ServerProbe>,
    pub(super) interrupt: &'a AtomicBool,
    pub(super) ceiling: Ceiling,
}

impl Series<'_> {
    /// Runs, stores and prints. `measure` runs one load against `target`, and `describe` says what was asked for.
    pub(super) fn carry_out<P>(
        &self,
        target: &impl Display,
        measure: impl Fn(&Load) -> anyhow::Result<Measured<P>>,
        describe: impl Fn(&Load) -> RunDescription,
    ) -> Result<ExitOutcome, Failure> {
        let run = |load: &Load| -> Result<(Measured<P>, RunResult), Failure> {
            if let Some(coordinator) = agent::link() {
                coordinator.await_start()?;
            }
            let measured = measure(load)?;
            let mut result = summary::summarize(describe(load), &measured, self.server);
            self.ceiling.note(&mut result);
            Ok((measured, result))
        };
        let capacity = match self.args.rate_sweep {
            Some(_) => Some(self.capacity(&run)?),
            None => None,
        };
        let rates = self.rates(capacity.as_ref());
        if rates.len() < 2 && capacity.is_none() {
            let (measured, result) = run(self.load)?;
            return self.report(&result, &measured, target);
        }
        let Steps { total, steps } = self.sweep(&rates, &run)?;
        let Some(total) = total else {
            return Err(Failure::Interrupted(anyhow!("interrupted before the first step")));
        };
        let mut result = summary::summarize(describe(self.load), &total, None);
        let rates: Vec<_> = rates.iter().map(|offered| offered.rate).collect();
        result.config.insert("rate".to_owned(), json!(null));
        result.config.insert("rates".to_owned(), json!(rates));
        result.config.insert("rate_sweep".to_owned(), json!(self.args.rate_sweep.as_ref().map(ToString::to_string)));
        (result.capacity, result.steps) = (capacity, steps);
        self.report(&result, &total, target)
    }

    fn report<P>(
        &self,
        result: &RunResult,
        measured: &Measured<P>,
        target: &impl Display,
    ) -> Result<ExitOutcome, Failure> {
        let is_server_gone = self.args.server_pid.is_some() && result.server.is_none() && result.steps.is_empty();
        let warning = is_server_gone.then_some("the process of --server-pid ended during the run");
        self.args.output.report(result, measured, target, warning)
    }

    /// Measures the throughput of a closed loop.
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

    fn rates(&self, capacity: Option<&Capacity>) -> Vec<OfferedRate> {
        match (&self.args.rate_sweep, capacity) {
            (Some(sweep), Some(capacity)) => {
                let offered = |&share: &f64| OfferedRate { rate: share * capacity.throughput_rps, share: Some(share) };
                sweep.shares.iter().map(offered).collect()
            }
            _ => self.args.rate.iter().map(|&rate| OfferedRate { rate, share: None }).collect(),
        }
    }

    /// Runs one rate after the other, until the server cannot keep up.
    fn sweep<P>(
        &self,
        rates: &[OfferedRate],
        run: &impl Fn(&Load) -> Result<(Measured<P>, RunResult), Failure>,
    ) -> Result<Steps<P>, Failure> {
        let mut steps = Steps { total: None, steps: Vec::new() };
        for (index, offered) in rates.iter().enumerate() {
            if self.interrupt.load(Ordering::Relaxed) {
                if let Some(total) = &mut steps.total {
                    total.was_interrupted = true;
                }
                break;
            }
            let load = Load { pacing: self.args.pacing(offered.rate), ..self.load.clone() };
            let (measured, result) = run(&load)?;
            self.args.output.store_step(index, &result, &measured)?;
            let note = if measured.was_interrupted { None } else { summary::shortfall(offered.rate, &load, &result) };
            let is_served = note.is_none();
            let note = note.unwrap_or_default();
            if !is_served {
                let left = rates.len() - index - 1;
                let rest = match left {
                    0 => String::new(),
                    1 => "; 1 higher rate is left out".to_owned(),
                    _ => format!("; {left} higher rates are left out"),
                };
                eprint_line(&format!("at {} requests/s {note}{rest}", units::rate(offered.rate)));
            }
            steps.steps.push(Step { rate: offered.rate, share: offered.share, is_served, note, result });
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

/// One rate of several.
struct OfferedRate {
    rate: f64,
    /// Share of the capacity, in a sweep.
    share: Option<f64>,
}

struct Steps<P> {
    /// All steps together.
    total: Option<Measured<P>>,
    steps: Vec<Step>,
}
