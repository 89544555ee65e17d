//! Deadlines of coroutines: the crate's wait for a socket has none.

use std::{
    collections::BTreeMap,
    sync::LazyLock,
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use parking_lot::{Condvar, Mutex};

use crate::tasks::Timer;

/// A deadline, and a number that tells apart those of one time.
type Key = (Instant, u64);

/// The deadlines of the process, and the thread that wakes those whose time has come.
#[derive(Default)]
struct Alarms {
    sleeping: Mutex<Sleeping>,
    earlier: Condvar,
}

#[derive(Default)]
struct Sleeping {
    wakers: BTreeMap<Key, Waker>,
    last: u64,
    is_running: bool,
}

static ALARMS: LazyLock<Alarms> = LazyLock::new(Alarms::default);

impl Alarms {
    fn set(&'static self, deadline: Instant, waker: Waker) -> Key {
        let mut sleeping = self.sleeping.lock();
        sleeping.last += 1;
        let key = (deadline, sleeping.last);
        sleeping.wakers.insert(key, waker);
        if !sleeping.is_running {
            // Without a thread the next one tries again; until then nothing is late but what has a deadline.
            sleeping.is_running = thread::Builder::new().name("may-timer".into()).spawn(|| self.run()).is_ok();
        }
        if sleeping.wakers.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.earlier.notify_one();
        }
        key
    }

    fn run(&self) {
        let mut sleeping = self.sleeping.lock();
        loop {
            match sleeping.wakers.first_entry() {
                None => self.earlier.wait(&mut sleeping),
                Some(first) if first.key().0 <= Instant::now() => {
                    let waker = first.remove();
                    parking_lot::MutexGuard::unlocked(&mut sleeping, || waker.wake());
                }
                Some(first) => {
                    let deadline = first.key().0;
                    self.earlier.wait_until(&mut sleeping, deadline);
                }
            }
        }
    }
}

pub(super) struct MayTimer {
    deadline: Instant,
    set: Option<Key>,
}

impl Timer for MayTimer {
    fn at(deadline: Instant) -> Self {
        Self { deadline, set: None }
    }

    fn reset(&mut self, deadline: Instant) {
        self.cancel();
        self.deadline = deadline;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline <= Instant::now() {
            return Poll::Ready(());
        }
        self.set.get_or_insert_with(|| ALARMS.set(self.deadline, cx.waker().clone()));
        Poll::Pending
    }
}

impl MayTimer {
    fn cancel(&mut self) {
        if let Some(key) = self.set.take() {
            ALARMS.sleeping.lock().wakers.remove(&key);
        }
    }
}

impl Drop for MayTimer {
    fn drop(&mut self) {
        self.cancel();
    }
}
