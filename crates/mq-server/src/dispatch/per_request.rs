//! A thread for each request, as the original had it (`docs/originals.md`). A job whose client is not ready ends its
//! thread, too: it gets another when it can go on.

use std::{sync::Arc, thread};

use parking_lot::{Condvar, Mutex};

use super::{Dispatch, WorkerGuard, WorkerOptions};
use crate::{copy::FileCopy, engine::Engine, job::Job, statistics::Count};

/// Most jobs, and most messages, that the receiving thread takes at once.
const BATCH: usize = 16;

pub(super) struct ThreadPerRequest;

impl Dispatch for ThreadPerRequest {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        let permits = Permits::new(options.workers_max);
        let mut jobs = Vec::new();
        thread::scope(|scope| {
            let start = |job: Job<C>| {
                let permit = permits.take();
                // The job is shared so that it survives a thread that cannot be started.
                let shared = Arc::new(Mutex::new(Some(job)));
                let for_thread = Arc::clone(&shared);
                let run = move || {
                    let _guard = WorkerGuard::new(engine);
                    let _permit = permit;
                    run_shared(engine, &for_thread);
                };
                if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                    engine.statistics().count(Count::WorkersRefused, 1);
                    run_shared(engine, &shared);
                }
            };
            let guard = WorkerGuard::new(engine);
            loop {
                let wakeup = engine.wait(BATCH, None, &mut jobs);
                if wakeup.is_closed {
                    // Inside the scope: what follows it is not run if a thread has panicked.
                    engine.keep_unfinished(jobs.drain(..));
                    break;
                }
                jobs.drain(..).for_each(start);
                if wakeup.has_messages {
                    std::iter::from_fn(|| engine.receive()).take(BATCH).for_each(start);
                }
            }
            drop(guard);
        });
        Ok(())
    }
}

fn run_shared<C: FileCopy>(engine: &Engine<C>, shared: &Mutex<Option<Job<C>>>) {
    let job = shared.lock().take();
    if let Some(job) = job {
        engine.run(job);
    }
}

/// Counter of the threads that may still start.
struct Permits {
    left: Mutex<usize>,
    returned: Condvar,
}

struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(count: usize) -> Self {
        Self { left: Mutex::new(count), returned: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        let mut left = self.left.lock();
        self.returned.wait_while(&mut left, |left| *left == 0);
        *left -= 1;
        drop(left);
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock() += 1;
        self.0.returned.notify_one();
    }
}
