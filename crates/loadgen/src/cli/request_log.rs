//! `--request-log`: single requests in a file.

use std::{
    fs::File,
    io::BufWriter,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use loadgen::request_log::{LogFormat, RequestLog};

use super::{
    Failure,
    values::{count, value_name},
};

/// Limit of the sample, in all clients together.
const SIZE_MAX: usize = 10_000_000;

#[derive(Args, Debug)]
pub(super) struct RequestLogArgs {
    /// Also write single requests into this new file (.csv or .jsonl), with their times, connection, outcome and bytes: a
    /// uniform sample, and a tenth as many each of the last, the slowest and the failed ones
    #[arg(long, value_name = "FILE", conflicts_with = "rate_sweep")]
    request_log: Option<LogFile>,
    /// Size of the sample in --request-log; a smaller run is logged completely
    #[arg(long, value_name = "N", default_value = "10000", requires = "request_log", value_parser = count::<SIZE_MAX>)]
    request_log_size: usize,
}

/// A file, and the format that its name ends with.
#[derive(Clone, Debug)]
struct LogFile {
    path: PathBuf,
    format: LogFormat,
}

impl FromStr for LogFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let format = LogFormat::from_str(extension, false).map_err(|_| {
            let formats = LogFormat::value_variants();
            let extensions: Vec<_> = formats.iter().map(|&format| format!(".{}", value_name(format))).collect();
            format!("the name of a log ends with {}", extensions.join(" or "))
        })?;
        Ok(Self { path, format })
    }
}

impl RequestLogArgs {
    /// Returns the size of the sample, if there is to be a log.
    pub(super) fn size(&self) -> Option<usize> {
        self.request_log.as_ref().map(|_| self.request_log_size)
    }

    /// Refuses a file that could not be written when everything has been measured.
    pub(super) fn check_file(&self, rates: usize) -> Result<(), Failure> {
        let Some(LogFile { path, .. }) = &self.request_log else { return Ok(()) };
        let refuse = |problem: String| Err(Failure::Usage(format!("--request-log: {problem}")));
        if rates > 1 {
            return refuse("a log is of one rate".to_owned());
        }
        if path.symlink_metadata().is_ok() {
            return refuse(format!("{} is there already; name another file, or remove that one", path.display()));
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match directory.filter(|directory| !directory.is_dir()) {
            Some(directory) => refuse(format!("{} is no directory", directory.display())),
            None => Ok(()),
        }
    }

    /// Refuses a sample that would be too large in so many clients.
    pub(super) fn check_size(&self, clients: usize) -> Result<(), Failure> {
        let most = SIZE_MAX / clients.max(1);
        match self.size() {
            Some(size) if size > most => Err(Failure::Usage(format!(
                "--request-log-size: each of the {clients} clients keeps as many requests as the log has; at most {most} then"
            ))),
            _ => Ok(()),
        }
    }

    /// Writes the log, if there is to be one.
    pub(super) fn write(&self, log: Option<&RequestLog>) -> anyhow::Result<()> {
        let (Some(LogFile { path, format }), Some(log)) = (&self.request_log, log) else { return Ok(()) };
        write(path, *format, log).with_context(|| format!("cannot write the requests into {}", path.display()))
    }
}

fn write(path: &Path, format: LogFormat, log: &RequestLog) -> std::io::Result<()> {
    log.write(format, &mut BufWriter::new(File::create_new(path)?))
}
