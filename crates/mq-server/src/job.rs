//! One request on its way: a state machine that never waits, but says what it would have to wait for.

use std::{mem, os::fd::AsFd, time::Duration};

use rustix::io::Errno;
use sys::fifo;
use wire::mserve::{HEADER_BYTES, Header, Request};

use crate::{
    copy::{FileCopy, Readiness, Source, State},
    engine::Engine,
    outcome::Outcome,
    pipe::Pipe,
    statistics::Count,
};

/// Between two looks whether a reader has come: a fraction of how long it has not, within these bounds.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(20));
const LOOK_FRACTION: u32 = 4;
/// Who is out of descriptors tries again after this.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(10);
/// How long the reader of a status has to open its FIFO and take it, however late the request was.
const STATUS_PATIENCE: Duration = Duration::from_secs(1);

/// A message from the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) priority: u32,
}

pub(crate) struct Job<C: FileCopy> {
    message: Message,
    /// On the engine's [`crate::clock::Clock`], like all times here.
    deadline: Duration,
    /// When the client last did its part: sent the message, opened the FIFO, took bytes.
    progressed: Duration,
    /// Bytes of the file that are in the FIFO.
    moved: u64,
    /// Somebody else's pass moves its bytes, and sees to it that they move.
    is_carried: bool,
    outcome: Option<Outcome>,
    phase: Phase<C>,
}

enum Phase<C: FileCopy> {
    /// Waiting for a reader.
    Opening,
    /// The reader is there; waiting for a descriptor for the file.
    Sourcing(Pipe),
    /// The framed header, and what comes behind it.
    Heading {
        header: [u8; HEADER_BYTES],
        body: Result<Source, Outcome>,
        pipe: Pipe,
    },
    /// The transfer stands in front of its FIFO, because it has to be dropped before.
    Moving {
        transfer: C::Transfer,
        pipe: Pipe,
    },
    /// The header for the status FIFO.
    Telling(Option<Pipe>),
    Finished,
}

/// What an advance came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Finished,
    Again,
    Wait(Wait),
}

/// What a job would have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This time.
    Until(Duration),
    /// What [`Job::readiness`] names.
    Ready,
}

impl<C: FileCopy> Job<C> {
    /// # Errors
    /// The message is no request.
    pub(crate) fn new(message: Message, now: Duration, request_timeout: Duration) -> Result<Self, Outcome> {
        Request::parse(&message.bytes)?;
        let deadline = now.saturating_add(request_timeout);
        Ok(Self {
            message,
            deadline,
            progressed: now,
            moved: 0,
            is_carried: false,
            outcome: None,
            phase: Phase::Opening,
        })
    }

