//! Which thread serves which request.
//!
//! No way to dispatch decides anything about a request: `Engine::turn` does what can be done, and a job that waits for
//! its client waits in the engine's room, so that no client can hold a thread.

mod event;
mod handoff;
mod handoff_queue;
mod per_request;
mod pool;
mod sequential;
mod tokio;

use std::{sync::Arc, thread, time::Duration};

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
    /// Threads or a runtime cannot be had at the start.
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()>;
}

/// How many threads there may be.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Those of a pool; those that an elastic one keeps; those of a runtime.
    pub workers: usize,
    /// Those of an elastic pool, or one for each request, at most.
    pub workers_max: usize,
    /// A worker that an elastic pool can do without ends after this.
    pub worker_idle: Duration,
}

/// One table: the choice, its name and description, and the type that does it.
macro_rules! dispatches {
    ($default:ident; $($(#[doc = $about:literal])+ $kind:ident = $name:literal => $dispatch:ty,)+) => {
        service::choices! {
            /// How requests get to threads.
            #[derive(Hash)]
            pub enum DispatchKind: "dispatch", "--dispatch", default $default {
                $($(#[doc = $about])+ $kind = $name,)+
            }
        }

        impl DispatchKind {
            /// See [`Dispatch::serve`].
            ///
            /// # Errors
            /// Threads or a runtime cannot be had at the start.
            pub fn serve<C: FileCopy>(self, engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
                match self { $(Self::$kind => <$dispatch>::serve(engine, crew),)+ }
            }
        }
    };
}

dispatches! {
    Pool;
    /// one thread, one job after the other as long as readers keep up
    Sequential = "sequential" => sequential::Sequential,
    /// a new thread for each request, up to --max-workers
    ThreadPerRequest = "thread-per-request" => per_request::ThreadPerRequest,
    /// one thread receives and hands jobs to --workers threads through a queue in memory
    Handoff = "handoff" => handoff::Handoff,
    /// --workers threads receive from the message queue themselves
    Pool = "pool" => pool::Pool,
    /// a pool that grows to --max-workers while all are busy, and shrinks when some are idle
    Elastic = "elastic" => pool::Elastic,
    /// one thread, a portion of every job in turn
    Event = "event" => event::Event,
    /// a task for each request on a tokio runtime of --workers threads
    Tokio = "tokio" => tokio::Tokio,
}

/// A thread that serves requests, for as long as this lives. If it panics, the server stops.
struct AtWork<'a, C: FileCopy>(&'a Engine<C>);

impl<'a, C: FileCopy> AtWork<'a, C> {
    fn begin(engine: &'a Engine<C>) -> Self {
        let statistics: &Statistics = engine.statistics();
        statistics.workers.add(1);
        statistics.count(Count::WorkersStarted, 1);
        Self(engine)
    }
}

impl<C: FileCopy> Drop for AtWork<'_, C> {
    fn drop(&mut self) {
        self.0.statistics().workers.add(-1);
        if thread::panicking() {
            self.0.close();
        }
    }
}
