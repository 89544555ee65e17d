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
    ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer, Serving,
    Wait,
    blocking::{Guest, accept_on_threads, converse},
    join_all,
};

/// Connections that may wait for a worker; whoever comes then is turned away.
const QUEUE_MAX: usize = 1024;
/// Workers where nobody asks for another number.
const WORKERS: usize = 64;
/// How soon an idle connection gives way to one that waits.
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
        let queue = Queue::<Arc<Guest>>::default();
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
            let outcome = accept_on_threads(listeners, config, shutdown, protocol.refusal(), |guest| {
                queue.try_push(guest, QUEUE_MAX)
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
    open: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = Mutex::new(State { items: VecDeque::new(), open: true });
        Self { state, not_empty: Condvar::new() }
    }
}

impl<T> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For items that something else bounds.
    pub(crate) fn push(&self, item: T) {
        self.state().items.push_back(item);
        self.not_empty.notify_one();
    }

    /// # Errors
    /// The item, when `len_max` others wait.
    pub(crate) fn try_push(&self, item: T, len_max: usize) -> Result<(), T> {
        let mut state = self.state();
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
        let nothing = |state: &mut State<T>| state.items.is_empty() && state.open;
        let mut state = self.not_empty.wait_while(self.state(), nothing).unwrap_or_else(PoisonError::into_inner);
        state.items.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().items.is_empty()
    }

    pub(crate) fn close(&self) {
        self.state().open = false;
        self.not_empty.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_gives_the_item_back_and_takes_it_once_there_is_room() {
        let queue = Queue::default();
        assert_eq!((queue.try_push(1, 2), queue.try_push(2, 2)), (Ok(()), Ok(())));
        assert_eq!((queue.try_push(3, 2), queue.is_empty()), (Err(3), false));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.try_push(3, 2), Ok(()));
        queue.close();
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(3), None]);
    }
}
