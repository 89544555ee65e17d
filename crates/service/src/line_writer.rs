//! Lines for a file, written by a thread of its own: whoever has a line never waits for the disk.
//!
//! Each thread appends to a buffer of its own, and the writer takes whole buffers. What does not fit, because the file
//! takes less than the server has to say, is dropped and counted; so is what cannot be written.

use std::{
    fmt, io,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use thiserror::Error;

mod sink;
#[cfg(test)]
mod tests;

use crate::{
    counters::{Counters, STRIPES, my_stripe},
    metrics::total,
};
use sink::Sink;

/// Limit of the lines of one thread that wait for the writer, in bytes.
const WAITING_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a thread's lines at which the writer is woken before its time.
const HURRY_BYTES: usize = WAITING_BYTES_MAX / 4;
/// Time for which lines are gathered, so that a busy server writes many at a time.
const GATHER: Duration = Duration::from_millis(50);
/// Time between two attempts to open a file that could not be opened.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// Time between two warnings about lines that were dropped.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// Place that lines are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineTarget {
    /// `-`; standard output belongs to the ready lines.
    StandardError,
    File(PathBuf),
}

impl FromStr for LineTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("must be a file, or - for standard error".to_owned()),
            "-" => Ok(Self::StandardError),
            path => Ok(Self::File(path.into())),
        }
    }
}

impl LineTarget {
    /// Checks that it could be opened, without making a file.
    ///
    /// # Errors
    /// See [`crate::check_file_path`].
    pub fn check(&self) -> io::Result<()> {
        match self {
            Self::StandardError => Ok(()),
            Self::File(path) => crate::check_file_path(path),
        }
    }
}

