//! One thread receives, others serve, with a queue in memory between them. The original's pool 1 lost what
//! arrived while all workers were busy (`docs/originals.md`); [`super::handoff_queue`] says why this one does not.

use std::{sync::Arc, thread};

use anyhow::Context;

use super::{Dispatch, WorkerGuard, WorkerOptions, handoff_queue::HandoffQueue};
use crate::{copy::FileCopy, engine::Engine};

/// Most jobs between the threads. Further ones wait in the message queue, where a crash does not take them.
const JOBS_MAX: usize = 64;

pub(super) struct Handoff;

impl Dispatch for Handoff {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        let queue = HandoffQueue::new(JOBS_MAX);
        let queue = &queue;
        thread::scope(|scope| {
            for number in 0..options.workers {
                let worker = thread::Builder::new().name(format!("worker {number}"));
                let started = worker.spawn_scoped(scope, || {
                    let _guard = WorkerGuard::new(engine);
                    while let Some(job) = queue.pop() {
                        engine.run(job);
                    }
                });
                if let Err(error) = started {
                    queue.close();
                    engine.close();
                    return Err(error).context("cannot start a thread");
                }
            }
            receive(engine, queue);
            queue.close();
            // Inside the scope: what follows it is not run if a thread has panicked.
            engine.keep_unfinished(queue.take_all());
            Ok(())
        })
    }
}

fn receive<C: FileCopy>(engine: &Engine<C>, queue: &HandoffQueue<crate::job::Job<C>>) {
    let _guard = WorkerGuard::new(engine);
    let mut jobs = Vec::new();
    loop {
        let wakeup = engine.wait(JOBS_MAX, None, &mut jobs);
        if wakeup.is_closed {
            return engine.keep_unfinished(jobs);
        }
        let message = if wakeup.has_messages { engine.receive() } else { None };
        for job in jobs.drain(..).chain(message) {
            if let Err(refused) = queue.push(job) {
                engine.keep_unfinished([refused]);
            }
        }
    }
}
