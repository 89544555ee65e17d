//! The log as a file.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::{Reason, Record, RequestLog};

/// Format of a log. Its name is the extension of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A header line, and a row for each request, in which unknown values are empty
    Csv,
    /// A JSON object in each line, in which unknown values are null
    #[value(name = "jsonl")]
    JsonLines,
}

impl RequestLog {
    /// Writes the records, in the order in which they were settled.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&self, format: LogFormat, out: &mut impl Write) -> io::Result<()> {
        let rows = self.records.iter().map(Row::new);
        match format {
            LogFormat::Csv => write_csv(rows, out),
            LogFormat::JsonLines => write_json_lines(rows, out),
        }
    }
}

/// Names of the columns, also of a log without a row.
const COLUMNS: [&str; 12] = [
    "scheduled_ns",
    "sent_ns",
    "first_byte_ns",
    "finished_ns",
    "connection",
    "operation",
    "outcome",
    "bytes",
    "in_sample",
    "in_last",
    "in_slowest",
    "in_failed",
];

/// A record as its file has it, in the order of [`COLUMNS`].
#[derive(Serialize)]
struct Row<'a> {
    scheduled_ns: Option<i64>,
    sent_ns: Option<i64>,
    first_byte_ns: Option<i64>,
    finished_ns: i64,
    connection: Option<u64>,
    operation: Option<&'a str>,
    outcome: &'static str,
    bytes: u64,
    in_sample: bool,
    in_last: bool,
    in_slowest: bool,
    in_failed: bool,
}

impl<'a> Row<'a> {
    fn new(record: &'a Record) -> Self {
        Self {
            scheduled_ns: record.scheduled,
            sent_ns: record.sent,
            first_byte_ns: record.first_byte,
            finished_ns: record.finished,
            connection: record.connection,
            operation: record.operation.as_deref(),
            outcome: record.outcome.map_or_else(|class| class.name(), |()| "ok"),
            bytes: record.bytes,
            in_sample: record.reasons.has(Reason::Sample),
            in_last: record.reasons.has(Reason::Last),
            in_slowest: record.reasons.has(Reason::Slowest),
            in_failed: record.reasons.has(Reason::Failed),
        }
    }
}

fn write_csv<'a>(rows: impl Iterator<Item = Row<'a>>, out: &mut impl Write) -> io::Result<()> {
    let mut table = csv::WriterBuilder::new().has_headers(false).from_writer(out);
    table.write_record(COLUMNS)?;
    for row in rows {
        table.serialize(row)?;
    }
    table.flush()
}

fn write_json_lines<'a>(rows: impl Iterator<Item = Row<'a>>, out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        // By way of a value, which sorts the keys.
        writeln!(out, "{}", serde_json::to_value(row)?)?;
    }
    out.flush()
}
