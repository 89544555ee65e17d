//! `loadgen report`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use loadgen::{
    compare::Comparison,
    merge::{self, Merged, Order},
    output,
    result::NamedResult,
    stored,
};
use serde::Serialize;

use super::{
    ExitOutcome, Failure, eprint_line,
    output::{FailIfArgs, OutputFormat, check_unused, csv, store},
    print,
};

const EXAMPLES: &str = "Examples:
  loadgen report results/run-1                          the result as text
  loadgen report --format csv results/*                 a row for each
  loadgen report --merge --out whole machine-1 machine-2   what two generators did at the same time
  loadgen report --merge=consecutive run-1 run-2 run-3  what runs did one after another
  loadgen report --compare before after                 a table with ratios
  loadgen report --fail-if 'p99>5ms' results/run-1      the same, and exit status 4 if that holds
  loadgen report --compare --fail-if 'p99>1.1x' --fail-if 'throughput_rps<0.95x' before after
  loadgen http … --format json | tee now.json | loadgen report -

Results that cannot be merged or compared are bad usage. Exit status: 0; 4 a condition of --fail-if holds; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportArgs {
    /// A directory that --out wrote, a file with results as --format json prints them, or - for standard input
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    results: Vec<PathBuf>,
    /// Add the results up: their histograms counter by counter, so that percentiles are exact
    #[arg(long, value_enum, value_name = "ORDER", num_args = 0..=1, require_equals = true,
          default_missing_value = "concurrent", conflicts_with = "compare")]
    merge: Option<Order>,
    /// Set the results side by side, with their ratios to the first
    #[arg(long, conflicts_with = "out")]
    compare: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// Also write the result into this directory, which must not hold another, with its histograms as .hlog and .hgrm
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    // With --compare a limit may be a multiple of the first result's figure: 'p99>1.1x'.
    #[command(flatten)]
    fail_if: FailIfArgs,
}

pub(super) fn run(args: &ReportArgs) -> Result<ExitOutcome, Failure> {
    if !args.compare {
        args.fail_if.check_absolute()?;
    }
    check_unused(args.out.as_deref())?;
    let mut results = Vec::new();
    for path in &args.results {
        let read = if path.as_os_str() == "-" {
            stored::read_all(std::io::stdin().lock(), "standard input")
        } else {
            stored::read(path)
        };
        results.extend(read?);
    }
    if args.compare {
        let comparison = Comparison::of(&results).map_err(Failure::usage)?;
        print(match args.format {
            OutputFormat::Text => output::comparison_text(&comparison).into_bytes(),
            OutputFormat::Json => json(&comparison)?,
            OutputFormat::Csv => {
                let mut table = Vec::new();
                output::comparison_csv(&comparison, &mut table).context("cannot write CSV")?;
                table
            }
        })?;
        return Ok(judge(&args.fail_if, &results, true));
    }
    if let Some(order) = args.merge {
        results = vec![merge_all(&results, order)?];
    }
    if let Some(directory) = &args.out {
        let [one] = &results[..] else {
            let count = results.len();
            return Err(Failure::usage(format_args!("--out takes one result and there are {count} (--merge?)")));
        };
        store(directory, &one.result, None)?;
    }
    print(render(&results, args.format)?)?;
    Ok(judge(&args.fail_if, &results, false))
}

/// Says which conditions hold for which results. Ratios are to the first of them.
fn judge(fail_if: &FailIfArgs, results: &[NamedResult], is_comparison: bool) -> ExitOutcome {
    let (ratios, values) = (fail_if.of_ratios(true), fail_if.of_ratios(false));
    let mut has_failed = false;
    for (index, NamedResult { name, result }) in results.iter().enumerate() {
        let of = if results.len() > 1 { format!(" ({name})") } else { String::new() };
        has_failed |= values.report(result, None, &of);
        if is_comparison && index > 0 {
            has_failed |= ratios.report(result, results.first().map(|first| &first.result), &of);
        }
    }
    if has_failed { ExitOutcome::ThresholdExceeded } else { ExitOutcome::Success }
}

fn merge_all(parts: &[NamedResult], order: Order) -> Result<NamedResult, Failure> {
    let cannot = |error: merge::MergeError| Failure::usage(format_args!("these results do not add up: {error}"));
    let Merged { result, notes } = merge::merge(parts, order).map_err(cannot)?;
    notes.iter().for_each(|note| eprint_line(&format!("note: {note}")));
    Ok(NamedResult { name: "merged".to_owned(), result })
}

/// Renders one result as its run would have printed it, and several as a list.
fn render(results: &[NamedResult], format: OutputFormat) -> anyhow::Result<Vec<u8>> {
    let titled = |named: &NamedResult| format!("── {} ──\n{}", named.name, output::text(&named.result));
    let plain: Vec<_> = results.iter().map(|named| &named.result).collect();
    Ok(match (format, &plain[..]) {
        (OutputFormat::Json, [one]) => json(one)?,
        (OutputFormat::Json, several) => json(&several)?,
        (OutputFormat::Csv, all) => csv(all)?,
        (OutputFormat::Text, [one]) => output::text(one).into_bytes(),
        (OutputFormat::Text, _) => results.iter().map(titled).collect::<Vec<_>>().join("\n").into_bytes(),
    })
}

fn json(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    Ok((serde_json::to_string_pretty(value).context("cannot write JSON")? + "\n").into_bytes())
}
