//! One request: a state machine that never waits, but says what it would have to wait for.

use std::{mem, os::fd::AsFd, time::Duration};

use rustix::io::Errno;
use sys::fifo;
use wire::mserve::{HEADER_BYTES, Header, Request};

use crate::{
    context::JobContext,
    copy::{FileCopy, Readiness, Source, State},
    outcome::Outcome,
    pipe::Pipe,
    queue::Message,
    statistics::Count,
};

/// Bounds of the pause before a FIFO without a reader is tried again. The pause is a fraction of the time waited so far.
const RETRY_PAUSE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(20));
const RETRY_FRACTION: u32 = 4;
/// Pause before a job without a descriptor tries again.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);
/// Time for a client to open its status FIFO and take the status, however late the request was.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// One request on its way to its end.
pub(crate) struct Job<C: FileCopy> {
    message: Message,
    /// Latest end, on the [`crate::clock::Clock`] of the context, like all times here.
    deadline: Duration,
    /// Time when the client last did its part: sent the message, opened the FIFO, took bytes.
    last_progress: Duration,
    /// Bytes of the file that are in the FIFO.
    moved: u64,
    /// True while a pass of `--copy tee` moves the bytes. The pass then judges whether the reader stalls.
    is_moved_by_pass: bool,
    outcome: Option<Outcome>,
    phase: Phase<C>,
}

enum Phase<C: FileCopy> {
    /// The FIFO has no reader yet.
    OpeningFifo,
    /// The reader is there, but no descriptor for the file.
    OpeningFile(Pipe),
    /// The framed header has not been written, nor what follows it.
    SendingHeader {
        header: [u8; HEADER_BYTES],
        body: Result<Source, Outcome>,
        pipe: Pipe,
    },
    /// The transfer is declared before its FIFO, because it has to be dropped first.
    Copying {
        transfer: C::Transfer,
        pipe: Pipe,
    },
    /// The header for the status FIFO has not been written.
    ReportingStatus(Option<Pipe>),
    Finished,
}

/// Result of [`Job::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Finished,
    Again,
    Wait(Wait),
}

/// Condition under which a job can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This time has come.
    Until(Duration),
    /// The descriptor that [`Job::readiness`] names is ready.
    Ready,
}

impl<C: FileCopy> Job<C> {
    /// Parses a message.
    ///
    /// # Errors
    /// The message is no request.
    pub(crate) fn new(message: Message, now: Duration, request_timeout: Duration) -> Result<Self, Outcome> {
        Request::parse(&message.bytes)?;
        let deadline = now.saturating_add(request_timeout);
        Ok(Self {
            message,
            deadline,
            last_progress: now,
            moved: 0,
            is_moved_by_pass: false,
            outcome: None,
            phase: Phase::OpeningFifo,
        })
    }

    /// Does what can be done without waiting, one portion of it.
    pub(crate) fn advance(&mut self, context: &JobContext<C>) -> Step {
        match mem::replace(&mut self.phase, Phase::Finished) {
            Phase::OpeningFifo => self.open(context),
            Phase::OpeningFile(pipe) => self.find_source(context, pipe),
            Phase::SendingHeader { header, body, pipe } => self.send_header(context, header, body, pipe),
            Phase::Copying { transfer, pipe } => self.copy(context, transfer, pipe),
            Phase::ReportingStatus(pipe) => self.report_status(context, pipe),
            Phase::Finished => Step::Finished,
        }
    }