    /// Does what can be done at once, in portions.
    pub(crate) fn advance(&mut self, engine: &Engine<C>) -> Step {
        match mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Opening => self.open(engine),
            Phase::Sourcing(pipe) => self.find_source(engine, pipe),
            Phase::Heading { header, body, pipe } => self.send_header(engine, header, body, pipe),
            Phase::Moving { transfer, pipe } => self.copy(engine, transfer, pipe),
            Phase::Telling(pipe) => self.tell(engine, pipe),
            Phase::Finished => Step::Finished,
        }
    }

    /// What it waits for when it waits for [`Wait::Ready`].
    pub(crate) fn readiness(&self, copy: &C) -> Option<Readiness<'_>> {
        match &self.phase {
            Phase::Moving { transfer, pipe } => Some(copy.readiness(transfer, &pipe.fifo)),
            Phase::Heading { pipe, .. } | Phase::Telling(Some(pipe)) => Some(Readiness::Writable(pipe.fifo.as_fd())),
            Phase::Opening | Phase::Sourcing(_) | Phase::Telling(None) | Phase::Finished => None,
        }
    }

    /// The FIFO that it is at.
    pub(crate) fn pipe(&mut self) -> Option<&mut Pipe> {
        match &mut self.phase {
            Phase::Heading { pipe, .. } | Phase::Moving { pipe, .. } | Phase::Sourcing(pipe) => Some(pipe),
            Phase::Telling(pipe) => pipe.as_mut(),
            Phase::Opening | Phase::Finished => None,
        }
    }

    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    pub(crate) fn progressed(&self) -> Duration {
        self.progressed
    }

    /// When its client has been waited for long enough.
    pub(crate) fn expires(&self, stall_timeout: Duration) -> Duration {
        if self.is_carried { self.deadline } else { self.deadline.min(self.progressed.saturating_add(stall_timeout)) }
    }

    /// Why, when it has expired.
    pub(crate) fn expiry(&self, engine: &Engine<C>) -> Outcome {
        match self.phase {
            // One more look tells no reader from no descriptor.
            Phase::Opening => {
                engine.fifos().open_writer(self.request().fifo).err().map_or(Outcome::NoReader, Outcome::from)
            }
            Phase::Sourcing(_) => Outcome::OutOfDescriptors,
            Phase::Heading { .. } | Phase::Moving { .. } | Phase::Telling(_) | Phase::Finished => {
                let stalls = self.progressed.saturating_add(engine.options().stall_timeout);
                if engine.now() >= stalls && !self.is_carried { Outcome::Stalled } else { Outcome::Deadline }
            }
        }
    }

    /// Ends it, except that its status may still have to be told.
    pub(crate) fn cut(&mut self, engine: &Engine<C>, outcome: Outcome) -> Step {
        match mem::replace(&mut self.phase, Phase::Finished) {
            Phase::Telling(_) => {
                engine.statistics().count(Count::StatusUndelivered, 1);
                Step::Finished
            }
            Phase::Finished => Step::Finished,
            Phase::Opening | Phase::Sourcing(_) | Phase::Heading { .. } | Phase::Moving { .. } => {
                self.conclude(engine, outcome)
            }
        }
    }

    /// The client has seen nothing of an answer yet.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.phase, Phase::Opening)
    }

    pub(crate) fn into_message(self) -> Message {
        self.message
    }

    fn request(&self) -> Request<'_> {
        // It was parsed when the job was made, so this is never taken: it names nothing that exists.
        Request::parse(&self.message.bytes).unwrap_or(Request { path: b".", fifo: b".", status_fifo: None })
    }

    fn open(&mut self, engine: &Engine<C>) -> Step {
        match engine.fifos().open_writer(self.request().fifo) {
            Ok(fifo) => {
                self.progressed = engine.now();
                self.find_source(engine, Pipe::new(fifo))
            }
            Err(fifo::OpenError::NoReader) => self.pause(engine, Phase::Opening),
            Err(fifo::OpenError::Exhausted) => self.await_descriptor(engine, Phase::Opening),
            Err(error) => self.conclude(engine, error.into()),
        }
    }

    fn pause(&mut self, engine: &Engine<C>, phase: Phase<C>) -> Step {
        self.phase = phase;
        let now = engine.now();
        let pause = now.saturating_sub(self.progressed) / LOOK_FRACTION;
        Step::Wait(Wait::Until(now + pause.clamp(LOOK_PAUSE.0, LOOK_PAUSE.1)))
    }

    fn await_descriptor(&mut self, engine: &Engine<C>, phase: Phase<C>) -> Step {
        engine.complain_of_shortage();
        self.phase = phase;
        Step::Wait(Wait::Until(engine.now() + DESCRIPTOR_PAUSE))
    }

    fn find_source(&mut self, engine: &Engine<C>, mut pipe: Pipe) -> Step {
        let source = match engine.open_source(self.request().path) {
            Ok(source) => source,
            Err(Outcome::OutOfDescriptors) => return self.await_descriptor(engine, Phase::Sourcing(pipe)),
            Err(outcome) => return self.refuse(engine, outcome, pipe),
        };
        let (bytes, options) = (source.metadata.size, engine.options());
        if !pipe.enlarge(bytes, options.pipe_bytes, engine.pipe_budget()) {
            engine.statistics().count(Count::PipeNotEnlarged, 1);
        }
        if options.framed {
            let header = Header { status: Outcome::Sent.status(), length: bytes }.encode();
            return self.send_header(engine, header, Ok(source), pipe);
        }
        self.begin(engine, source, pipe)
    }

    /// Without a header, the end of the FIFO without a byte is the whole answer.
    fn refuse(&mut self, engine: &Engine<C>, outcome: Outcome, pipe: Pipe) -> Step {
        if !engine.options().framed {
            drop(pipe);
            return self.conclude(engine, outcome);
        }
        let header = Header { status: outcome.status(), length: 0 }.encode();
        self.send_header(engine, header, Err(outcome), pipe)
    }

    fn send_header(
        &mut self,
        engine: &Engine<C>,
        header: [u8; HEADER_BYTES],
        body: Result<Source, Outcome>,
        pipe: Pipe,
    ) -> Step {
        match write_header(&pipe, &header) {
            Ok(true) => match body {
                Ok(source) => self.begin(engine, source, pipe),
                Err(outcome) => {
                    drop(pipe);
                    self.conclude(engine, outcome)
                }
            },
            Ok(false) => {
                self.phase = Phase::Heading { header, body, pipe };
                Step::Wait(Wait::Ready)
            }
            Err(_) => self.conclude(engine, body.err().unwrap_or(Outcome::ReaderGone)),
        }
    }

    fn begin(&mut self, engine: &Engine<C>, source: Source, pipe: Pipe) -> Step {
        match engine.copy().begin(source, &pipe.fifo) {
            Ok(transfer) => self.copy(engine, transfer, pipe),
            Err(error) => {
                drop(pipe);
                self.conclude(engine, error.into())
            }
        }
    }

    fn copy(&mut self, engine: &Engine<C>, mut transfer: C::Transfer, pipe: Pipe) -> Step {
        let progress = match engine.copy().step(&mut transfer, &pipe.fifo) {
            Ok(progress) => progress,
            Err(error) => {
                tracing::debug!("a transfer ends after {} bytes: {error}", self.moved);
                drop((transfer, pipe));
                return self.conclude(engine, error.into());
            }
        };
        if progress.moved > 0 {
            self.moved += progress.moved;
            self.progressed = engine.now();
            engine.statistics().count(Count::Bytes, progress.moved);
        }
        if progress.state == State::Done {
            drop((transfer, pipe));
            return self.conclude(engine, Outcome::Sent);
        }
        self.is_carried = progress.state == State::Blocked
            && matches!(engine.copy().readiness(&transfer, &pipe.fifo), Readiness::Readable(_));
        self.phase = Phase::Moving { transfer, pipe };
        if progress.state == State::Blocked { Step::Wait(Wait::Ready) } else { Step::Again }
    }

    /// Counts it; the rest is telling who asked to be told.
    fn conclude(&mut self, engine: &Engine<C>, outcome: Outcome) -> Step {
        engine.statistics().ended(outcome);
        tracing::debug!("{}: {}", self.message.bytes.escape_ascii(), outcome.name());
        self.outcome = Some(outcome);
        self.is_carried = false;
        if self.request().status_fifo.is_none() {
            return Step::Finished;
        }
        self.progressed = engine.now();
        self.deadline = self.progressed + STATUS_PATIENCE;
        self.tell(engine, None)
    }

    fn tell(&mut self, engine: &Engine<C>, pipe: Option<Pipe>) -> Step {
        let opened = match (pipe, self.request().status_fifo) {
            (Some(pipe), _) => Ok(pipe),
            (None, Some(name)) => engine.fifos().open_writer(name).map(Pipe::new),
            (None, None) => return Step::Finished,
        };
        let pipe = match opened {
            Ok(pipe) => pipe,
            Err(fifo::OpenError::NoReader | fifo::OpenError::Exhausted) => {
                return self.pause(engine, Phase::Telling(None));
            }
            Err(_) => return self.cut_telling(engine),
        };
        let status = self.outcome.unwrap_or(Outcome::Stopping).status();
        match write_header(&pipe, &Header { status, length: self.moved }.encode()) {
            Ok(true) => Step::Finished,
            Ok(false) => {
                self.phase = Phase::Telling(Some(pipe));
                Step::Wait(Wait::Ready)
            }
            Err(_) => self.cut_telling(engine),
        }
    }

    fn cut_telling(&mut self, engine: &Engine<C>) -> Step {
        self.phase = Phase::Telling(None);
        self.cut(engine, Outcome::Stopping)
    }
}

/// Whether the FIFO had room for it. A header is shorter than PIPE_BUF: it is written whole or not at all.
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
