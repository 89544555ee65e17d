//! `--format`, `--progress`, `--out` and `--request-log`: where a run and its result are shown.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use loadgen::{
    engine::{Measured, Timeline},
    output,
    result::RunResult,
    stored,
    threshold::Threshold,
};

use super::{
    ExitOutcome, Failure, agent, eprint_line, failures, otlp::Collector, print, progress::ProgressMode,
    request_log::RequestLogArgs,
};

#[derive(Args, Debug)]
pub(super) struct OutputArgs {
    /// Format of the printed result
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// Progress on standard error
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) progress: ProgressMode,
    /// Also write result.json, latency.hlog (HdrHistogram log) and latency.hgrm (percentiles, for HdrHistogram's plotter)
    /// into this directory, which must not hold another result
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Send the metrics of the result to a collector of OpenTelemetry: OTLP over HTTP, in JSON; without a path to /v1/metrics
    #[arg(long, value_name = "URL")]
    otlp: Option<Collector>,
    #[command(flatten)]
    request_log: RequestLogArgs,
    #[command(flatten)]
    fail_if: FailIfArgs,
}

/// Conditions under which a command fails.
#[derive(Args, Debug)]
pub(super) struct FailIfArgs {
    /// Exit with status 4 if this holds for the result: 'p99>5ms', 'failed>0.1%', 'throughput_rps<20k', 'errors.timeout>0',
    /// 'lag_us.p99>1ms'; any figure of the JSON result by its name; repeatable
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    fail_if: Vec<Threshold>,
}

impl FailIfArgs {
    /// Refuses conditions on ratios where there is only one result.
    pub(super) fn check_absolute(&self) -> Result<(), Failure> {
        match self.fail_if.iter().find(|condition| condition.is_ratio()) {
            None => Ok(()),
            Some(ratio) => Err(Failure::usage(format_args!("--fail-if {ratio}: a multiple is for report --compare"))),
        }
    }

    /// Says on standard error which conditions hold for a result. `base` is the one that it is compared with. Returns true if any does.
    pub(super) fn report(&self, result: &RunResult, base: Option<&RunResult>, of: &str) -> bool {
        let violations: Vec<_> =
            self.fail_if.iter().filter_map(|condition| condition.violation(result, base)).collect();
        violations.iter().for_each(|violation| eprint_line(&format!("--fail-if {violation}{of}")));
        !violations.is_empty()
    }

    /// Returns the conditions on ratios, or the others.
    pub(super) fn of_ratios(&self, is_ratio: bool) -> Self {
        Self { fail_if: self.fail_if.iter().filter(|condition| condition.is_ratio() == is_ratio).cloned().collect() }
    }

    /// Returns how the command ends, which would end with `outcome` without conditions. A condition on failures takes the place of the
    /// status that any failure has.
    fn outcome(&self, result: &RunResult, outcome: ExitOutcome) -> ExitOutcome {
        let limits_failures = self.fail_if.iter().any(Threshold::limits_failures);
        match outcome {
            ExitOutcome::Interrupted => outcome,
            _ if self.report(result, None, "") => ExitOutcome::ThresholdExceeded,
            ExitOutcome::FailedRequests if limits_failures => ExitOutcome::Success,
            ExitOutcome::Success | ExitOutcome::FailedRequests | ExitOutcome::ThresholdExceeded => outcome,
        }
    }
}

/// Format of a printed result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    Text,
    Json,
    Csv,
}

impl OutputArgs {
    /// Returns the size of the request log's sample, if there is to be a log.
    pub(super) fn request_log_size(&self) -> Option<usize> {
        self.request_log.size()
    }

    /// Refuses a directory that holds files of another run, and a request log that cannot be written.
    pub(super) fn check_files(&self, rates: usize) -> Result<(), Failure> {
        self.fail_if.check_absolute()?;
        check_unused(self.out.as_deref())?;
        self.request_log.check_file(rates)
    }

    /// Refuses a request log of which so many clients together would keep too much.
    pub(super) fn check_log_size(&self, clients: usize) -> Result<(), Failure> {
        self.request_log.check_size(clients)
    }