    /// Returns the descriptor behind [`Wait::Ready`].
    pub(crate) fn readiness(&self, copy: &C) -> Option<Readiness<'_>> {
        match &self.phase {
            Phase::Copying { transfer, pipe } => Some(copy.readiness(transfer, &pipe.fifo)),
            Phase::SendingHeader { pipe, .. } | Phase::ReportingStatus(Some(pipe)) => {
                Some(Readiness::Writable(pipe.fifo.as_fd()))
            }
            Phase::OpeningFifo | Phase::OpeningFile(_) | Phase::ReportingStatus(None) | Phase::Finished => None,
        }
    }

    /// Returns the FIFO that is being written to.
    pub(crate) fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.phase {
            Phase::SendingHeader { pipe, .. } | Phase::Copying { pipe, .. } | Phase::OpeningFile(pipe) => Some(pipe),
            Phase::ReportingStatus(pipe) => pipe.as_mut(),
            Phase::OpeningFifo | Phase::Finished => None,
        }
    }

    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    pub(crate) fn last_progress(&self) -> Duration {
        self.last_progress
    }

    /// Returns the time at which the client has been waited for long enough.
    pub(crate) fn expires_at(&self, stall_timeout: Duration) -> Duration {
        if self.is_moved_by_pass {
            self.deadline
        } else {
            self.deadline.min(self.last_progress.saturating_add(stall_timeout))
        }
    }

    /// Returns the outcome of a job that has expired.
    pub(crate) fn timeout_outcome(&self, context: &JobContext<C>) -> Outcome {
        match self.phase {
            // One more try tells a missing reader from a missing descriptor.
            Phase::OpeningFifo => context
                .directories
                .fifos
                .open_writer(self.request().fifo)
                .err()
                .map_or(Outcome::NoReader, Outcome::from),
            Phase::OpeningFile(_) => Outcome::OutOfDescriptors,
            Phase::SendingHeader { .. } | Phase::Copying { .. } | Phase::ReportingStatus(_) | Phase::Finished => {
                let stalls = self.last_progress.saturating_add(context.options.stall_timeout);
                if context.now() >= stalls && !self.is_moved_by_pass { Outcome::Stalled } else { Outcome::Deadline }
            }
        }
    }

    /// Ends the job early; its status may still have to be reported.
    pub(crate) fn abort(&mut self, context: &JobContext<C>, outcome: Outcome) -> Step {
        match mem::replace(&mut self.phase, Phase::Finished) {
            Phase::ReportingStatus(_) => {
                context.statistics.count(Count::StatusUndelivered, 1);
                Step::Finished
            }
            Phase::Finished => Step::Finished,
            Phase::OpeningFifo | Phase::OpeningFile(_) | Phase::SendingHeader { .. } | Phase::Copying { .. } => {
                self.conclude(context, outcome)
            }
        }
    }

    /// True if the client has seen nothing of an answer yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.phase, Phase::OpeningFifo)
    }

    pub(crate) fn into_message(self) -> Message {
        self.message
    }

    fn request(&self) -> Request<'_> {
        // The message was parsed when the job was made, so the fallback, which names nothing that exists, is never used.
        Request::parse(&self.message.bytes).unwrap_or(Request { path: b".", fifo: b".", status_fifo: None })
    }

    fn open(&mut self, context: &JobContext<C>) -> Step {
        match context.directories.fifos.open_writer(self.request().fifo) {
            Ok(fifo) => {
                self.last_progress = context.now();
                self.find_source(context, Pipe::new(fifo))
            }
            Err(fifo::OpenError::NoReader) => self.pause(context, Phase::OpeningFifo),
            Err(fifo::OpenError::Exhausted) => self.wait_for_descriptor(context, Phase::OpeningFifo),
            Err(error) => self.conclude(context, error.into()),
        }
    }

    fn pause(&mut self, context: &JobContext<C>, phase: Phase<C>) -> Step {
        self.phase = phase;
        let now = context.now();
        let pause = now.saturating_sub(self.last_progress) / RETRY_FRACTION;
        Step::Wait(Wait::Until(now + pause.clamp(RETRY_PAUSE.0, RETRY_PAUSE.1)))
    }

    fn wait_for_descriptor(&mut self, context: &JobContext<C>, phase: Phase<C>) -> Step {
        context.warn_of_descriptor_shortage();
        self.phase = phase;
        Step::Wait(Wait::Until(context.now() + DESCRIPTOR_PAUSE))
    }

    fn find_source(&mut self, context: &JobContext<C>, mut pipe: Pipe) -> Step {
        let source = match context.directories.open_source(self.request().path) {
            Ok(source) => source,
            Err(Outcome::OutOfDescriptors) => return self.wait_for_descriptor(context, Phase::OpeningFile(pipe)),
            Err(outcome) => return self.refuse(context, outcome, pipe),
        };
        let (bytes, options) = (source.metadata.size, &context.options);
        if !pipe.enlarge(bytes, options.pipe_bytes, &context.pipe_budget) {
            context.statistics.count(Count::PipeNotEnlarged, 1);
        }
        if options.is_framed {
            let header = Header { status: Outcome::Sent.status(), length: bytes }.encode();
            return self.send_header(context, header, Ok(source), pipe);
        }
        self.begin(context, source, pipe)
    }

    /// Without a header, the end of the FIFO without a byte is the whole answer.
    fn refuse(&mut self, context: &JobContext<C>, outcome: Outcome, pipe: Pipe) -> Step {
        if !context.options.is_framed {
            drop(pipe);
            return self.conclude(context, outcome);
        }
        let header = Header { status: outcome.status(), length: 0 }.encode();
        self.send_header(context, header, Err(outcome), pipe)
    }

    fn send_header(
        &mut self,
        context: &JobContext<C>,
        header: [u8; HEADER_BYTES],
        body: Result<Source, Outcome>,
        pipe: Pipe,
    ) -> Step {
        match write_header(&pipe, &header) {
            Ok(true) => match body {
                Ok(source) => self.begin(context, source, pipe),
                Err(outcome) => {
                    drop(pipe);
                    self.conclude(context, outcome)
                }
            },
            Ok(false) => {
                self.phase = Phase::SendingHeader { header, body, pipe };
                Step::Wait(Wait::Ready)
            }
            Err(_) => self.conclude(context, body.err().unwrap_or(Outcome::ReaderGone)),
        }
    }

    fn begin(&mut self, context: &JobContext<C>, source: Source, pipe: Pipe) -> Step {
        match context.copy.begin(source, &pipe.fifo) {
            Ok(transfer) => self.copy(context, transfer, pipe),
            Err(error) => {
                drop(pipe);
                self.conclude(context, error.into())
            }
        }
    }

    fn copy(&mut self, context: &JobContext<C>, mut transfer: C::Transfer, pipe: Pipe) -> Step {
        let progress = match context.copy.step(&mut transfer, &pipe.fifo) {
            Ok(progress) => progress,
            Err(error) => {
                tracing::debug!("a transfer ends after {} bytes: {error}", self.moved);
                drop((transfer, pipe));
                return self.conclude(context, error.into());
            }
        };
        if progress.moved > 0 {
            self.moved += progress.moved;
            self.last_progress = context.now();
            context.statistics.count(Count::Bytes, progress.moved);
        }
        if progress.state == State::Done {
            drop((transfer, pipe));
            return self.conclude(context, Outcome::Sent);
        }
        self.is_moved_by_pass = progress.state == State::Blocked
            && matches!(context.copy.readiness(&transfer, &pipe.fifo), Readiness::Readable(_));
        self.phase = Phase::Copying { transfer, pipe };
        if progress.state == State::Blocked { Step::Wait(Wait::Ready) } else { Step::Again }
    }

    /// Counts the outcome, and reports it if the client has asked for a status.
    fn conclude(&mut self, context: &JobContext<C>, outcome: Outcome) -> Step {
        context.statistics.ended(outcome);
        tracing::debug!("{}: {}", self.message.bytes.escape_ascii(), outcome.name());
        self.outcome = Some(outcome);
        self.is_moved_by_pass = false;
        if self.request().status_fifo.is_none() {
            return Step::Finished;
        }
        self.last_progress = context.now();
        self.deadline = self.last_progress + STATUS_TIMEOUT;
        self.report_status(context, None)
    }

    fn report_status(&mut self, context: &JobContext<C>, pipe: Option<Pipe>) -> Step {
        let opened = match (pipe, self.request().status_fifo) {
            (Some(pipe), _) => Ok(pipe),
            (None, Some(name)) => context.directories.fifos.open_writer(name).map(Pipe::new),
            (None, None) => return Step::Finished,
        };
        let pipe = match opened {
            Ok(pipe) => pipe,
            Err(fifo::OpenError::NoReader | fifo::OpenError::Exhausted) => {
                return self.pause(context, Phase::ReportingStatus(None));
            }
            Err(_) => return self.abandon_status(context),
        };
        let status = self.outcome.unwrap_or(Outcome::Stopping).status();
        match write_header(&pipe, &Header { status, length: self.moved }.encode()) {
            Ok(true) => Step::Finished,
            Ok(false) => {
                self.phase = Phase::ReportingStatus(Some(pipe));
                Step::Wait(Wait::Ready)
            }
            Err(_) => self.abandon_status(context),
        }
    }

    fn abandon_status(&mut self, context: &JobContext<C>) -> Step {
        self.phase = Phase::ReportingStatus(None);
        self.abort(context, Outcome::Stopping)
    }
}

/// Writes a header; false if the FIFO has no room. A header is shorter than PIPE_BUF: it is written whole or not at all.
fn write_header(pipe: &Pipe, header: &[u8; HEADER_BYTES]) -> Result<bool, Errno> {
    loop {
        match rustix::io::write(&*pipe.fifo, header) {
            Ok(_) => return Ok(true),
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
