//! Threads that all wait for messages and clients alike. The kernel wakes one for each.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, Scope},
    time::Duration,
};

use anyhow::Context;

use super::{AtWork, Crew, Dispatch};
use crate::{copy::FileCopy, engine::Engine, statistics::Count};

/// As many threads at the end as at the start.
pub(super) struct Pool;

/// More when all are busy, fewer when some have been idle.
pub(super) struct Elastic;

impl Dispatch for Pool {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
        thread::scope(|scope| {
            for number in 0..crew.workers {
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

/// Serves whatever comes until the engine has closed.
pub(super) fn work<C: FileCopy>(engine: &Engine<C>) {
    let _at_work = AtWork::begin(engine);
    let mut jobs = Vec::with_capacity(1);
    loop {
        let woken = engine.next(1, None, &mut jobs);
        if woken.closed {
            return engine.leave(jobs);
        }
        jobs.drain(..).for_each(|job| engine.turn(job));
        if woken.messages
            && let Some(job) = engine.receive()
        {
            engine.turn(job);
        }
    }
}

/// What the workers of an elastic pool know of each other.
struct Roster {
    workers: AtomicUsize,
    idle: AtomicUsize,
    workers_min: usize,
    workers_max: usize,
    idle_max: Duration,
}

impl Dispatch for Elastic {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
        let roster = Roster {
            workers: AtomicUsize::new(crew.workers),
            idle: AtomicUsize::new(0),
            workers_min: crew.workers,
            workers_max: crew.workers_max.max(crew.workers),
            idle_max: crew.worker_idle,
        };
        let roster = &roster;
        thread::scope(|scope| {
            for _ in 0..crew.workers {
                if let Err(error) = roster.spawn(scope, engine) {
                    engine.close();
                    return Err(error).context("cannot start a thread");
                }
            }
            Ok(())
        })
    }
}

impl Roster {
    fn spawn<'scope, C: FileCopy>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        engine: &'scope Engine<C>,
    ) -> std::io::Result<()> {
        let worker = thread::Builder::new().name("worker".to_owned());
        worker.spawn_scoped(scope, move || self.work(scope, engine)).map(drop)
    }

    fn work<'scope, C: FileCopy>(&'scope self, scope: &'scope Scope<'scope, '_>, engine: &'scope Engine<C>) {
        let _at_work = AtWork::begin(engine);
        let mut jobs = Vec::with_capacity(1);
        loop {
            self.idle.fetch_add(1, Ordering::AcqRel);
            let woken = engine.next(1, Some(self.idle_max), &mut jobs);
            let was_last_idle = self.idle.fetch_sub(1, Ordering::AcqRel) == 1;
            if woken.closed {
                return engine.leave(jobs);
            }
            if woken.idle && self.may_leave() {
                return;
            }
            jobs.drain(..).for_each(|job| engine.turn(job));
            if woken.messages
                && let Some(job) = engine.receive()
            {
                if was_last_idle {
                    self.grow(scope, engine);
                }
                engine.turn(job);
            }
        }
    }

    /// Whoever takes the last idle worker's place to a request sees to it that another one waits for the next.
    fn grow<'scope, C: FileCopy>(&'scope self, scope: &'scope Scope<'scope, '_>, engine: &'scope Engine<C>) {
        let one_more = |workers: usize| (workers < self.workers_max).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
            && let Err(error) = self.spawn(scope, engine)
        {
            self.workers.fetch_sub(1, Ordering::AcqRel);
            engine.statistics().count(Count::WorkersRefused, 1);
            tracing::debug!("cannot start a thread: {error}");
        }
    }

    fn may_leave(&self) -> bool {
        let one_less = |workers: usize| (workers > self.workers_min).then(|| workers - 1);
        self.workers.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
    }
}
