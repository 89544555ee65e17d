//! A comparison for people and for programs.

use std::fmt::Write as _;

use super::{
    csv::quote,
    text::{duration, rounded},
};
use crate::compare::{Comparison, Row, Section, Unit};

/// Wide enough for a grouped number, a ratio and a mark.
const CELL: usize = 21;

pub(super) fn text(comparison: &Comparison) -> String {
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
            let values: Vec<_> = setting.values.iter().map(super::text::plain).collect();
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
    writeln!(out)?;
    comparison.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn write_section(out: &mut String, comparison: &Comparison, section: &Section) -> std::fmt::Result {
    let mut heading = format!("{:<26}", section.title);
    for side in &comparison.results {
        write!(heading, "{:>CELL$}", format!("{}          ", side.label))?;
    }
    writeln!(out, "{}", heading.trim_end())?;
    for row in &section.rows {
        let mut line = format!("{:<26}", format!("{}{}", row.name, unit(row.unit)));
        for index in 0..row.values.len() {
            write!(line, "{:>CELL$}", cell(row, index))?;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cell(row: &Row, index: usize) -> String {
    let Some(value) = row.values[index] else { return format!("-{:10}", "") };
    let mark = if row.is_thin[index] { '?' } else { ' ' };
    let ratio = match row.ratios[index] {
        Some(ratio) if index > 0 && row.unit != Unit::Percent => format!("×{ratio:.3}"),
        _ => String::new(),
    };
    format!("{}{mark} {ratio:<8}", figure(row.unit, value))
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::RequestsPerSecond => ", requests/s",
        Unit::Microseconds => "",
        Unit::Percent => ", %",
        Unit::Mebibytes => ", MiB",
        Unit::MicrosecondsPerRequest => ", µs per request",
        Unit::InstructionsPerRequest => " per request",
    }
}

fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::RequestsPerSecond | Unit::InstructionsPerRequest => rounded(value),
        Unit::Microseconds => duration(value),
        Unit::Percent | Unit::MicrosecondsPerRequest => format!("{value:.3}"),
        Unit::Mebibytes => format!("{value:.1}"),
    }
}

/// A row for each figure of each section.
pub(super) fn csv(comparison: &Comparison) -> String {
    let names = |suffix: &str| {
        comparison.results.iter().map(|side| quote(&format!("{}{suffix}", side.name))).collect::<Vec<_>>().join(",")
    };
    let mut text = format!("section,measure,unit,{},{}\n", names(""), names(" (ratio)"));
    for section in &comparison.sections {
        for row in &section.rows {
            let columns = row.values.iter().chain(&row.ratios);
            let columns: Vec<_> =
                columns.map(|value| value.map(|value| value.to_string()).unwrap_or_default()).collect();
            let unit = serde_json::to_value(row.unit).unwrap_or_default();
            let unit = unit.as_str().unwrap_or_default();
            text.push_str(&format!("{},{},{unit},{}\n", quote(&section.title), row.name, columns.join(",")));
        }
    }
    text
}
