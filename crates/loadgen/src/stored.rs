//! Results that were stored: reading and writing them.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Read, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    engine::Timeline,
    histogram::{
        self, hgrm,
        interval_log::{self, LogInterval},
    },
    result::{NamedResult, RunResult, SCHEMA},
};

/// The result as JSON.
pub const RESULT_FILE: &str = "result.json";
/// Its histograms as an HdrHistogram log of one interval.
pub const HISTOGRAM_FILE: &str = "latency.hlog";
/// Percentile distribution of [`RunResult::latency_us`].
pub const DISTRIBUTION_FILE: &str = "latency.hgrm";
/// Percentile distribution of an open loop's service time, where [`DISTRIBUTION_FILE`] is about response time.
pub const SERVICE_DISTRIBUTION_FILE: &str = "service.hgrm";
/// Histograms of a timeline's intervals as an HdrHistogram log.
pub const TIMELINE_FILE: &str = "timeline.hlog";

/// The first directory of a run with several rates.
const FIRST_STEP: &str = "step-1";

/// Reason why a result cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {name}: {why}")]
    Unreadable { name: String, why: io::Error },
    #[error("{name} is not a result of loadgen: {why}")]
    NotAResult { name: String, why: String },
    #[error("{name} has schema {found}, and this version reads {SCHEMA}")]
    Schema { name: String, found: Value },
}

/// Reads all results of a file, or the one of a directory that `--out` wrote.
///
/// # Errors
/// The file cannot be read, holds no result, or holds one of another schema.
pub fn read(path: &Path) -> Result<Vec<NamedResult>, ReadError> {
    let path = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_path_buf() };
    let name = name_of(&path);
    match File::open(&path) {
        Ok(file) => read_all(file, &name),
        Err(why) => Err(ReadError::Unreadable { name: path.display().to_string(), why }),
    }
}

/// Reads all results of a stream, one JSON object behind the other.
///
/// # Errors
/// The same as of [`read`].
pub fn read_all(mut stream: impl Read, name: &str) -> Result<Vec<NamedResult>, ReadError> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(|why| ReadError::Unreadable { name: name.to_owned(), why })?;
    let not_a_result = |why: String| ReadError::NotAResult { name: name.to_owned(), why };
    let mut results = Vec::new();
    for value in serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>() {
        let value = value.map_err(|why| not_a_result(why.to_string()))?;
        let found = value.get("schema").ok_or_else(|| not_a_result("it has no schema".to_owned()))?;
        if found.as_u64() != Some(u64::from(SCHEMA)) {
            return Err(ReadError::Schema { name: name.to_owned(), found: found.clone() });
        }
        let result = RunResult::deserialize(value).map_err(|why| not_a_result(why.to_string()))?;
        results.push(NamedResult { name: name.to_owned(), result });
    }
    match results.len() {
        0 => return Err(not_a_result("it is empty".to_owned())),
        1 => {}
        _ => results.iter_mut().enumerate().for_each(|(index, one)| one.name = format!("{name}#{}", index + 1)),
    }
    Ok(results)
}

/// Returns the name of a stored result: that of its directory, or of its file if that has a name of its own.
fn name_of(path: &Path) -> String {
    let parent = || path.parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_path_buf);
    let is_in_directory = path.file_name().is_some_and(|name| name == RESULT_FILE);
    let shown: PathBuf = if is_in_directory { parent() } else { None }.unwrap_or_else(|| path.to_path_buf());
    shown.display().to_string()
}

/// Writes a result and its histograms into a directory, which is created if need be: [`RESULT_FILE`], [`HISTOGRAM_FILE`],
/// [`DISTRIBUTION_FILE`], [`SERVICE_DISTRIBUTION_FILE`] if there are two times, and [`TIMELINE_FILE`] if there is a timeline.
/// A histogram that cannot be decoded is left out.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path, result: &RunResult, timeline: Option<&Timeline>) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut json = serde_json::to_vec_pretty(result)?;
    json.push(b'\n');
    fs::write(directory.join(RESULT_FILE), json)?;
    write_histograms(directory, result)?;
    timeline.map_or(Ok(()), |timeline| write_timeline(directory, timeline))
}

fn write_histograms(directory: &Path, result: &RunResult) -> io::Result<()> {
    let Some(leading) = histogram::decode(&result.histogram) else { return Ok(()) };
    write_distribution(&directory.join(DISTRIBUTION_FILE), &leading)?;
    let (service, response) = match result.service_histogram.as_deref().and_then(histogram::decode) {
        Some(service) => {
            write_distribution(&directory.join(SERVICE_DISTRIBUTION_FILE), &service)?;
            (service, Some(leading))
        }
        None => (leading, None),
    };
    let length = Duration::try_from_secs_f64(result.duration_s).unwrap_or_default();
    let whole = LogInterval { start: Duration::ZERO, length, service, response };
    interval_log::write(&directory.join(HISTOGRAM_FILE), std::iter::once(whole))
}

fn write_timeline(directory: &Path, timeline: &Timeline) -> io::Result<()> {
    let width = timeline.width();
    let intervals = timeline.intervals().map(|(index, interval)| LogInterval {
        start: Duration::from_nanos(index * width),
        length: Duration::from_nanos(width),
        service: interval.service(),
        response: Some(interval.response()),
    });
    interval_log::write(&directory.join(TIMELINE_FILE), intervals)
}

fn write_distribution(path: &Path, histogram: &Histogram<u64>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    hgrm::write(&mut file, histogram)?;
    file.flush()
}

/// Finds a file or directory of an earlier result in `directory`.
#[must_use]
pub fn find_leftover(directory: &Path) -> Option<PathBuf> {
    let names = [RESULT_FILE, HISTOGRAM_FILE, DISTRIBUTION_FILE, SERVICE_DISTRIBUTION_FILE, TIMELINE_FILE, FIRST_STEP];
    names.into_iter().map(|name| directory.join(name)).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        read_all(text.as_bytes(), "x").expect_err("not a result").to_string()
    }

    #[test]
    fn a_file_without_a_result_is_refused_with_the_reason() {
        assert_eq!(failure(""), "x is not a result of loadgen: it is empty");
        assert_eq!(failure("{}"), "x is not a result of loadgen: it has no schema");
        assert_eq!(failure("{\"schema\": 2}"), "x has schema 2, and this version reads 1");
        assert!(failure("{\"schema\": 1}").contains("missing field"), "{}", failure("{\"schema\": 1}"));
        assert!(failure("wrk").starts_with("x is not a result of loadgen: expected value"), "{}", failure("wrk"));
    }

    #[test]
    fn results_are_named_after_their_directory() {
        assert_eq!(name_of(Path::new("runs/a/result.json")), "runs/a");
        assert_eq!(name_of(Path::new("result.json")), "result.json");
        assert_eq!(name_of(Path::new("runs/b.json")), "runs/b.json");
    }
}
