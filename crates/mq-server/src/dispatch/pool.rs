//! Threads that all wait for messages and for clients. The kernel wakes one for each event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Scope},
    time::Duration,
};

use anyhow::Context;

use super::{Dispatch, WorkerGuard, WorkerOptions};
use crate::{copy::FileCopy, engine::Engine, statistics::Count};

/// A pool of constant size.
pub(super) struct Pool;

/// A pool that grows while all threads are busy, and shrinks when some have been idle.
pub(super) struct Elastic;

impl Dispatch for Pool {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        thread::scope(|scope| {
            for number in 0..options.workers {
                let started =
                    thread::Builder::new().name(format!("worker {number}")).spawn_scoped(scope, || work(engine));
                if let Err(error) = started {
                    engine.close();
                    return Err(error).context("cannot start a thread");
                }
            }
            Ok(())
        })
    }
}

/// Serves until the engine has closed.
pub(super) fn work<C: FileCopy>(engine: &Engine<C>) {
    let _guard = WorkerGuard::new(engine);
    let mut jobs = Vec::with_capacity(1);
    loop {
        let wakeup = engine.wait(1, None, &mut jobs);
        if wakeup.is_closed {
            return engine.keep_unfinished(jobs);
        }
        jobs.drain(..).for_each(|job| engine.run(job));
        if wakeup.has_messages
            && let Some(job) = engine.receive()
        {
            engine.run(job);
        }
    }
}

/// Shared state of the threads of an elastic pool.
struct ElasticPool {
    workers: AtomicUsize,
    idle: AtomicUsize,
    workers_min: usize,
    workers_max: usize,
    idle_max: Duration,
}

impl Dispatch for Elastic {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        let pool = ElasticPool {
            workers: AtomicUsize::new(options.workers),
            idle: AtomicUsize::new(0),
            workers_min: options.workers,
            workers_max: options.workers_max.max(options.workers),
            idle_max: options.worker_idle,
        };
        let pool = &pool;
        thread::scope(|scope| {
            for _ in 0..options.workers {
                if let Err(error) = pool.spawn(scope, engine) {
                    engine.close();
                    return Err(error).context("cannot start a thread");
                }
            }
            Ok(())
        })
    }
}

impl ElasticPool {
    fn spawn<'scope, C: FileCopy>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        engine: &'scope Engine<C>,
    ) -> std::io::Result<()> {
        let worker = thread::Builder::new().name("worker".to_owned());
        worker.spawn_scoped(scope, move || self.work(scope, engine)).map(drop)
    }

    fn work<'scope, C: FileCopy>(&'scope self, scope: &'scope Scope<'scope, '_>, engine: &'scope Engine<C>) {
        let _guard = WorkerGuard::new(engine);
        let mut jobs = Vec::with_capacity(1);
        loop {
            self.idle.fetch_add(1, Ordering::AcqRel);
            let wakeup = engine.wait(1, Some(self.idle_max), &mut jobs);
            let was_last_idle = self.idle.fetch_sub(1, Ordering::AcqRel) == 1;
            if wakeup.is_closed {
                return engine.keep_unfinished(jobs);
            }
            if wakeup.is_timeout && self.try_shrink() {
                return;
            }
            jobs.drain(..).for_each(|job| engine.run(job));
            if wakeup.has_messages
                && let Some(job) = engine.receive()
            {
                if was_last_idle {
                    self.try_grow(scope, engine);
                }
                engine.run(job);
            }
        }
    }

    /// Starts a thread in place of the last idle one, which has just got a request.
    fn try_grow<'scope, C: FileCopy>(&'scope self, scope: &'scope Scope<'scope, '_>, engine: &'scope Engine<C>) {
        let one_more = |workers: usize| (workers < self.workers_max).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
            && let Err(error) = self.spawn(scope, engine)
        {
            self.workers.fetch_sub(1, Ordering::AcqRel);
            engine.statistics().count(Count::WorkersRefused, 1);
            tracing::debug!("cannot start a thread: {error}");
        }
    }

    /// Gives up a thread that the pool does not keep; true if the caller is to end.
    fn try_shrink(&self) -> bool {
        let one_less = |workers: usize| (workers > self.workers_min).then(|| workers - 1);
        self.workers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
    }
}
