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
    account::Account,
    answer::Answer,
    sink::{Drain, Piece},
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    engine::Window,
    error::ErrorClass,
    protocol::Verdict,
    request_log::Received,
};

/// How long anything waits before it looks whether the run was interrupted.
const LOOK_EVERY: Nanos = 50 * MILLISECOND;

/// A request under way.
pub(super) struct Exchange<'a, 'w> {
    pub(super) window: &'w Window,
    pub(super) account: &'a mut Account<'w>,
    pub(super) drain: &'a mut Drain,
    pub(super) data: &'a Reader,
    pub(super) status: Option<&'a Reader>,
    pub(super) deadline: Nanos,
    pub(super) heard: Received,
}

/// Why an exchange is over before its end.
enum Over {
    Failed(ErrorClass),
    /// The run was interrupted: there is no verdict.
    Stopped,
}

impl From<ErrorClass> for Over {
    fn from(class: ErrorClass) -> Self {
        Self::Failed(class)
    }
}

/// Whether a FIFO has more to say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flow {
    Open,
    Ended,
}

impl Exchange<'_, '_> {
    /// Asks and hears the answer to its end; `None` when the run was interrupted.
    pub(super) fn run(&mut self, queue: &Queue, message: &[u8], mut answer: Answer<'_>) -> Option<Verdict> {
        match self.send(queue, message).and_then(|()| self.receive(&mut answer)) {
            Ok(()) => Some(answer.end()),
            Err(Over::Failed(class)) => Some(Err(class)),
            Err(Over::Stopped) => None,
        }
    }

    fn send(&mut self, queue: &Queue, message: &[u8]) -> Result<(), Over> {
        loop {
            match queue.try_send(message, 0) {
                Ok(()) => {
                    self.account.sent(message.len() as u64, clock::now());
                    return Ok(());
                }
                Err(SendError::Full) => {
                    self.wait([(queue.as_fd(), PollFlags::OUT)], ErrorClass::QueueFull).map(drop)?
                }
                Err(SendError::TooLong | SendError::Failed(_)) => return Err(ErrorClass::WriteError.into()),
            }
        }
    }

    fn receive(&mut self, answer: &mut Answer<'_>) -> Result<(), Over> {
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
    fn take_data(&mut self, answer: &mut Answer<'_>) -> Result<Flow, Over> {
        while answer.begins_with_head() {
            let flow = self.take_head(self.data, answer)?;
            if answer.begins_with_head() {
                return Ok(flow);
            }
        }
        loop {
            let piece = match self.drain.take(self.data) {
                Ok(Piece::Seen([]) | Piece::Unseen(0)) => return Ok(Flow::Ended),
                Ok(piece) => piece,
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            };
            let now = clock::now();
            self.heard.more(piece.bytes(), now);
            self.account.received(piece.bytes(), now);
            answer.take(&piece);
            // A FIFO that is filled as fast as it is emptied gives no other opportunity.
            self.check(now, ErrorClass::Timeout)?;
        }
    }

    fn take_head(&mut self, fifo: &Reader, answer: &mut Answer<'_>) -> Result<Flow, Over> {
        loop {
            match rustix::io::read(fifo, answer.head.room()) {
                Ok(0) => return Ok(Flow::Ended),
                Ok(length) => {
                    answer.head.filled(length);
                    let now = clock::now();
                    self.heard.more(length as u64, now);
                    self.account.received(length as u64, now);
                }
                Err(Errno::AGAIN) => return Ok(Flow::Open),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(ErrorClass::Fifo.into()),
            }
            if answer.heard()?.is_some() {
                // What stands behind it is the file, or nothing that anybody asked for.
                return Ok(Flow::Ended);
            }
        }
    }

    /// Waits until one of these can be used, and says which.
    fn wait<const N: usize>(
        &self,
        files: [(BorrowedFd<'_>, PollFlags); N],
        if_late: ErrorClass,
    ) -> Result<[bool; N], Over> {
        let mut polled = files.map(|(file, flags)| PollFd::from_borrowed_fd(file, flags));
        loop {
            let now = clock::now();
            self.check(now, if_late)?;
            let rest = clock::timespec((self.deadline - now).min(LOOK_EVERY));
            match poll(&mut polled, Some(&rest)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(polled.map(|file| !file.revents().is_empty())),
                Err(_) => return Err(ErrorClass::Fifo.into()),
            }
        }
    }

    fn check(&self, now: Nanos, if_late: ErrorClass) -> Result<(), Over> {
        match now >= self.deadline {
            _ if self.window.is_stopped() => Err(Over::Stopped),
            true => Err(if_late.into()),
            false => Ok(()),
        }
    }
}
