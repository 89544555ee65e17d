//! HdrHistogram's log of histograms by intervals, version 1.3.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::Path,
    time::Duration,
};

use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};

/// An interval of a log, with the histograms of what was measured in it, in nanoseconds.
pub(crate) struct LogInterval {
    pub(crate) start: Duration,
    pub(crate) length: Duration,
    pub(crate) service: Histogram<u64>,
    /// Open loop only.
    pub(crate) response: Option<Histogram<u64>>,
}

/// Writes a log whose tags are `service` and, in an open loop, `response`. An interval's maximum is in milliseconds, as such
/// logs have it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, intervals: impl Iterator<Item = LogInterval>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("loadgen: latencies in nanoseconds")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)?;
    for LogInterval { start, length, service, response } in intervals {
        for (name, histogram) in [("service", Some(service)), ("response", response)] {
            if let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) {
                log.write_histogram(&histogram, start, length, Tag::new(name))
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
            }
        }
    }
    out.flush()
}
