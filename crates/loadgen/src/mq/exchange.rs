//! One request and its reply.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use sys::{
    fifo::Reader,
    mqueue::{Queue, SendError},
};
use wire::mserve::Status;

use super::{
    recorder::ClientRecorder,
    reply::IncomingReply,
    sink::{Piece, ReplyReader},
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    engine::Window,
    error::ErrorClass,
    protocol::RequestOutcome,
    request_log::Received,
};

/// Longest wait before the interrupt flag is checked.
const POLL_INTERVAL: Nanos = 50 * MILLISECOND;

/// A request under way.
pub(super) struct Exchange<'a, 'w> {
    pub(super) window: &'w Window,
    pub(super) recorder: &'a mut ClientRecorder<'w>,
    pub(super) reply_reader: &'a mut ReplyReader,
    pub(super) data: &'a Reader,
    pub(super) status: Option<&'a Reader>,
    pub(super) deadline: Nanos,
    pub(super) received: Received,
    /// Status of a header that refuses the request.
    pub(super) refusal: Option<Status>,
}

/// Reasons why an exchange ends early.
enum Aborted {
    Failed(ErrorClass),
    /// The run was interrupted: there is no outcome.
    Stopped,
}

impl From<ErrorClass> for Aborted {
    fn from(class: ErrorClass) -> Self {
        Self::Failed(class)
    }
}

/// State of a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    Ended,
}

impl Exchange<'_, '_> {
    /// Sends the request and reads the reply to its end; `None` when the run was interrupted.
    pub(super) fn run(
        &mut self,
        queue: &Queue,
        message: &[u8],
        mut reply: IncomingReply<'_>,
    ) -> Option<RequestOutcome> {
        match self.send(queue, message).and_then(|()| self.receive(&mut reply)) {
            Ok(()) => Some(reply.end()),
            Err(Aborted::Failed(class)) => Some(Err(class)),
            Err(Aborted::Stopped) => None,
        }
    }

    fn send(&mut self, queue: &Queue, message: &[u8]) -> Result<(), Aborted> {
        loop {
            match queue.try_send(message, 0) {
                Ok(()) => {
                    self.recorder.sent(message.len() as u64, clock::now());
                    return Ok(());
                }
                Err(SendError::Full) => {
                    self.wait([(queue.as_fd(), PollFlags::OUT)], ErrorClass::QueueFull).map(drop)?
                }
                Err(SendError::TooLong | SendError::Failed(_)) => return Err(ErrorClass::WriteError.into()),
            }
        }
    }

    fn receive(&mut self, reply: &mut IncomingReply<'_>) -> Result<(), Aborted> {
        let (data, status) = (self.data, self.status);
        let mut data_flow = Flow::Open;
        let mut status_flow = if status.is_some() { Flow::Open } else { Flow::Ended };
        while (data_flow, status_flow) != (Flow::Ended, Flow::Ended) {
            // An ended FIFO would report so for ever: the other stands in its place.
            let first = if data_flow == Flow::Open { data } else { status.unwrap_or(data) };
            let second = status.filter(|_| status_flow == Flow::Open).unwrap_or(first);
            let waited_for = [first, second].map(|fifo| (fifo.as_fd(), PollFlags::IN));
            let ready = self.wait(waited_for, ErrorClass::Timeout)?;
            if data_flow == Flow::Open && ready[0] {
                data_flow = self.take_data(reply)?;
            }
            if let Some(status) = status.filter(|_| status_flow == Flow::Open && ready[1]) {
                status_flow = self.take_head(status, reply)?;
            }
        }
        Ok(())
    }

    /// Takes what there is of the file, and of the header in front of it.
    fn take_data(&mut self, reply: &mut IncomingReply<'_>) -> Result<Flow, Aborted> {
        while reply.begins_with_head() {
            let flow = self.take_head(self.data, reply)?;
            if reply.begins_with_head() {
                return Ok(flow);
            }
        }
        loop {
            let piece = match self.reply_reader.take(self.data) {
                Ok(Piece::Copied([]) | Piece::Spliced(0)) => return Ok(Flow::Ended),
                Ok(piece) => piece,
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            };
            let now = clock::now();
            self.received.add(piece.bytes(), now);
            self.recorder.received(piece.bytes(), now);
            reply.take(&piece);
            // A FIFO that is filled as fast as it is emptied gives no other opportunity.
            self.check(now, ErrorClass::Timeout)?;
        }
    }

    fn take_head(&mut self, fifo: &Reader, reply: &mut IncomingReply<'_>) -> Result<Flow, Aborted> {
        loop {
            match rustix::io::read(fifo, reply.head.room()) {
                Ok(0) => return Ok(Flow::Ended),
                Ok(length) => {
                    reply.head.filled(length);
                    let now = clock::now();
                    self.received.add(length as u64, now);
                    self.recorder.received(length as u64, now);
                }
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            }
            self.refusal = self.refusal.or_else(|| reply.refusal());
            if reply.header()?.is_some() {
                // Behind it stands the file, or something that was not requested.
                return Ok(Flow::Ended);
            }
        }
    }

    /// Waits until one of these can be used. Returns which of them can be.
    fn wait<const N: usize>(
        &self,
        files: [(BorrowedFd<'_>, PollFlags); N],
        if_late: ErrorClass,
    ) -> Result<[bool; N], Aborted> {
        let mut polled = files.map(|(file, flags)| PollFd::from_borrowed_fd(file, flags));
        loop {
            let now = clock::now();
            self.check(now, if_late)?;
            let rest = clock::timespec((self.deadline - now).min(POLL_INTERVAL));
            match poll(&mut polled, Some(&rest)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(polled.map(|file| !file.revents().is_empty())),
                Err(_) => return Err(ErrorClass::Fifo.into()),
            }
        }
    }

    fn check(&self, now: Nanos, if_late: ErrorClass) -> Result<(), Aborted> {
        match now >= self.deadline {
            _ if self.window.is_stopped() => Err(Aborted::Stopped),
            true => Err(if_late.into()),
            false => Ok(()),
        }
    }
}
