//! Output that no request asked for, on its way into a session.

use std::task::{Poll, Waker};

use super::{Phase, Session};
use crate::{Protocol, push::Room};

impl<P: Protocol> Session<P> {
    /// True if output may be pushed at any time: a driver that waits for input has to wait for that, too.
    #[inline]
    pub fn takes_pushes(&self) -> bool {
        P::PUSHES && self.outbox.takes_pushes()
    }

    /// Takes in what has been pushed. True if there is something new to be sent, to have a turn for, or to end. In either
    /// case the waker will be woken by what is pushed from then on. Drivers call it before they wait for anything, and after they have been
    /// woken.
    #[inline]
    pub fn take_pushes<'w>(&mut self, waker: impl FnOnce() -> &'w Waker) -> bool {
        self.takes_pushes() && self.take_new_pushes(Some(waker()))
    }

    /// The same, without being woken later: for a driver that calls [`Session::take_pushes`] before it waits.
    #[inline]
    pub fn take_pushes_so_far(&mut self) -> bool {
        self.takes_pushes() && self.take_new_pushes(None)
    }

    #[cold]
    fn take_new_pushes(&mut self, waker: Option<&Waker>) -> bool {
        let is_full = self.outbox.is_full();
        let room = match self.phase {
            Phase::Open if self.is_ended => Room::Ending { is_full },
            Phase::Open if is_full => Room::None,
            Phase::Open => Room::Some,
            Phase::Closing(_) => Room::Ending { is_full: true },
            Phase::Greeting | Phase::Lingering { .. } | Phase::Aborted => return false,
        };
        let Some(source) = self.outbox.source() else { return false };
        match source.poll_news(room, waker) {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => {
                let is_followed = source.is_followed();
                self.owes_turn |= is_followed;
                is_followed || self.collect_new_pushes()
            }
            Poll::Ready(Err(_)) => {
                self.phase = Phase::Aborted;
                true
            }
        }
    }

    fn collect_new_pushes(&mut self) -> bool {
        let was_idle = self.outbox.is_idle();
        let has_collected = self.outbox.collect_pushes();
        if was_idle && has_collected {
            self.stall = None; // What the peer takes from here on is another matter.
        }
        has_collected
    }

    /// Moves what has been pushed into the outbox, as far as there is room; whatever input follows comes after it.
    /// True if anything has been moved.
    #[inline]
    pub fn collect_pushes(&mut self) -> bool {
        self.takes_pushes() && self.phase == Phase::Open && self.collect_new_pushes()
    }

    /// True if nothing is left to be sent or said.
    pub(super) fn is_all_sent(&self) -> bool {
        self.outbox.is_idle() && !self.owes_end() && !(self.takes_pushes() && self.outbox.has_pushes())
    }
}
