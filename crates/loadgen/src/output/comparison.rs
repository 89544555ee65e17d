//! A comparison as text and as CSV.

use std::{fmt::Write as _, io};

use super::text::setting_text;
use crate::{
    compare::{Comparison, Row, Section, Unit},
    units::{TimeUnit, rate, wrap},
};

/// Columns of a cell: a grouped number, a mark and a ratio.
const CELL: usize = 20;
/// Columns of the names of figures.
const NAME: usize = 20;

/// Renders a comparison for a terminal.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write_text(&mut text, comparison);
    text
}

fn write_text(out: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let width = comparison.results.iter().map(|side| side.name.chars().count()).max().unwrap_or(0);
    for side in &comparison.results {
        writeln!(out, "{}  {:<width$}  {}", side.label, side.name, side.target)?;
    }
    if !comparison.differing.is_empty() {
        writeln!(out, "\nnot the same in all")?;
        for setting in &comparison.differing {
            let values: Vec<_> = setting.values.iter().map(setting_text).collect();
            writeln!(out, "  {:<16}{}", setting.name, values.join(" | "))?;
        }
    }
    for section in &comparison.sections {
        writeln!(out)?;
        write_section(out, comparison, section)?;
    }
    if comparison.sections.iter().flat_map(|section| &section.rows).any(|row| row.is_thin.contains(&true)) {
        writeln!(out, "? rests on fewer than 10 replies")?;
    }
    writeln!(out, "CPU time and instructions are per request")?;
    writeln!(out)?;
    comparison.notes.iter().try_for_each(|note| writeln!(out, "{}", wrap(&format!("note: {note}"), 0)))
}

fn write_section(out: &mut String, comparison: &Comparison, section: &Section) -> std::fmt::Result {
    let times = section.rows.iter().filter(|row| row.unit == Unit::Microseconds);
    // One unit for all times of a section: that of the first figure, which is the median.
    let unit =
        times.flat_map(|row| &row.values).flatten().next().map_or(TimeUnit::Microseconds, |&us| TimeUnit::of(us));
    let mut heading = format!("{:<NAME$}", section.title);
    for side in &comparison.results {
        write!(heading, "{:>CELL$}", format!("{}         ", side.label))?;
    }
    writeln!(out, "{}", heading.trim_end())?;
    for row in &section.rows {
        let mut line = format!("{:<NAME$}", format!("{}{}", row.name, unit_suffix(row.unit, unit)));
        for index in 0..row.values.len() {
            write!(line, "{:>CELL$}", cell(row, index, unit))?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cell(row: &Row, index: usize, unit: TimeUnit) -> String {
    let Some(value) = row.values[index] else { return format!("-{:9}", "") };
    let mark = if row.is_thin[index] { '?' } else { ' ' };
    let ratio = match row.ratios[index] {
        Some(ratio) if index > 0 && row.unit != Unit::Percent => format!("×{ratio:.3}"),
        _ => String::new(),
    };
    format!("{}{mark} {ratio:<7}", figure(row.unit, value, unit))
}

/// Returns what stands behind the name of a figure in a table.
fn unit_suffix(unit: Unit, time: TimeUnit) -> String {
    match unit {
        Unit::RequestsPerSecond => "/s".to_owned(),
        Unit::Microseconds => format!(", {}", time.name()),
        Unit::Percent => ", %".to_owned(),
        Unit::Mebibytes => ", MiB".to_owned(),
        Unit::MicrosecondsPerRequest => ", µs".to_owned(),
        Unit::InstructionsPerRequest => String::new(),
    }
}

/// Returns a unit as JSON has it.
fn unit_name(unit: Unit) -> String {
    serde_json::to_value(unit).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn figure(unit: Unit, value: f64, time: TimeUnit) -> String {
    match unit {
        Unit::RequestsPerSecond | Unit::InstructionsPerRequest => rate(value),
        Unit::Microseconds => time.format(value),
        Unit::Percent | Unit::MicrosecondsPerRequest => format!("{value:.3}"),
        Unit::Mebibytes => format!("{value:.1}"),
    }
}

/// Writes a header line and a row for each figure of each section.
///
/// # Errors
/// `out` cannot be written.
pub fn csv(comparison: &Comparison, out: &mut impl io::Write) -> csv::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    let names = |suffix: &'static str| comparison.results.iter().map(move |side| format!("{}{suffix}", side.name));
    let fixed = ["section", "measure", "unit"].map(str::to_owned);
    table.write_record(fixed.into_iter().chain(names("")).chain(names(" (ratio)")))?;
    for section in &comparison.sections {
        for row in &section.rows {
            let fixed = [section.title.clone(), row.name.to_owned(), unit_name(row.unit)];
            let figures = row.values.iter().chain(&row.ratios);
            let figures = figures.map(|figure| figure.map(|figure| figure.to_string()).unwrap_or_default());
            table.write_record(fixed.into_iter().chain(figures))?;
        }
    }
    Ok(table.flush()?)
}
