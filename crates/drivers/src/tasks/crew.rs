//! The tasks of an acceptor, counted so that it can wait for the last one.

use std::{
    future::poll_fn,
    mem,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;

/// Counts tasks.
#[derive(Debug, Default)]
pub struct Crew(Arc<Mutex<Count>>);

#[derive(Debug, Default)]
struct Count {
    tasks: usize,
    /// Task that waits for the last one to end.
    waiter: Option<Waker>,
}

/// One task of a [`Crew`], until it is dropped.
#[derive(Debug)]
pub struct Member(Arc<Mutex<Count>>);

impl Crew {
    pub fn join(&self) -> Member {
        self.0.lock().tasks += 1;
        Member(Arc::clone(&self.0))
    }

    /// Returns when no task is left.
    pub async fn ended(&self) {
        poll_fn(|cx| {
            let mut count = self.0.lock();
            if count.tasks == 0 {
                return Poll::Ready(());
            }
            count.waiter = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut count = self.0.lock();
        count.tasks -= 1;
        let waiter = if count.tasks == 0 { mem::take(&mut count.waiter) } else { None };
        drop(count); // Waking may run a runtime's own locks.
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, task::Context};

    use super::*;

    #[test]
    fn a_crew_has_ended_when_its_last_task_has() {
        let crew = Crew::default();
        let (first, second) = (crew.join(), crew.join());
        let mut ended = pin!(crew.ended());
        let mut poll = || ended.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        drop(first);
        assert!(poll().is_pending());
        drop(second);
        assert!(poll().is_ready());
    }
}
