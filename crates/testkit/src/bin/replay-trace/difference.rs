//! A connection that receives other bytes on one driver than on another: where, and which request it was.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use testkit::DriverKind;

use crate::{exchange::whole, script::Script, server::Subject};

/// Returns the path of what a connection has received.
pub(crate) fn path(out: &Path, subject: &Subject, driver: DriverKind, connection: u64) -> PathBuf {
    out.join(format!("{}-{connection}-{driver}.bytes", subject.name))
}

/// First difference of a driver to the first one.
pub(crate) struct Difference {
    drivers: [DriverKind; 2],
    connection: u64,
    /// Place of the first byte that differs, and number of the request whose reply it belongs to; `None`: on the first driver, once
    /// more and alone, the connection receives the same.
    place: Option<(usize, usize)>,
    files: [PathBuf; 2],
}

impl Difference {
    /// Takes what the connection has received on the second driver, makes it once more on the first one, writes that into a file, too,
    /// and looks for the request.
    ///
    /// # Errors
    /// A server does not start, or a file cannot be read or written.
    pub(crate) fn find(
        subject: &Subject,
        drivers: [DriverKind; 2],
        connection: u64,
        script: &Script,
        out: &Path,
    ) -> anyhow::Result<Self> {
        let received = |script: &Script| {
            let server = subject.start(drivers[0])?;
            whole(server.address(), script)
        };
        let files = drivers.map(|driver| path(out, subject, driver, connection));
        let second = fs::read(&files[1]).with_context(|| format!("cannot read {}", files[1].display()))?;
        let streams = [received(script)?, second];
        fs::write(&files[0], &streams[0]).with_context(|| format!("cannot write {}", files[0].display()))?;
        let [first, second] = &streams;
        let same = first.iter().zip(second).take_while(|(first, second)| first == second).count();
        if first == second {
            return Ok(Self { drivers, connection, place: None, files });
        }
        // The replies to the first `low` requests end before the difference, those to `high` do not.
        let (mut low, mut high) = (0, script.requests.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            let is_before = received(&script.first(middle))?.len() <= same;
            (low, high) = if is_before { (middle, high) } else { (low, middle) };
        }
        Ok(Self { drivers, connection, place: Some((same, low)), files })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drivers: [first, second], connection, place, files } = self;
        write!(f, "connection {connection} receives other bytes on {second} than on {first}")?;
        match place {
            Some((at, request)) => write!(f, ": from byte {at}, in the reply to request {request}, counted from 0")?,
            None => f.write_str("; once more and alone it receives the same there")?,
        }
        write!(f, "; see {} and {}", files[0].display(), files[1].display())
    }
}
