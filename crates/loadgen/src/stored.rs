//! Results that were stored: found, read and written.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use hdrhistogram::{
    Histogram,
    serialization::{
        V2DeflateSerializer,
        interval_log::{IntervalLogWriterBuilder, Tag},
    },
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    histogram::hgrm,
    merge::Part,
    result::{RunResult, SCHEMA},
    summary::{TIMELINE_FILE, decode},
};

/// The result as JSON.
pub const RESULT_FILE: &str = "result.json";
/// Its histograms as an HdrHistogram log of one interval.
pub const HISTOGRAM_FILE: &str = "latency.hlog";
/// The latency that [`RunResult::latency_us`] tells of.
pub const DISTRIBUTION_FILE: &str = "latency.hgrm";
/// Of an open loop, where the other one is response time.
pub const SERVICE_DISTRIBUTION_FILE: &str = "service.hgrm";

/// The first directory of a run with several rates.
const FIRST_STEP: &str = "step-1";

/// Why there is no result to be had.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {name}: {why}")]
    Unreadable { name: String, why: io::Error },
    #[error("{name} is not a result of loadgen: {why}")]
    NotAResult { name: String, why: String },
    #[error("{name} has schema {found}, and this version reads {SCHEMA}")]
    Schema { name: String, found: Value },
}

/// All results of a file, or the one of a directory that `--out` wrote.
///
/// # Errors
/// It cannot be read, has no result in it, or one of another schema.
pub fn read(path: &Path) -> Result<Vec<Part>, ReadError> {
    let path = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_path_buf() };
    let name = name(&path);
    match File::open(&path) {
        Ok(file) => read_all(file, &name),
        Err(why) => Err(ReadError::Unreadable { name: path.display().to_string(), why }),
    }
}

/// All results of a stream, one JSON object behind the other.
///
/// # Errors
/// As [`read`].
pub fn read_all(mut stream: impl Read, name: &str) -> Result<Vec<Part>, ReadError> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|why| ReadError::Unreadable { name: name.to_owned(), why })?;
    let not_a_result = |why: String| ReadError::NotAResult { name: name.to_owned(), why };
    let mut parts = Vec::new();
    for value in serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>() {
        let value = value.map_err(|why| not_a_result(why.to_string()))?;
        let found = value.get("schema").ok_or_else(|| not_a_result("it has no schema".to_owned()))?;
        if found.as_u64() != Some(u64::from(SCHEMA)) {
            return Err(ReadError::Schema { name: name.to_owned(), found: found.clone() });
        }
        let result = RunResult::deserialize(value).map_err(|why| not_a_result(why.to_string()))?;
        parts.push(Part { name: name.to_owned(), result });
    }
    match parts.len() {
        0 => return Err(not_a_result("it is empty".to_owned())),
        1 => {}
        _ => parts.iter_mut().enumerate().for_each(|(index, part)| part.name = format!("{name}#{}", index + 1)),
    }
    Ok(parts)
}

/// A directory is known by its own name.
fn name(path: &Path) -> String {
    let parent = || path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_path_buf);
    let is_of_directory = path.file_name().is_some_and(|name| name == RESULT_FILE);
    let shown: PathBuf = if is_of_directory { parent() } else { None }.unwrap_or_else(|| path.to_path_buf());
    shown.display().to_string()
}

/// Writes a result and what can be read from its histograms into a directory, which is created if need be:
/// [`RESULT_FILE`], [`HISTOGRAM_FILE`], [`DISTRIBUTION_FILE`], and [`SERVICE_DISTRIBUTION_FILE`] if there are two times.
///
/// # Errors
/// A file cannot be written. A histogram that cannot be read is left out.
pub fn write(directory: &Path, result: &RunResult) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut json = serde_json::to_vec_pretty(result)?;
    json.push(b'\n');
    fs::write(directory.join(RESULT_FILE), json)?;
    let Some(leading) = decode(&result.histogram) else { return Ok(()) };
    write_distribution(&directory.join(DISTRIBUTION_FILE), &leading)?;
    let histograms = match result.service_histogram.as_deref().and_then(decode) {
        Some(service) => {
            write_distribution(&directory.join(SERVICE_DISTRIBUTION_FILE), &service)?;
            (service, Some(leading))
        }
        None => (leading, None),
    };
    let length = Duration::try_from_secs_f64(result.duration_s).unwrap_or_default();
    write_log(&directory.join(HISTOGRAM_FILE), std::iter::once((Duration::ZERO, length, histograms)))
}

/// Something of a result that is in this directory already.
#[must_use]
pub fn leftover(directory: &Path) -> Option<PathBuf> {
    let names = [RESULT_FILE, HISTOGRAM_FILE, DISTRIBUTION_FILE, SERVICE_DISTRIBUTION_FILE, TIMELINE_FILE, FIRST_STEP];
    names.into_iter().map(|name| directory.join(name)).find(|path| path.exists())
}

fn write_distribution(path: &Path, histogram: &Histogram<u64>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    hgrm::write(&mut file, histogram)?;
    file.flush()
}

/// An HdrHistogram log (version 1.3) of intervals: where each starts, how long it is, its service and response times. Tag
/// `service`, and in an open loop `response`. Nanoseconds; the interval's maximum is in milliseconds, as such logs have it.
pub(crate) fn write_log(
    path: &Path,
    intervals: impl Iterator<Item = (Duration, Duration, (Histogram<u64>, Option<Histogram<u64>>))>,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("loadgen: latencies in nanoseconds")
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)?;
    for (start, length, (service, response)) in intervals {
        let histograms = [("service", Some(service)), ("response", response)];
        for (name, histogram) in histograms.into_iter().filter_map(|(name, histogram)| Some((name, histogram?))) {
            if !histogram.is_empty() {
                log.write_histogram(&histogram, start, length, Tag::new(name))
                    .map_err(|error| io::Error::other(format!("{error:?}")))?;
            }
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        read_all(text.as_bytes(), "x").expect_err("not a result").to_string()
    }

    #[test]
    fn what_is_no_result_is_said_to_be_none() {
        assert_eq!(failure(""), "x is not a result of loadgen: it is empty");
        assert_eq!(failure("{}"), "x is not a result of loadgen: it has no schema");
        assert_eq!(failure("{\"schema\": 2}"), "x has schema 2, and this version reads 1");
        assert!(failure("{\"schema\": 1}").contains("missing field"), "{}", failure("{\"schema\": 1}"));
        assert!(failure("wrk").starts_with("x is not a result of loadgen: expected value"), "{}", failure("wrk"));
    }

    #[test]
    fn results_are_known_by_their_directory() {
        assert_eq!(name(Path::new("runs/a/result.json")), "runs/a");
        assert_eq!(name(Path::new("result.json")), "result.json");
        assert_eq!(name(Path::new("runs/b.json")), "runs/b.json");
    }
}
