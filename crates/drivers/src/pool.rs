//! An acceptor, a bounded queue, and workers that each serve one connection at a time.

use std::{collections::VecDeque, io, sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, Mutex};
use proto::Protocol;

use crate::{
    ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer, Serving,
    Wait,
    blocking::{AcceptedConnection, accept_on_threads, serve_connection},
    join_all,
};

/// Limit of the connections that wait for a worker; the next one is refused.
const QUEUE_MAX: usize = 1024;
/// Workers where nobody asks for another number.
const WORKERS: usize = 64;
/// Time after which an idle connection is closed in favour of one that waits.
const TICK: Duration = Duration::from_millis(100);

pub(crate) struct Pool;

impl Driver for Pool {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "pool",
        about: "an acceptor, a bounded queue, and workers that each serve one connection at a time",
        io: IoModel::Readiness,
        connection: ConnectionModel::Worker,
        default_workers: DefaultWorkers::Fixed(WORKERS),
        listener_per_thread: false,
        batches: false,
        waits_in: Wait::Recv,
        reads_into: ReadBuffer::Session,
        sends_memory: MemoryPath::Send,
        sends_files: FilePath::Sendfile,
        sends_pipes: PipePath::Splice,
        registers_memory: false,
        needs: None,
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let queue = Queue::<Arc<AcceptedConnection>>::default();
        let (protocol, queue) = (&*protocol, &queue);
        thread::scope(|scope| {
            let workers = (0..config.workers).map(|index| {
                scope.spawn(move || {
                    config.pin_thread(index)?;
                    let counters = config.statistics.register();
                    while let Some(connection) = queue.pop() {
                        serve_connection(&connection, protocol, config, shutdown, &counters, TICK, || {
                            queue.is_short_of_workers()
                        });
                    }
                    Ok(())
                })
            });
            let workers: Vec<_> = workers.collect();
            let outcome = accept_on_threads(listeners, config, shutdown, protocol.refusal(), |connection| {
                queue.try_push(connection, QUEUE_MAX)
            });
            queue.close();
            let workers = join_all(workers);
            outcome.and(workers)
        })
    }
}

/// First in first out.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Threads in [`Queue::pop`] without an item, those included that have been notified and do not run yet.
    idle: usize,
    open: bool,
}

impl<T> State<T> {
    /// True if more items wait than threads: an item that an idle thread is about to take is not waiting for anybody.
    fn is_short_of_workers(&self) -> bool {
        self.items.len() > self.idle
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), idle: 0, open: true });
        Self { state, not_empty: Condvar::new() }
    }
}

impl<T> Queue<T> {
    /// For items that something else bounds.
    pub(crate) fn push(&self, item: T) {
        self.state.lock().items.push_back(item);
        self.not_empty.notify_one();
    }

    /// # Errors
    /// The item, when `len_max` others wait.
    pub(crate) fn try_push(&self, item: T, len_max: usize) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.items.len() >= len_max {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.not_empty.notify_one();
        Ok(())
    }

    /// `None` once closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.idle += 1;
        self.not_empty.wait_while(&mut state, |state| state.items.is_empty() && state.open);
        state.idle -= 1;
        state.items.pop_front()
    }

    fn is_short_of_workers(&self) -> bool {
        self.state.lock().is_short_of_workers()
    }

    pub(crate) fn close(&self) {
        self.state.lock().open = false;
        self.not_empty.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_gives_an_item_back() {
        let queue = Queue::default();
        assert_eq!((queue.try_push(1, 2), queue.try_push(2, 2)), (Ok(()), Ok(())));
        assert_eq!((queue.try_push(3, 2), queue.is_short_of_workers()), (Err(3), true));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.try_push(3, 2), Ok(()));
        queue.close();
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(3), None]);
    }

    #[test]
    fn an_item_waits_for_nobody_while_a_thread_is_idle() {
        let queue = Queue::default();
        thread::scope(|scope| {
            scope.spawn(|| queue.pop());
            while queue.state.lock().idle == 0 {
                thread::yield_now();
            }
            // The thread cannot wake up while the lock is held.
            let mut state = queue.state.lock();
            let is_short = [1, 2].map(|item| {
                state.items.push_back(item);
                state.is_short_of_workers()
            });
            drop(state);
            queue.close();
            assert_eq!(is_short, [false, true]);
        });
    }
}
