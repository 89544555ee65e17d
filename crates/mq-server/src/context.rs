//! The part of the server that a job may use: no queue, no threads and no other job.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use service::Budget;

use crate::{clock::Clock, directories::Directories, statistics::Statistics};

/// Shortest time between two log lines about missing descriptors.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Limits of the clients, and the form of their answers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time from a message to the end of its answer.
    pub request_timeout: Duration,
    /// Longest time for which a reader may do nothing.
    pub stall_timeout: Duration,
    /// Longest time from [`crate::Engine::begin_drain`] to the end.
    pub drain_timeout: Duration,
    /// Most jobs that wait for their clients.
    pub waiting_max: usize,
    /// True if a header stands in front of the bytes.
    pub is_framed: bool,
    /// Capacity that a FIFO is enlarged to, for files that need it.
    pub pipe_bytes: u64,
}

/// Everything that a [`crate::job::Job`] needs to go on.
pub(crate) struct JobContext<C> {
    pub(crate) copy: C,
    pub(crate) options: Options,
    pub(crate) directories: Directories,
    pub(crate) clock: Clock,
    pub(crate) statistics: Statistics,
    pub(crate) pipe_budget: Budget,
    warned_at: Mutex<Option<Instant>>,
}

impl<C> JobContext<C> {
    pub(crate) fn new(copy: C, options: Options, directories: Directories, pipe_budget: Budget) -> Self {
        Self {
            copy,
            options,
            directories,
            clock: Clock::new(),
            statistics: Statistics::default(),
            pipe_budget,
            warned_at: Mutex::new(None),
        }
    }

    /// Returns the time by which clients are judged.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Logs, now and then, that a job waits for a descriptor.
    pub(crate) fn warn_of_descriptor_shortage(&self) {
        let mut warned_at = self.warned_at.lock();
        if warned_at.is_none_or(|at| at.elapsed() > WARN_INTERVAL) {
            *warned_at = Some(Instant::now());
            tracing::warn!("out of file descriptors: requests wait until there are some (see ulimit -n)");
        }
    }
}
