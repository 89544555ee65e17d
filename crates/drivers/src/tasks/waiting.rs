//! Events that tasks wait for beside their socket: the drain and the deadline.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use crate::{
    shutdown::{Loop, Registration, Shutdown, Stage},
    wheel::TICK,
};

/// The shutdown as one task sees it. It registers on the first poll, since a task keeps its waker.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    shutdown: &'a Shutdown,
    registered: Option<Registration>,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(shutdown: &'a Shutdown) -> Self {
        Drain { shutdown, registered: None }
    }

    /// Returns the stage of the server; the task will be woken at the next one.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Stage {
        self.registered.get_or_insert_with(|| self.shutdown.register(cx.waker().clone()));
        self.shutdown.stage()
    }
}

/// The same for a task that accepts connections, and is asked for signs of life.
#[derive(Debug)]
pub struct AcceptorDrain<'a> {
    shutdown: &'a Shutdown,
    registered: Option<Loop>,
}

impl<'a> AcceptorDrain<'a> {
    pub fn new(shutdown: &'a Shutdown) -> Self {
        AcceptorDrain { shutdown, registered: None }
    }

    /// Returns the stage of the server; the task will be woken at the next one.
    pub fn poll(&mut self, cx: &Context<'_>) -> Stage {
        self.registered.get_or_insert_with(|| self.shutdown.register_loop(cx.waker().clone())).turned();
        self.shutdown.stage()
    }
}

/// A sleep of a runtime.
pub trait Timer: Sized {
    fn at(deadline: Instant) -> Self;

    /// Moves the deadline.
    fn reset(&mut self, deadline: Instant);

    /// Ready when the deadline has come; it is then reset before it is polled again.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

pub(super) async fn sleep<T: Timer>(pause: Duration) {
    let mut timer = T::at(Instant::now() + pause);
    poll_fn(|cx| timer.poll(cx)).await;
}

/// A sleep that is moved only when it rings: activity costs nothing.
#[derive(Debug)]
pub(crate) struct DeadlineTimer<T>(Option<Ringing<T>>);

#[derive(Debug)]
struct Ringing<T> {
    timer: T,
    at: Instant,
    /// A deadline that stands still rings once in a tick: at once it would ring for ever.
    earliest: Instant,
}

impl<T> Default for DeadlineTimer<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Timer> DeadlineTimer<T> {
    /// Ready when `deadline` has come, perhaps a tick late.
    pub(crate) fn poll(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        let due = deadline + TICK;
        let ringing = self.0.get_or_insert_with(|| Ringing { timer: T::at(due), at: due, earliest: Instant::now() });
        loop {
            let due = due.max(ringing.earliest);
            if ringing.at > due {
                ringing.reset(due);
            }
            ready!(ringing.timer.poll(cx));
            let now = Instant::now();
            // The deadline may have moved since this was set, or may stand still.
            ringing.reset(deadline.max(now) + TICK);
            ringing.earliest = now + TICK;
            if now >= deadline {
                return Poll::Ready(());
            }
        }
    }
}

impl<T: Timer> Ringing<T> {
    fn reset(&mut self, at: Instant) {
        self.at = at;
        self.timer.reset(at);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Rings as soon as its time has come, as a runtime's does that is given a past one.
    struct Clock(Instant);

    impl Timer for Clock {
        fn at(deadline: Instant) -> Self {
            Self(deadline)
        }

        fn reset(&mut self, deadline: Instant) {
            self.0 = deadline;
        }

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<()> {
            if self.0 <= Instant::now() { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    #[test]
    fn a_deadline_that_stands_still_does_not_ring_at_once_again() {
        let (mut timer, past) = (DeadlineTimer::<Clock>::default(), Instant::now() - TICK * 10);
        let mut poll = || timer.poll(Some(past), &mut Context::from_waker(Waker::noop()));
        assert!(poll().is_ready());
        assert!((0..1000).filter(|_| poll().is_ready()).count() < 1000);
    }
}
