//! A promise to the driver, fulfilled by a waker: for a protocol that waits for something which its connection must not.

use std::{
    mem,
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;

use crate::{Outbox, Promise};

/// Keeps a promise to the driver, empty, which it fulfils once something else has happened.
#[derive(Debug, Default)]
pub struct Alarm(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// It has happened: before there was a promise, or to the promise that there was.
    Woken,
    Armed(Promise),
}

impl Alarm {
    /// Forgets what has happened so far.
    pub fn reset(&self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Woken) {
            *state = State::Idle;
        }
    }

    /// True while a promise is open.
    pub fn is_armed(&self) -> bool {
        matches!(*self.0.lock(), State::Armed(_))
    }

    /// Takes the promise, which is fulfilled at once if it has happened since [`Alarm::reset`].
    pub fn arm(&self, promise: Promise) {
        let mut state = self.0.lock();
        match mem::take(&mut *state) {
            State::Idle | State::Armed(_) => *state = State::Armed(promise),
            State::Woken => {
                drop(state);
                promise.fulfil(Outbox::default());
            }
        }
    }

    /// Forgets the promise: nothing is waited for any more.
    pub fn disarm(&self) {
        let before = mem::take(&mut *self.0.lock());
        drop(before); // Not under the lock: dropping a promise wakes.
    }

    /// Returns a waker that lets it happen.
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // Whoever found it armed a moment ago, and gives it another promise now that it is not, must not wait for nothing.
        let before = mem::replace(&mut *self.0.lock(), State::Woken);
        // Fulfilling may run the driver's own locks.
        if let State::Armed(promise) = before {
            promise.fulfil(Outbox::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn is_open(out: &mut Outbox) -> bool {
        out.poll_reply(Waker::noop()) == Poll::Pending
    }

    #[test]
    fn a_wake_is_not_lost_before_or_after_the_promise() {
        let (alarm, mut out) = (Arc::new(Alarm::default()), Outbox::default());
        alarm.arm(out.defer());
        assert!(is_open(&mut out) && alarm.is_armed());
        alarm.waker().wake();
        assert!(!is_open(&mut out) && !alarm.is_armed());
        alarm.waker().wake();
        alarm.arm(out.defer());
        assert!(!is_open(&mut out));
        alarm.waker().wake();
        alarm.reset();
        alarm.arm(out.defer());
        assert!(is_open(&mut out), "what happened before is forgotten");
    }

    /// Between a look at what is waited for and the question whether there is a promise yet.
    #[test]
    fn a_wake_that_keeps_one_promise_keeps_the_next_one_too() {
        let (alarm, mut out) = (Arc::new(Alarm::default()), Outbox::default());
        alarm.arm(out.defer());
        alarm.reset();
        alarm.waker().wake();
        assert!(!alarm.is_armed());
        alarm.arm(out.defer());
        assert!(!is_open(&mut out), "nobody will wake it again");
    }
}
