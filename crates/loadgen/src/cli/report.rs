//! `loadgen report`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use loadgen::{
    compare::Comparison,
    merge::{self, Merged, Order, Part},
    output, stored,
};

use super::{
    Failure, Outcome, complain,
    load::{Format, refuse_used},
    print,
};

const EXAMPLES: &str = "Examples:
  loadgen report results/run-1                          the result as text
  loadgen report --format csv results/*                 a row for each
  loadgen report --merge --out whole machine-1 machine-2   what two generators did at the same time
  loadgen report --merge=consecutive run-1 run-2 run-3  what runs did one after another
  loadgen report --compare before after                 a table with ratios
  loadgen http … --format json | tee now.json | loadgen report -

Results that cannot be merged or compared are bad usage. Exit status: 0; 2 bad usage; 1 anything else.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportArgs {
    /// A directory that --out wrote, a file with results as --format json prints them, or - for standard input
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    results: Vec<PathBuf>,
    /// Add the results up: their histograms counter by counter, so that percentiles are exact
    #[arg(long, value_enum, value_name = "ORDER", num_args = 0..=1, require_equals = true,
          default_missing_value = "concurrent", conflicts_with = "compare")]
    merge: Option<OrderArg>,
    /// Set the results side by side, with their ratios to the first
    #[arg(long, conflicts_with = "out")]
    compare: bool,
    /// How to print
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also write the result into this directory, which must not hold another, with its histograms as .hlog and .hgrm
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum OrderArg {
    /// Generators that ran at the same time: throughputs add up
    Concurrent,
    /// Runs one after another: windows add up
    Consecutive,
}

pub(super) fn run(args: &ReportArgs) -> Result<Outcome, Failure> {
    refuse_used(args.out.as_deref())?;
    let mut parts = Vec::new();
    for path in &args.results {
        let read = if path.as_os_str() == "-" {
            stored::read_all(std::io::stdin().lock(), "standard input")
        } else {
            stored::read(path)
        };
        parts.extend(read?);
    }
    if args.compare {
        let comparison = Comparison::of(&parts).map_err(|error| Failure::Usage(error.to_string()))?;
        print(&match args.format {
            Format::Text => output::comparison_text(&comparison),
            Format::Json => serde_json::to_string_pretty(&comparison).context("cannot write JSON")? + "\n",
            Format::Csv => output::comparison_csv(&comparison),
        })?;
        return Ok(Outcome::Success);
    }
    if let Some(order) = args.merge {
        parts = vec![merge_all(&parts, order.into())?];
    }
    if let Some(directory) = &args.out {
        let [part] = &parts[..] else {
            return Err(Failure::Usage(format!("--out takes one result and there are {} (--merge?)", parts.len())));
        };
        stored::write(directory, &part.result)
            .with_context(|| format!("cannot write the result into {}", directory.display()))?;
    }
    print(&render(&parts, args.format)?)?;
    Ok(Outcome::Success)
}

fn merge_all(parts: &[Part], order: Order) -> Result<Part, Failure> {
    let cannot = |error: merge::MergeError| Failure::Usage(format!("these results do not add up: {error}"));
    let Merged { result, notes } = merge::merge(parts, order).map_err(cannot)?;
    notes.iter().for_each(|note| complain(&format!("note: {note}")));
    Ok(Part { name: "merged".to_owned(), result })
}

/// One as the run itself would have printed it; several as a list.
fn render(parts: &[Part], format: Format) -> anyhow::Result<String> {
    let results: Vec<_> = parts.iter().map(|part| &part.result).collect();
    Ok(match (format, &results[..]) {
        (Format::Json, [one]) => output::json(one).context("cannot write JSON")? + "\n",
        (Format::Json, several) => serde_json::to_string_pretty(several).context("cannot write JSON")? + "\n",
        (Format::Csv, _) => output::csv_of_all(&results),
        (Format::Text, [one]) => output::text(one),
        (Format::Text, _) => {
            let titled = |part: &Part| format!("── {} ──\n{}", part.name, output::text(&part.result));
            parts.iter().map(titled).collect::<Vec<_>>().join("\n")
        }
    })
}

impl From<OrderArg> for Order {
    fn from(arg: OrderArg) -> Self {
        match arg {
            OrderArg::Concurrent => Self::Concurrent,
            OrderArg::Consecutive => Self::Consecutive,
        }
    }
}
