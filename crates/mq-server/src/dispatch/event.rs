//! One thread, no patience: what can go on gets a portion in turn, what cannot is in the epoll set with the queue.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{AtWork, Crew, Dispatch};
use crate::{
    copy::FileCopy,
    engine::Engine,
    job::{Job, Step},
};

/// Jobs and messages taken at once.
const BATCH: usize = 64;

pub(super) struct Event;

impl Dispatch for Event {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, _: &Crew) -> anyhow::Result<()> {
        let _at_work = AtWork::begin(engine);
        let (mut ready, mut called_up) = (VecDeque::new(), Vec::new());
        loop {
            let patience = if ready.is_empty() { None } else { Some(Duration::ZERO) };
            let woken = engine.next(BATCH, patience, &mut called_up);
            ready.extend(called_up.drain(..));
            if woken.closed {
                engine.leave(ready);
                return Ok(());
            }
            if woken.messages {
                ready.extend(std::iter::from_fn(|| engine.receive()).take(BATCH));
            }
            for _ in 0..ready.len() {
                let portion = ready.pop_front().and_then(|job| portion(engine, job));
                ready.extend(portion);
            }
        }
    }
}

/// Returns the job if it can go on at once.
fn portion<C: FileCopy>(engine: &Engine<C>, mut job: Job<C>) -> Option<Job<C>> {
    match job.advance(engine) {
        Step::Finished => {
            engine.ended();
            None
        }
        Step::Again => Some(job),
        Step::Wait(wait) => engine.set_aside(job, wait),
    }
}
