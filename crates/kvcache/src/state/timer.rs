//! Tasks for later: one thread for the whole server, started by the first task.

use std::{cmp::Reverse, collections::BinaryHeap, fmt, io, sync::Arc, thread, time::Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

type Action = Box<dyn FnOnce() + Send>;

/// Queue of tasks; what has not been done when this is dropped is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Timer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    tasks: BinaryHeap<Reverse<Task>>,
    added: u64,
    is_running: bool,
    is_stopped: bool,
}

struct Task {
    at: Instant,
    /// Tasks of one instant keep their order.
    number: u64,
    action: Action,
}

impl Timer {
    /// Runs an action at a time, or soon after it.
    ///
    /// # Errors
    /// The system has no thread to spare; the action is dropped.
    pub(crate) fn at(&self, at: Instant, action: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if !state.is_running {
            let shared = Arc::clone(&self.0);
            thread::Builder::new().name("timer".to_owned()).spawn(move || shared.run())?;
            state.is_running = true;
        }
        let number = state.added;
        state.added += 1;
        state.tasks.push(Reverse(Task { at, number, action: Box::new(action) }));
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_stopped = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.0.changed.notify_one();
        drop(tasks); // Their captures may take locks of their own.
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            match state.tasks.peek().map(|Reverse(task)| task.at) {
                None => self.changed.wait(&mut state),
                Some(at) if at > Instant::now() => {
                    self.changed.wait_until(&mut state, at);
                }
                Some(_) => {
                    if let Some(Reverse(task)) = state.tasks.pop() {
                        MutexGuard::unlocked(&mut state, task.action);
                    }
                }
            }
        }
    }
}

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Task {}

impl PartialOrd for Task {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Task {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("at", &self.at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn tasks_run_in_the_order_of_their_times() {
        let (timer, (sender, done)) = (Timer::default(), mpsc::channel());
        let now = Instant::now();
        for (delay_ms, name) in [(60, 'c'), (20, 'a'), (60, 'd'), (40, 'b')] {
            let sender = sender.clone();
            timer.at(now + Duration::from_millis(delay_ms), move || sender.send(name).unwrap()).unwrap();
        }
        drop(sender);
        assert_eq!(done.iter().collect::<String>(), "abcd");
    }

    #[test]
    fn a_timer_that_is_dropped_forgets_its_tasks() {
        let (timer, (sender, done)) = (Timer::default(), mpsc::channel::<()>());
        timer.at(Instant::now() + Duration::from_secs(3600), move || drop(sender)).unwrap();
        drop(timer);
        assert_eq!(done.recv(), Err(mpsc::RecvError));
    }
}
