//! The ways to choose the thread that serves a request.
//!
//! None of them decides anything about a request: `Engine::run` does what can be done, and a job that waits for its client
//! waits in the engine's wait set, so that no client can hold a thread.

mod event;
mod handoff;
mod handoff_queue;
mod per_request;
mod pool;
mod sequential;
mod tokio;

use std::{fmt, sync::Arc, thread, time::Duration};

use clap::ValueEnum;
use service::choice_name;

use crate::{
    copy::FileCopy,
    engine::Engine,
    statistics::{Count, Statistics},
};

/// A way to dispatch.
pub trait Dispatch {
    /// Serves until the engine has closed; then all its threads have ended.
    ///
    /// # Errors
    /// A thread or the runtime cannot be started.
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()>;
}

/// Numbers of threads.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Threads of a pool or a runtime; threads that an elastic pool keeps.
    pub workers: usize,
    /// Most threads of an elastic pool, or with one thread for each request.
    pub workers_max: usize,
    /// Time after which an elastic pool ends a thread that has nothing to do.
    pub worker_idle: Duration,
}

/// A way to dispatch, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum)]
pub enum DispatchKind {
    /// one thread, one job after the other as long as readers keep up
    Sequential,
    /// a new thread for each request, up to --max-workers
    ThreadPerRequest,
    /// one thread receives and hands jobs to --workers threads through a queue in memory
    Handoff,
    /// --workers threads receive from the message queue themselves
    #[default]
    Pool,
    /// a pool that grows to --max-workers while all are busy, and shrinks when some are idle
    Elastic,
    /// one thread, a portion of every job in turn
    Event,
    /// a task for each request on a tokio runtime of --workers threads
    Tokio,
}

impl DispatchKind {
    /// Serves by the [`Dispatch`] of this name.
    ///
    /// # Errors
    /// A thread or the runtime cannot be started.
    pub fn serve<C: FileCopy>(self, engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        match self {
            Self::Sequential => sequential::Sequential::serve(engine, options),
            Self::ThreadPerRequest => per_request::ThreadPerRequest::serve(engine, options),
            Self::Handoff => handoff::Handoff::serve(engine, options),
            Self::Pool => pool::Pool::serve(engine, options),
            Self::Elastic => pool::Elastic::serve(engine, options),
            Self::Event => event::Event::serve(engine, options),
            Self::Tokio => tokio::Tokio::serve(engine, options),
        }
    }
}

impl fmt::Display for DispatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&choice_name(self))
    }
}

/// Guard of a thread that serves requests. If the thread panics, the server stops.
struct WorkerGuard<'a, C: FileCopy>(&'a Engine<C>);

impl<'a, C: FileCopy> WorkerGuard<'a, C> {
    fn new(engine: &'a Engine<C>) -> Self {
        let statistics: &Statistics = engine.statistics();
        statistics.workers.add(1);
        statistics.count(Count::WorkersStarted, 1);
        Self(engine)
    }
}

impl<C: FileCopy> Drop for WorkerGuard<'_, C> {
    fn drop(&mut self) {
        self.0.statistics().workers.add(-1);
        if thread::panicking() {
            self.0.close();
        }
    }
}
