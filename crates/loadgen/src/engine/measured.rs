//! Result of a run.

use std::time::Duration;

use super::{steady::WarmUp, tally::Tally, timeline::Timeline};
use crate::{clock::Nanos, request_log::RequestLog, result::BodySeen, usage::ServerReading};

/// Result of a run.
#[derive(Debug, Default)]
pub struct Measured<P> {
    pub warm_up: WarmUp,
    /// Opening of the window.
    pub opened: Nanos,
    pub window: Duration,
    pub tally: Tally,
    /// Kept if [`Load::timeline`](super::Load::timeline) asks for it.
    pub timeline: Option<Timeline>,
    /// Kept if [`Load::request_log`](super::Load::request_log) asks for it.
    pub request_log: Option<RequestLog>,
    pub client_cpu: Duration,
    /// Part of [`Self::client_cpu`] that was spent in the kernel.
    pub client_system_cpu: Duration,
    /// CPU time of the busiest thread in the window.
    pub busiest_thread_cpu: Duration,
    pub threads: usize,
    /// Number of requests that may be under way at once.
    pub concurrency: usize,
    /// Number of connections that were opened at least once; `None` where each request has one of its own.
    pub connections_opened: Option<u64>,
    /// Usage of the server at both edges of the window, if it could be read.
    pub server: Option<(ServerReading, ServerReading)>,
    pub was_interrupted: bool,
    /// The engine gave up before the limit, because the server had not answered for long.
    pub was_abandoned: bool,
    /// The protocols as the threads left them.
    pub protocols: Vec<P>,
    /// Bodies that the protocols compared others with, if the command looked at them.
    pub bodies: Vec<BodySeen>,
}

impl<P> Measured<P> {
    /// Adds another run's counts and times, but not what the server used.
    pub fn absorb(&mut self, other: &Self) {
        self.warm_up.absorb(other.warm_up);
        self.window += other.window;
        self.tally.merge(&other.tally);
        // Each part had all of them to open.
        self.connections_opened =
            self.connections_opened.zip(other.connections_opened).map(|(one, other)| one.min(other));
        (self.timeline, self.request_log) = (None, None);
        self.client_cpu += other.client_cpu;
        self.client_system_cpu += other.client_system_cpu;
        self.busiest_thread_cpu += other.busiest_thread_cpu;
        self.server = None;
        self.was_interrupted |= other.was_interrupted;
        self.was_abandoned |= other.was_abandoned;
    }
}