impl fmt::Display for LineTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandardError => f.write_str("-"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Reason why there is no log of lines.
#[derive(Debug, Error)]
#[error("{what}: cannot open {target}: {why}")]
pub struct OpenLinesError {
    what: String,
    target: LineTarget,
    #[source]
    why: io::Error,
}

/// Lines on their way to one file; clones share it.
#[derive(Clone)]
pub struct LineWriter(Arc<Shared>);

struct Shared {
    /// Name in the metrics and in messages, such as `access_log`.
    id: &'static str,
    /// Lines that wait, by thread.
    waiting: Box<[Mutex<Vec<u8>>]>,
    /// Lines that were dropped for want of room.
    crowded_out: Counters<1>,
    written: AtomicU64,
    /// Lines that could not be written.
    failed: AtomicU64,
    /// The writer waits for a line to come.
    is_asleep: AtomicBool,
    should_reopen: AtomicBool,
    should_end: AtomicBool,
    writer: OnceLock<Thread>,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

impl LineWriter {
    /// Opens the file, which lines are appended to, and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, or no thread be started.
    pub fn start(id: &'static str, target: LineTarget) -> Result<Self, OpenLinesError> {
        let failed = |why| OpenLinesError { what: words(id), target: target.clone(), why };
        let sink = Sink::open(target.clone()).map_err(&failed)?;
        let shared = Arc::new(Shared {
            id,
            waiting: (0..STRIPES).map(|_| Mutex::default()).collect(),
            crowded_out: Counters::default(),
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_asleep: AtomicBool::new(false),
            should_reopen: AtomicBool::new(false),
            should_end: AtomicBool::new(false),
            writer: OnceLock::new(),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
        });
        let writer = Writer { shared: Arc::clone(&shared), sink, buffer: Vec::new(), reopen_at: None, warned: None };
        let thread = thread::Builder::new().name("lines".to_owned()).spawn(|| writer.run());
        // It is set once, here.
        let _ = shared.writer.set(thread.map_err(failed)?.thread().clone());
        Ok(Self(shared))
    }

    /// Hands a line over, with the newline at its end. Never waits for the file; false if there is no room for the line,
    /// which is dropped and counted.
    pub fn push(&self, line: &[u8]) -> bool {
        debug_assert!(line.ends_with(b"\n") && !line[..line.len() - 1].contains(&b'\n'), "one whole line");
        // Others than this thread hold the lock for an exchange of buffers only.
        let mut waiting = self.0.waiting[my_stripe()].lock();
        let before = waiting.len();
        if before + line.len() > WAITING_BYTES_MAX {
            drop(waiting);
            self.0.crowded_out.add_one(0, 1);
            return false;
        }
        waiting.extend_from_slice(line);
        let is_pressing = before < HURRY_BYTES && waiting.len() >= HURRY_BYTES;
        drop(waiting);
        // The writer looks into every buffer between saying that it sleeps and sleeping: whoever locked one after that
        // sees what it said.
        if is_pressing || self.0.is_asleep.load(Ordering::Relaxed) && self.0.is_asleep.swap(false, Ordering::Relaxed) {
            self.0.wake();
        }
        true
    }

    /// Has the file opened anew by its name, for whoever has moved the old one away. Returns at once. Lines that wait go
    /// to the old one.
    pub fn reopen(&self) {
        self.0.should_reopen.store(true, Ordering::Release);
        self.0.wake();
    }

    /// Number of lines that have been written.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Number of lines that were dropped, for want of room or because they could not be written.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Ends the writer when everything that has been handed over is written. Waits for that, but not for longer than
    /// `patience`: the file may be one that takes nothing.
    pub fn finish(&self, patience: Duration) {
        self.0.should_end.store(true, Ordering::Release);
        self.0.wake();
        let mut has_ended = self.0.has_ended.lock();
        if !*has_ended {
            self.0.ended.wait_for(&mut has_ended, patience);
        }
    }
}

/// Counts of lines, for the metrics.
#[derive(Debug)]
pub(crate) struct LineMetrics {
    pub(crate) id: &'static str,
    pub(crate) writer: LineWriter,
}

impl Collector for LineMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { id, writer } = self;
        total(&mut encoder, &format!("{id}_lines_written"), "Lines written to the log", writer.written())?;
        let help = "Lines dropped, as the log was written too slowly or not at all";
        total(&mut encoder, &format!("{id}_lines_dropped"), help, writer.dropped())
    }
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LineWriter").field(&self.0.id).finish()
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(thread) = self.writer.get() {
            thread.unpark();
        }
    }

    fn dropped(&self) -> u64 {
        self.crowded_out.sum()[0] + self.failed.load(Ordering::Relaxed)
    }

    fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|lines| !lines.lock().is_empty())
    }
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    sink: Sink,
    /// Exchanged for the buffer of a thread.
    buffer: Vec<u8>,
    /// Time of the next attempt to open the file anew.
    reopen_at: Option<Instant>,
    /// Time of the last warning, and lines that had been dropped by then.
    warned: Option<(Instant, u64)>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let should_end = self.shared.should_end.load(Ordering::Acquire);
            let should_reopen = self.shared.should_reopen.swap(false, Ordering::AcqRel);
            let has_written = self.write_waiting();
            if should_reopen || self.reopen_at.is_some_and(|at| at <= now()) {
                self.reopen();
            }
            let is_warning_due = self.warn(should_end);
            if should_end {
                break;
            }
            if has_written {
                thread::park_timeout(GATHER);
            } else {
                self.sleep(is_warning_due);
            }
        }
        *self.shared.has_ended.lock() = true;
        self.shared.ended.notify_all();
    }

    /// Waits for a line, or for something that is due.
    fn sleep(&self, is_warning_due: bool) {
        self.shared.is_asleep.store(true, Ordering::Relaxed);
        if !self.shared.has_waiting() {
            match is_warning_due || self.reopen_at.is_some() {
                true => thread::park_timeout(REOPEN_PAUSE),
                false => thread::park(),
            }
        }
        self.shared.is_asleep.store(false, Ordering::Relaxed);
    }

    /// True if there was anything to write.
    fn write_waiting(&mut self) -> bool {
        let mut has_any = false;
        for lines in &self.shared.waiting {
            std::mem::swap(&mut *lines.lock(), &mut self.buffer);
            if self.buffer.is_empty() {
                continue;
            }
            has_any = true;
            let outcome = self.sink.write(&self.buffer);
            self.shared.written.fetch_add(outcome.written, Ordering::Relaxed);
            self.shared.failed.fetch_add(outcome.lost, Ordering::Relaxed);
            self.buffer.clear();
            if self.buffer.capacity() > HURRY_BYTES {
                self.buffer = Vec::new();
            }
        }
        has_any
    }

    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(lost) => {
                self.reopen_at = None;
                self.shared.failed.fetch_add(lost, Ordering::Relaxed);
            }
            Err(error) => {
                let (name, target) = (words(self.shared.id), self.sink.target());
                if self.reopen_at.is_none() {
                    tracing::warn!("cannot reopen the {name} {target}: {error}; the old file is written on");
                }
                self.reopen_at = now().checked_add(REOPEN_PAUSE);
            }
        }
    }

    /// Says now and then how many lines were dropped, and at the end. True if that is still to be said of some.
    fn warn(&mut self, is_last: bool) -> bool {
        let dropped = self.shared.dropped();
        let (at, said) = self.warned.map_or((None, 0), |(at, said)| (Some(at), said));
        if dropped == said {
            return false;
        }
        if !is_last && at.is_some_and(|at| at.elapsed() < WARNING_PAUSE) {
            return true;
        }
        let why = self.sink.last_error().map_or_else(|| "it is written too slowly".to_owned(), ToString::to_string);
        tracing::warn!("{}: {} lines dropped: {why}", words(self.shared.id), dropped - said);
        self.warned = Some((now(), dropped));
        false
    }
}

/// Returns an identifier as words.
fn words(id: &str) -> String {
    id.replace('_', " ")
}

fn now() -> Instant {
    Instant::now()
}
