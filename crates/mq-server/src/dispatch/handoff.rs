//! One thread receives, others serve, with a queue in memory between them. The first design's pool 1 lost what arrived
//! while all workers were busy; see [`super::handoff_queue`] for why this one does not.

use std::{sync::Arc, thread};

use anyhow::Context;

use super::{AtWork, Crew, Dispatch, handoff_queue::HandoffQueue};
use crate::{copy::FileCopy, engine::Engine};

/// Jobs between the threads. Those beyond wait in the message queue, where a crash does not take them.
const JOBS_MAX: usize = 64;

pub(super) struct Handoff;

impl Dispatch for Handoff {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
        let queue = HandoffQueue::new(JOBS_MAX);
        let queue = &queue;
        thread::scope(|scope| {
            for number in 0..crew.workers {
                let worker = thread::Builder::new().name(format!("worker {number}"));
                let started = worker.spawn_scoped(scope, || {
                    let _at_work = AtWork::begin(engine);
                    while let Some(job) = queue.pop() {
                        engine.turn(job);
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
            // In here: what follows is not run if a thread has panicked.
            engine.leave(queue.take_all());
            Ok(())
        })
    }
}

fn receive<C: FileCopy>(engine: &Engine<C>, queue: &HandoffQueue<crate::job::Job<C>>) {
    let _at_work = AtWork::begin(engine);
    let mut jobs = Vec::new();
    loop {
        let woken = engine.next(JOBS_MAX, None, &mut jobs);
        if woken.closed {
            return engine.leave(jobs);
        }
        let message = if woken.messages { engine.receive() } else { None };
        for job in jobs.drain(..).chain(message) {
            if let Err(refused) = queue.push(job) {
                engine.leave([refused]);
            }
        }
    }
}
