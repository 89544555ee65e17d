//! One thread that waits for no client: jobs that can go on get a portion in turn, the others are in the wait set.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{Dispatch, WorkerGuard, WorkerOptions};
use crate::{
    copy::FileCopy,
    engine::Engine,
    job::{Job, Step},
};

/// Most jobs, and most messages, taken at once.
const BATCH: usize = 64;

pub(super) struct Event;

impl Dispatch for Event {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, _: &WorkerOptions) -> anyhow::Result<()> {
        let _guard = WorkerGuard::new(engine);
        let (mut ready, mut woken) = (VecDeque::new(), Vec::new());
        loop {
            let timeout = if ready.is_empty() { None } else { Some(Duration::ZERO) };
            let wakeup = engine.wait(BATCH, timeout, &mut woken);
            ready.extend(woken.drain(..));
            if wakeup.is_closed {
                engine.keep_unfinished(ready);
                return Ok(());
            }
            if wakeup.has_messages {
                ready.extend(std::iter::from_fn(|| engine.receive()).take(BATCH));
            }
            for _ in 0..ready.len() {
                let again = ready.pop_front().and_then(|job| run_step(engine, job));
                ready.extend(again);
            }
        }
    }
}

/// Runs one portion of a job; returns the job if it can go on at once.
fn run_step<C: FileCopy>(engine: &Engine<C>, mut job: Job<C>) -> Option<Job<C>> {
    match job.advance(engine.context()) {
        Step::Finished => {
            engine.job_ended();
            None
        }
        Step::Again => Some(job),
        Step::Wait(wait) => engine.set_aside(job, wait),
    }
}
