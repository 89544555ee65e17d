//! An acceptor, a queue, and workers that each serve one connection at a time.
//!
//! While there are more connections than workers they take turns: one that has been read and answered once goes to the
//! end of the queue. Otherwise a connection keeps its worker, and the queue is empty.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use proto::Protocol;

use crate::{
    ConnectionModel, DefaultWorkers, Descriptor, Driver, ReadBuffer, Serving, Wait,
    blocking::{AcceptedConnection, Connection, Next, Server, accept_on_threads},
    join_all, system_calls,
};

/// Workers where nobody asks for another number.
const WORKERS: usize = 64;
/// Timeout of blocked calls: a connection that comes when all workers wait for idle peers waits no longer.
const TICK: Duration = Duration::from_millis(100);
/// Interval at which it is logged that connections wait.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

pub(crate) struct Pool;

impl Driver for Pool {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "pool",
        about: "an acceptor, a queue, and workers that each serve one connection at a time",
        connection: ConnectionModel::Worker,
        default_workers: DefaultWorkers::Fixed(WORKERS),
        waits_in: Wait::Recv,
        reads_into: ReadBuffer::Session,
        calls: system_calls::POOL,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        // Bounded by the limit of connections.
        let queue = Queue::<Turn<P>>::default();
        let report = Report::default();
        let (protocol, queue) = (&*protocol, &queue);
        thread::scope(|scope| {
            let workers = (0..config.workers).map(|index| {
                scope.spawn(move || {
                    config.pin_thread(index)?;
                    let counters = config.statistics.register();
                    let mut server =
                        Server::new(protocol, config, shutdown, &counters, TICK, || queue.is_short_of_workers());
                    while let Some(turn) = queue.pop() {
                        let mut connection = match turn {
                            Turn::First(accepted) => Box::new(server.open(accepted)),
                            Turn::Next(connection) => connection,
                        };
                        if server.serve(&mut connection) == Next::Wait {
                            queue.push(Turn::Next(connection));
                        }
                    }
                    Ok(())
                })
            });
            let workers: Vec<_> = workers.collect();
            let outcome = accept_on_threads(listeners, config, shutdown, protocol.refusal(), |accepted| {
                queue.push(Turn::First(accepted));
                if queue.is_short_of_workers() {
                    report.say(queue, config.workers);
                }
                Ok(())
            });
            queue.close();
            let workers = join_all(workers);
            outcome.and(workers)
        })
    }
}

/// A connection in the queue.
enum Turn<P: Protocol> {
    First(Arc<AcceptedConnection>),
    /// One that had a turn, and let others have theirs.
    Next(Box<Connection<P>>),
}

/// Says in the log that connections wait for a worker, once in an interval.
#[derive(Debug, Default)]
struct Report(Mutex<Option<Instant>>);

impl Report {
    fn say<T>(&self, queue: &Queue<T>, workers: usize) {
        let mut said_at = self.0.lock();
        if said_at.is_none_or(|at| at.elapsed() > REPORT_INTERVAL) {
            *said_at = Some(Instant::now());
            let waiting = queue.len();
            tracing::info!("{waiting} connections wait for one of {workers} workers, which take turns; see --workers");
        }
    }
}

/// First in first out.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    not_empty: Condvar,
    /// [`State::is_short_of_workers`], to be read without the lock.
    is_short: AtomicBool,
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
        Self { state, not_empty: Condvar::new(), is_short: AtomicBool::new(false) }
    }
}

impl<T> Queue<T> {
    /// For items that something else bounds.
    pub(crate) fn push(&self, item: T) {
        let mut state = self.state.lock();
        state.items.push_back(item);
        self.note(&state);
        drop(state);
        self.not_empty.notify_one();
    }

    /// `None` once closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        state.idle += 1;
        self.not_empty.wait_while(&mut state, |state| state.items.is_empty() && state.open);
        state.idle -= 1;
        let item = state.items.pop_front();
        self.note(&state);
        item
    }

    fn note(&self, state: &State<T>) {
        let is_short = state.is_short_of_workers();
        // A line that all threads read is written only when it changes.
        if self.is_short.load(Relaxed) != is_short {
            self.is_short.store(is_short, Relaxed);
        }
    }

    fn len(&self) -> usize {
        self.state.lock().items.len()
    }

    fn is_short_of_workers(&self) -> bool {
        self.is_short.load(Relaxed)
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
    fn items_leave_in_the_order_of_their_arrival() {
        let queue = Queue::default();
        (1..=3).for_each(|item| queue.push(item));
        assert_eq!((queue.pop(), queue.len(), queue.is_short_of_workers()), (Some(1), 2, true));
        queue.push(1);
        queue.close();
        assert_eq!([queue.pop(), queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(3), Some(1), None]);
        assert!(!queue.is_short_of_workers());
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
