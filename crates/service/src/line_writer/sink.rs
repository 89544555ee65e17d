//! The file that lines are appended to.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    thread,
    time::Duration,
};

use super::LineTarget;

/// Pause before a write to a non-blocking descriptor that takes nothing is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Number of such pauses in one write.
const RETRIES_MAX: u32 = 50;

/// A file, or standard error.
#[derive(Debug)]
pub(super) struct Sink {
    target: LineTarget,
    /// `None`: standard error.
    file: Option<File>,
    /// Rest of a line whose beginning has been written: it comes before anything else, so that no line is torn.
    torn: Vec<u8>,
    last_error: Option<io::Error>,
}

/// Result of [`Sink::write`], in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) written: u64,
    pub(super) lost: u64,
}

impl Sink {
    pub(super) fn open(target: LineTarget) -> io::Result<Self> {
        let file = open(&target)?;
        Ok(Self { target, file, torn: Vec::new(), last_error: None })
    }

    pub(super) fn target(&self) -> &LineTarget {
        &self.target
    }

    /// Reason of the last failure, until a write succeeds.
    pub(super) fn last_error(&self) -> Option<&io::Error> {
        self.last_error.as_ref()
    }

    /// Opens the file anew. Returns the lines that the old one has got only a part of.
    pub(super) fn reopen(&mut self) -> io::Result<u64> {
        let file = open(&self.target)?;
        let is_torn = !self.finish_torn();
        self.torn.clear();
        self.file = file;
        Ok(is_torn.into())
    }

    /// Appends whole lines, as many as the file takes.
    pub(super) fn write(&mut self, lines: &[u8]) -> Outcome {
        let mut outcome = Outcome { written: 0, lost: 0 };
        if !self.torn.is_empty() {
            match self.finish_torn() {
                true => outcome.written = 1,
                false => return Outcome { written: 0, lost: count(lines) },
            }
        }
        let (mut at, result) = self.write_from(lines);
        match result {
            Ok(()) => {
                self.last_error = None;
                outcome.written += count(lines);
            }
            Err(error) => {
                self.last_error = Some(error);
                outcome.written += count(&lines[..at]);
                if at > 0 && lines[at - 1] != b'\n' {
                    let end = memchr::memchr(b'\n', &lines[at..]).map_or(lines.len(), |end| at + end + 1);
                    self.torn = lines[at..end].to_vec();
                    at = end;
                }
                outcome.lost += count(&lines[at..]);
            }
        }
        outcome
    }

    /// True if no line is torn any more.
    fn finish_torn(&mut self) -> bool {
        let torn = std::mem::take(&mut self.torn);
        let (at, result) = self.write_from(&torn);
        if let Err(error) = result {
            self.last_error = Some(error);
            self.torn = torn[at..].to_vec();
        }
        self.torn.is_empty()
    }

    /// Writes until all is written or a write fails. Returns the number of bytes that were, in either case.
    fn write_from(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let (mut at, mut retries) = (0, 0);
        while at < bytes.len() {
            let wrote = match &mut self.file {
                Some(file) => file.write(&bytes[at..]),
                None => io::stderr().write(&bytes[at..]),
            };
            match wrote {
                Ok(0) => return (at, Err(io::ErrorKind::WriteZero.into())),
                Ok(n) => at += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && retries < RETRIES_MAX => {
                    retries += 1;
                    thread::sleep(RETRY_PAUSE);
                }
                Err(error) => return (at, Err(error)),
            }
        }
        (at, Ok(()))
    }
}

fn open(target: &LineTarget) -> io::Result<Option<File>> {
    match target {
        LineTarget::StandardError => Ok(None),
        LineTarget::File(path) => OpenOptions::new().append(true).create(true).open(path).map(Some),
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full in the middle of a line gets the rest of it first when there is room again.
    #[test]
    fn a_line_that_was_written_in_part_is_completed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut sink = Sink::open(LineTarget::File(path.clone())).unwrap();
        sink.torn = b"rest\n".to_vec();
        assert_eq!(sink.write(b"next\n"), Outcome { written: 2, lost: 0 });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "rest\nnext\n");
    }
}
