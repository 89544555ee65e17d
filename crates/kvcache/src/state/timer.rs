//! Things to be done later: one thread for the whole server, started by the first of them.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt, io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

type Action = Box<dyn FnOnce() + Send>;

/// What is still to be done; forgotten when this is dropped.
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
    is_over: bool,
}

struct Task {
    at: Instant,
    /// Tasks of one instant keep their order.
    number: u64,
    action: Action,
}

impl Timer {
    /// # Errors
    /// There is no thread to be had; the action is dropped.
    pub(crate) fn at(&self, at: Instant, action: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.state();
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
        let mut state = self.0.state();
        state.is_over = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.0.changed.notify_one();
        drop(tasks); // What they hold may take locks of its own.
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.is_over {
            let now = Instant::now();
            state = match state.tasks.peek().map(|Reverse(task)| task.at) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    self.changed.wait_timeout(state, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let task = state.tasks.pop();
                    drop(state);
                    if let Some(Reverse(task)) = task {
                        (task.action)();
                    }
                    self.state()
                }
            };
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
    fn tasks_are_done_in_the_order_of_their_times() {
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
    fn a_timer_that_is_dropped_forgets_what_was_to_be_done() {
        let (timer, (sender, done)) = (Timer::default(), mpsc::channel::<()>());
        timer.at(Instant::now() + Duration::from_secs(3600), move || drop(sender)).unwrap();
        drop(timer);
        assert_eq!(done.recv(), Err(mpsc::RecvError));
    }
}
