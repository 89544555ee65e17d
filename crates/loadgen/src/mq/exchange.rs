//! One request and its answer.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use sys::{
    fifo::Reader,
    mqueue::{Queue, SendError},
};

use super::{
    answer::Answer,
    recorder::ClientRecorder,
    sink::{AnswerReader, Piece},
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    engine::Window,
    error::ErrorClass,
    protocol::Verdict,
    request_log::Received,
};

/// Longest wait before the interrupt flag is checked.
const POLL_INTERVAL: Nanos = 50 * MILLISECOND;

/// A request under way.
pub(super) struct Exchange<'a, 'w> {
    pub(super) window: &'w Window,
    pub(super) recorder: &'a mut ClientRecorder<'w>,
    pub(super) answer_reader: &'a mut AnswerReader,
    pub(super) data: &'a Reader,
    pub(super) status: Option<&'a Reader>,
    pub(super) deadline: Nanos,
    pub(super) heard: Received,
}

/// Reasons why an exchange ends early.
enum Aborted {
    Failed(ErrorClass),
    /// The run was interrupted: there is no verdict.
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
    /// Sends the request and reads the answer to its end; `None` when the run was interrupted.
    pub(super) fn run(&mut self, queue: &Queue, message: &[u8], mut answer: Answer<'_>) -> Option<Verdict> {
        match self.send(queue, message).and_then(|()| self.receive(&mut answer)) {
            Ok(()) => Some(answer.end()),
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

    fn receive(&mut self, answer: &mut Answer<'_>) -> Result<(), Aborted> {
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
                data_flow = self.take_data(answer)?;
            }
            if let Some(status) = status.filter(|_| status_flow == Flow::Open && ready[1]) {
                status_flow = self.take_head(status, answer)?;
            }
        }
        Ok(())
    }

    /// Takes what there is of the file, and of the header in front of it.
    fn take_data(&mut self, answer: &mut Answer<'_>) -> Result<Flow, Aborted> {
        while answer.begins_with_head() {
            let flow = self.take_head(self.data, answer)?;
            if answer.begins_with_head() {
                return Ok(flow);
            }
        }
        loop {
            let piece = match self.answer_reader.take(self.data) {
                Ok(Piece::Seen([]) | Piece::Unseen(0)) => return Ok(Flow::Ended),
                Ok(piece) => piece,
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            };
            let now = clock::now();
            self.heard.more(piece.bytes(), now);
            self.recorder.received(piece.bytes(), now);
            answer.take(&piece);
            // A FIFO that is filled as fast as it is emptied gives no other opportunity.
            self.check(now, ErrorClass::Timeout)?;
        }
    }

    fn take_head(&mut self, fifo: &Reader, answer: &mut Answer<'_>) -> Result<Flow, Aborted> {
        loop {
            match rustix::io::read(fifo, answer.head.room()) {
                Ok(0) => return Ok(Flow::Ended),
                Ok(length) => {
                    answer.head.filled(length);
                    let now = clock::now();
                    self.heard.more(length as u64, now);
                    self.recorder.received(length as u64, now);
                }
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            }
            if answer.heard()?.is_some() {
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
