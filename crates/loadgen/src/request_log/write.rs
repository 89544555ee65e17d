//! The log as a file.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Reason, Record, RequestLog};
use crate::output::quote;

/// Declares the formats once: the enum, [`Format::ALL`] and the endings of file names cannot differ.
macro_rules! formats {
    ($($(#[doc = $about:literal])+ $format:ident = $extension:literal,)+) => {
        /// How the log is written.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Format { $($(#[doc = $about])+ $format,)+ }

        impl Format {
            pub const ALL: &'static [Self] = &[$(Self::$format,)+];

            /// What file names end with.
            #[must_use]
            pub fn extension(self) -> &'static str {
                match self { $(Self::$format => $extension,)+ }
            }
        }
    };
}

formats! {
    /// A header line, and a row for each request; what is not known is empty
    Csv = "csv",
    /// A JSON object in each line; what is not known is null
    JsonLines = "jsonl",
}

impl RequestLog {
    /// Writes the records, in the order of their verdicts.
    ///
    /// # Errors
    /// `out` takes no more.
    pub fn write(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        if format == Format::Csv {
            let names: Vec<_> = columns(&Record::NOTHING).into_iter().map(|(name, _)| name).collect();
            writeln!(out, "{}", names.join(","))?;
        }
        for record in &self.records {
            let columns = columns(record);
            match format {
                Format::Csv => writeln!(out, "{}", columns.map(|(_, value)| field(&value)).join(","))?,
                Format::JsonLines => {
                    let object: Map<_, _> = columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                    writeln!(out, "{}", Value::Object(object))?;
                }
            }
        }
        out.flush()
    }
}

impl Record {
    /// For its columns only.
    const NOTHING: Self = Self {
        reasons: super::Reasons(0),
        scheduled: None,
        sent: None,
        first_byte: None,
        finished: 0,
        connection: None,
        operation: None,
        verdict: Ok(()),
        bytes: 0,
    };
}

fn columns(record: &Record) -> [(&'static str, Value); 8 + Reason::ALL.len()] {
    let mut reasons = Reason::ALL.iter().map(|&reason| (reason.name(), json!(record.reasons.has(reason))));
    let mut reason = || reasons.next().unwrap_or_default();
    [
        ("scheduled_ns", json!(record.scheduled)),
        ("sent_ns", json!(record.sent)),
        ("first_byte_ns", json!(record.first_byte)),
        ("finished_ns", json!(record.finished)),
        ("connection", json!(record.connection)),
        ("operation", json!(record.operation.as_deref())),
        ("outcome", json!(record.verdict.map_or_else(|class| class.name(), |()| "ok"))),
        ("bytes", json!(record.bytes)),
        reason(),
        reason(),
        reason(),
        reason(),
    ]
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quote(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
