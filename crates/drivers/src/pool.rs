//! An acceptor, a bounded queue, and workers that each serve one connection at a time.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use proto::Protocol;

use crate::{
    Driver, Serving,
    blocking::{Guest, accept_on_threads, converse},
    join_all,
};

/// Connections that may wait for a worker.
const QUEUE_MAX: usize = 1024;
/// How soon an idle connection gives way to one that waits.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Pool;

impl Driver for Pool {
    const LISTENER_PER_THREAD: bool = false;

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let queue = Queue::<Arc<Guest>>::new(QUEUE_MAX);
        let (protocol, queue) = (&*protocol, &queue);
        thread::scope(|scope| {
            let workers = (0..config.workers).map(|index| {
                scope.spawn(move || {
                    config.pin_thread(index)?;
                    let counters = config.statistics.register();
                    while let Some(guest) = queue.pop() {
                        converse(&guest, protocol, config, shutdown, &counters, TICK, || !queue.is_empty());
                    }
                    Ok(())
                })
            });
            let workers: Vec<_> = workers.collect();
            let outcome = accept_on_threads(listeners, config, shutdown, protocol.refusal(), |guest, _| {
                queue.push(Arc::new(guest));
            });
            queue.close();
            let workers = join_all(workers);
            outcome.and(workers)
        })
    }
}

/// Bounded, first in first out; a full queue makes the pusher wait.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    not_full: Condvar,
    len_max: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    open: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new(len_max: usize) -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), open: true });
        Self { state, not_empty: Condvar::new(), not_full: Condvar::new(), len_max }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        let full = |state: &mut State<T>| state.items.len() >= self.len_max;
        let mut state = self.not_full.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.items.push_back(item);
        drop(state);
        self.not_empty.notify_one();
    }

    /// `None` once closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let nothing = |state: &mut State<T>| state.items.is_empty() && state.open;
        let mut state = self.not_empty.wait_while(self.state(), nothing).unwrap_or_else(PoisonError::into_inner);
        let item = state.items.pop_front();
        drop(state);
        self.not_full.notify_one();
        item
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().items.is_empty()
    }

    pub(crate) fn close(&self) {
        self.state().open = false;
        self.not_empty.notify_all();
    }
}