    /// Stores the result of one of several rates.
    pub(super) fn store_step<P>(&self, index: usize, result: &RunResult, measured: &Measured<P>) -> anyhow::Result<()> {
        let Some(directory) = &self.out else { return Ok(()) };
        store(&directory.join(format!("step-{}", index + 1)), result, measured.timeline.as_ref())
    }

    /// Stores and prints the result, and says on standard error how the run ended, with a warning if there is one.
    pub(super) fn report<P>(
        &self,
        result: &RunResult,
        measured: &Measured<P>,
        target: &impl Display,
        warning: Option<&str>,
    ) -> Result<ExitOutcome, Failure> {
        if let Some(directory) = &self.out {
            store(directory, result, measured.timeline.as_ref())?;
        }
        self.request_log.write(measured.request_log.as_ref())?;
        if result.requests == 0 {
            let nothing = |why: &str| anyhow!("nothing was measured at {target}: {why}");
            return Err(if measured.was_interrupted {
                Failure::Interrupted(nothing("interrupted before any reply"))
            } else {
                Failure::Other(nothing("no request ended in time"))
            });
        }
        if agent::link().is_some() {
            agent::Link::send_result(result);
            return Ok(if measured.was_interrupted { ExitOutcome::Interrupted } else { ExitOutcome::Success });
        }
        self.print(result)?;
        if measured.was_interrupted {
            eprint_line("interrupted: this is what was measured until then");
        }
        if measured.was_abandoned {
            eprint_line("given up early: the server has not answered for long");
        }
        if let Some(warning) = warning {
            eprint_line(warning);
        }
        let outcome = report_failures(result);
        self.export(result)?;
        let outcome = if measured.was_interrupted { ExitOutcome::Interrupted } else { outcome };
        Ok(self.fail_if.outcome(result, outcome))
    }

    /// Stores and prints the merged result of several generators, and says on standard error how they ended.
    pub(super) fn report_merged(&self, result: &RunResult) -> Result<ExitOutcome, Failure> {
        if let Some(directory) = &self.out {
            store(directory, result, None)?;
        }
        self.print(result)?;
        let outcome = report_failures(result);
        self.export(result)?;
        if result.origin.interrupted {
            eprint_line("interrupted: this is what was measured until then");
        }
        let outcome = if result.origin.interrupted { ExitOutcome::Interrupted } else { outcome };
        Ok(self.fail_if.outcome(result, outcome))
    }

    /// Prints the result of a server that cannot be connected to, for programs only: people have the line on standard error.
    pub(super) fn report_unreachable(&self, result: &RunResult) -> anyhow::Result<()> {
        if self.format == OutputFormat::Text { Ok(()) } else { self.print(result) }
    }

    /// Sends the result where metrics are collected. That it was not delivered is an error behind the printed result.
    fn export(&self, result: &RunResult) -> anyhow::Result<()> {
        self.otlp.as_ref().map_or(Ok(()), |collector| collector.send(result))
    }

    fn print(&self, result: &RunResult) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Text => print(output::text(result)),
            OutputFormat::Json => print(output::json(result).context("cannot write JSON")? + "\n"),
            OutputFormat::Csv => print(csv(&[result])?),
        }
    }
}

/// Renders results as CSV.
pub(super) fn csv(results: &[&RunResult]) -> anyhow::Result<Vec<u8>> {
    let mut table = Vec::new();
    output::csv(results, &mut table).context("cannot write CSV")?;
    Ok(table)
}

/// Writes a result and its histograms into a directory.
pub(super) fn store(directory: &Path, result: &RunResult, timeline: Option<&Timeline>) -> anyhow::Result<()> {
    stored::write(directory, result, timeline)
        .with_context(|| format!("cannot write the result into {}", directory.display()))
}

/// Refuses a directory that holds files of another run.
pub(super) fn check_unused(out: Option<&Path>) -> Result<(), Failure> {
    match out.and_then(stored::find_leftover) {
        None => Ok(()),
        Some(found) => Err(Failure::Usage(format!(
            "--out: {} is there already, of an earlier run; name another directory, or remove that one",
            found.display()
        ))),
    }
}

/// Says on standard error why requests failed, if any did.
fn report_failures(result: &RunResult) -> ExitOutcome {
    failures::explain(result).iter().for_each(|line| eprint_line(line));
    if result.errors.is_empty() { ExitOutcome::Success } else { ExitOutcome::FailedRequests }
}
