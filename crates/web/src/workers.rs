//! Bounded pool of threads for work that would hold an event loop up: slow hashes, compression, directories of a hundred
//! thousand entries. Its replies are deferred (`Outbox::defer`), and a full queue is an answer of its own: 503.

use std::{sync::OnceLock, thread};

use crossbeam_channel::{Receiver, Sender};

/// Number of jobs that may wait; beyond it, a client is told to try again.
const QUEUE_MAX: usize = 1024;
/// Number of threads, where processors allow: more would take their time from the event loops.
const THREADS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// See the module's description.
#[derive(Debug)]
pub struct Workers {
    /// `None` where no thread could be started.
    queue: Option<Sender<Job>>,
}

/// Error of [`Workers::submit`]: too many jobs wait, or there is no thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl Workers {
    /// Returns the pool that all hosts of a process share; its threads are started when it is first asked for.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Workers> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)))
    }

    /// Starts as many threads, or those that can be started. They end when this is dropped and the queue is empty.
    pub fn start(threads: usize) -> Self {
        let (queue, jobs) = crossbeam_channel::bounded(QUEUE_MAX);
        let mut started = 0;
        for number in 0..threads {
            let jobs = jobs.clone();
            match thread::Builder::new().name(format!("web-worker-{number}")).spawn(move || run(&jobs)) {
                Ok(_) => started += 1,
                Err(error) => tracing::warn!("cannot start a thread: {error}"),
            }
        }
        Self { queue: (started > 0).then_some(queue) }
    }

    /// Queues a job. A panic in it is reported and costs nothing else; a promise that it owned is dropped, which closes
    /// the connection.
    ///
    /// # Errors
    /// The job has not been queued, and never runs.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Overloaded> {
        let queue = self.queue.as_ref().ok_or(Overloaded)?;
        queue.try_send(Box::new(job)).map_err(|_| Overloaded)
    }
}

fn run(jobs: &Receiver<Job>) {
    while let Ok(job) = jobs.recv() {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)); // Reported by the hook.
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc::channel};

    use super::*;

    #[test]
    fn every_job_runs_whatever_became_of_others() {
        let (workers, (done, results)) = (Workers::start(2), channel());
        for number in 0..100 {
            let done = done.clone();
            let job = move || {
                assert!(number % 10 != 0, "as intended");
                done.send(number).unwrap();
            };
            workers.submit(job).unwrap();
        }
        drop(done);
        let mut numbers: Vec<i32> = results.iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).filter(|number| number % 10 != 0).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_queue_refuses_jobs() {
        let (workers, held) = (Workers::start(1), std::sync::Arc::new(Barrier::new(2)));
        let (begun, has_begun) = channel();
        let barrier = std::sync::Arc::clone(&held);
        let first = move || {
            begun.send(()).unwrap();
            barrier.wait();
        };
        workers.submit(first).unwrap();
        has_begun.recv().unwrap();
        for _ in 0..QUEUE_MAX {
            workers.submit(|| ()).unwrap();
        }
        assert_eq!(workers.submit(|| ()), Err(Overloaded));
        held.wait();
        assert_eq!(Workers::start(0).submit(|| ()), Err(Overloaded));
    }
}
