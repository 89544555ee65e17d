//! A thread for each request, as the first design had it. One whose client is not ready ends its thread, too: it gets
//! another when there is something to do.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use super::{AtWork, Crew, Dispatch};
use crate::{copy::FileCopy, engine::Engine, job::Job, statistics::Count};

/// Jobs and messages that the receiving thread takes at once.
const BATCH: usize = 16;

pub(super) struct ThreadPerRequest;

impl Dispatch for ThreadPerRequest {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
        let permits = Permits::new(crew.workers_max);
        let mut jobs = Vec::new();
        thread::scope(|scope| {
            let start = |job: Job<C>| {
                let permit = permits.take();
                // A thread that cannot be started must not take the job with it.
                let errand = Arc::new(Mutex::new(Some(job)));
                let carried = Arc::clone(&errand);
                let run = move || {
                    let _at_work = AtWork::begin(engine);
                    let _permit = permit;
                    run_errand(engine, &carried);
                };
                if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                    engine.statistics().count(Count::WorkersRefused, 1);
                    run_errand(engine, &errand);
                }
            };
            let at_work = AtWork::begin(engine);
            loop {
                let woken = engine.next(BATCH, None, &mut jobs);
                if woken.closed {
                    // In here: what follows is not run if a thread has panicked.
                    engine.leave(jobs.drain(..));
                    break;
                }
                jobs.drain(..).for_each(start);
                if woken.messages {
                    std::iter::from_fn(|| engine.receive()).take(BATCH).for_each(start);
                }
            }
            drop(at_work);
        });
        Ok(())
    }
}

fn run_errand<C: FileCopy>(engine: &Engine<C>, errand: &Mutex<Option<Job<C>>>) {
    let job = errand.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        engine.turn(job);
    }
}

/// So many may run at once.
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
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.returned.wait_while(left, |left| *left == 0);
        *left.unwrap_or_else(PoisonError::into_inner) -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.returned.notify_one();
    }
}
