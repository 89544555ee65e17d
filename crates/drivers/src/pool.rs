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

/// Connections that may wait for a worker; whoever comes then is turned away.
const QUEUE_MAX: usize = 1024;
/// How soon an idle connection gives way to one that waits.
const TICK: Duration = Duration::from_millis(100);
/// The same for a peer that has not said anything yet, and may be about to, where few wait.
const SILENCE_MAX: Duration = Duration::from_secs(1);
/// And where many do. A request that came while its connection waited is there before the worker is.
const SILENCE_MIN: Duration = Duration::from_millis(10);

pub(crate) struct Pool;

impl Driver for Pool {
    const LISTENER_PER_THREAD: bool = false;

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let queue = Queue::<Arc<Guest>>::default();
        let (protocol, queue) = (&*protocol, &queue);
        let patience = || patience(queue.len(), config.workers);
        thread::scope(|scope| {
            let workers = (0..config.workers).map(|index| {
                scope.spawn(move || {
                    config.pin_thread(index)?;
                    let counters = config.statistics.register();
                    while let Some(guest) = queue.pop() {
                        converse(&guest, protocol, config, shutdown, &counters, TICK, patience);
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

/// For how long a peer that has said nothing yet keeps its worker; `None`: nobody waits for one.
///
/// Whoever comes last has as many rounds of all workers before it as the queue is long in workers, and these share
/// [`SILENCE_MAX`] evenly. A queue shorter than the workers are many leaves each peer the whole of it; if all of a long
/// one are silent, they have been through in a few times [`SILENCE_MAX`], since patience grows again as it shortens.
fn patience(waiting: usize, workers: usize) -> Option<Duration> {
    let rounds = u32::try_from(waiting.div_ceil(workers)).unwrap_or(u32::MAX);
    (rounds > 0).then(|| (SILENCE_MAX / rounds).max(SILENCE_MIN))
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

    pub(crate) fn len(&self) -> usize {
        self.state().items.len()
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
        assert_eq!((queue.try_push(3, 2), queue.len()), (Err(3), 2));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.try_push(3, 2), Ok(()));
        queue.close();
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(2), Some(3), None]);
    }

    #[test]
    fn patience_with_the_silent_shrinks_as_the_queue_grows() {
        assert_eq!(patience(0, 64), None);
        assert_eq!([1, 64].map(|waiting| patience(waiting, 64)), [Some(SILENCE_MAX); 2]);
        assert_eq!(patience(65, 64), Some(SILENCE_MAX / 2));
        assert_eq!(patience(QUEUE_MAX, 64), Some(SILENCE_MAX / 16));
        assert_eq!(patience(QUEUE_MAX, 1), Some(SILENCE_MIN));
    }
}
