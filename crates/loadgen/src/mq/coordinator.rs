//! The edges of the measured window, and the readings that belong there: the same for threads and processes.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{MqError, load::MqLoad, recorder::ClientReport};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    engine::{CpuTime, Limit, LiveStats, Measured, Pacing, Tally, Timeline, TurnProgress, WarmUp, Window},
    usage::{ServerProbe, ServerReading},
};

/// Interval at which the main thread checks the interrupt flag and reports progress.
const OBSERVE_INTERVAL: Nanos = 50 * MILLISECOND;
/// Time from telling the clients when to begin until they do: a message to every process takes its time.
const LEAD: Nanos = 2 * MILLISECOND;

/// Times to begin, to start counting and to stop counting, in nanoseconds of the monotonic clock, which all processes
/// share.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Edges {
    pub(super) origin: Nanos,
    pub(super) start: Nanos,
    /// `Nanos::MAX` where a number of requests is the limit.
    pub(super) end: Nanos,
}

impl Edges {
    fn from_now(plan: &MqLoad) -> Self {
        let origin = clock::now() + LEAD;
        let start = origin.saturating_add(clock::nanos(plan.warmup));
        let end = match plan.limit {
            Limit::Duration(duration) => start.saturating_add(clock::nanos(duration)),
            Limit::Requests(_) => Nanos::MAX,
        };
        Self { origin, start, end }
    }

    pub(super) fn apply(self, window: &Window) {
        window.set_origin(self.origin);
        window.open(self.start);
        window.close(self.end);
    }
}

/// Message of a client.
#[derive(Debug)]
pub(super) enum ClientEvent {
    /// It can begin.
    Ready,
    /// It is over.
    Ended(Result<Box<ClientReport>, MqError>),
}

/// Clients that have been started.
pub(super) trait Clients {
    fn events(&self) -> &Receiver<ClientEvent>;

    fn live(&self) -> &LiveStats;

    /// Starts the clients, once all are ready.
    fn start(&mut self, edges: Edges);

    /// Stops the clients. Requests in flight are dropped.
    fn stop(&mut self);

    /// Returns the timeline that the clients share, once all have ended.
    fn timeline(&mut self) -> Option<Timeline>;
}

/// Coordinates a run to its end.
pub(super) fn coordinate(
    plan: &MqLoad,
    clients: &mut impl Clients,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
    mut observe: impl FnMut(&LiveStats),
) -> Result<Measured<()>, MqError> {
    let mut readings =
        RunReadings { plan, server, before: None, after: None, reports: Vec::with_capacity(plan.clients) };
    let mut failure = readings.wait_until_ready(clients).err();
    if plan.warmup.is_zero() {
        readings.read_before();
    }
    if failure.is_some() {
        clients.stop();
    }
    let mut edges = Edges::from_now(plan);
    clients.start(edges);
    let mut turns = plan.turns.as_deref().map(|turns| (turns, TurnProgress::new(clients.live())));
    let mut stopped = None;
    while readings.reports.len() < plan.clients {
        if stopped.is_none() && (failure.is_some() || interrupt.load(Ordering::Relaxed)) {
            clients.stop();
            plan.turns.iter().for_each(|turns| turns.end());
            stopped = Some(clock::now());
        }
        let mut rest = readings.rest(edges, clock::now());
        if let Some((orders, progress)) = &mut turns {
            let running = plan.clients - readings.reports.len();
            let has_more = progress.step(orders, clients.live(), running, Duration::from_nanos(rest)).is_continue();
            if !has_more || clock::now() >= edges.end {
                clients.stop();
                orders.end();
                edges.end = clock::now();
                turns = None;
            } else {
                rest = 0;
            }
        }
        match clients.events().recv_timeout(Duration::from_nanos(rest)) {
            Ok(ClientEvent::Ended(Ok(report))) => readings.reports.push(*report),
            Ok(ClientEvent::Ended(Err(error))) => {
                failure = failure.or(Some(error));
                // It counts as one that has ended.
                readings.reports.push(ClientReport::nothing());
            }
            Ok(ClientEvent::Ready) => {}
            Err(RecvTimeoutError::Timeout) => observe(clients.live()),
            Err(RecvTimeoutError::Disconnected) => return Err(failure.unwrap_or(MqError::Panicked)),
        }
        readings.read_at(edges, clock::now());
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            let mut measured = readings.measured(edges, stopped.filter(|_| interrupt.load(Ordering::Relaxed)));
            if let Some(shared) = clients.timeline() {
                measured.timeline = Some(shared);
            }
            Ok(measured)
        }
    }
}

struct RunReadings<'a> {
    plan: &'a MqLoad,
    server: Option<&'a ServerProbe>,
    before: Option<ServerReading>,
    after: Option<ServerReading>,
    reports: Vec<ClientReport>,
}

impl RunReadings<'_> {
    /// Waits until every client is ready, or has failed to be.
    fn wait_until_ready(&mut self, clients: &impl Clients) -> Result<(), MqError> {
        let mut failure = None;
        for _ in 0..self.plan.clients {
            match clients.events().recv() {
                Ok(ClientEvent::Ready) => {}
                Ok(ClientEvent::Ended(outcome)) => {
                    let lost = || MqError::Lost("it was not ready".to_owned());
                    failure = failure.or_else(|| Some(outcome.err().unwrap_or_else(lost)));
                    self.reports.push(ClientReport::nothing());
                }
                Err(_) => return Err(MqError::Panicked),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns the time until the next thing to do.
    fn rest(&self, edges: Edges, now: Nanos) -> Nanos {
        let edge = if self.before.is_none() && self.server.is_some() { edges.start } else { edges.end };
        let until = if edge > now { edge - now } else { OBSERVE_INTERVAL };
        until.min(OBSERVE_INTERVAL)
    }

    fn read_before(&mut self) {
        self.before = self.server.and_then(|server| server.read_before().ok());
    }

    /// Reads what the server has used, when an edge has passed.
    fn read_at(&mut self, edges: Edges, now: Nanos) {
        if self.before.is_none() && now >= edges.start {
            self.read_before();
        }
        let is_over = match (self.plan.limit, self.plan.pacing) {
            (Limit::Duration(_), Pacing::Closed) => now >= edges.end,
            _ => false,
        };
        if self.after.is_none() && (is_over || self.reports.len() == self.plan.clients) {
            self.after = self.server.and_then(|server| server.read_after().ok());
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a number of clients")]
    fn measured(mut self, edges: Edges, interrupted: Option<Nanos>) -> Measured<()> {
        let last = self.reports.iter().map(|report| report.last).max().unwrap_or_default();
        let end = match (self.plan.limit, self.plan.pacing) {
            _ if interrupted.is_some() => interrupted.unwrap_or_default().min(edges.end),
            (Limit::Duration(_), Pacing::Closed) => edges.end,
            _ => last,
        };
        let cores = self.plan.cpus().map_or_else(sys::affinity::available, |cpus| cpus.iter().len());
        let threads = self.plan.clients.min(cores).max(1);
        let mut measured = Measured {
            warm_up: WarmUp { duration: clock::nanos(self.plan.warmup), is_steady: None },
            opened: edges.start,
            window: Duration::from_nanos(end.saturating_sub(edges.start)),
            tally: Tally::new(),
            timeline: None,
            request_log: None,
            client_cpu: Duration::ZERO,
            client_system_cpu: Duration::ZERO,
            busiest_thread_cpu: Duration::ZERO,
            threads,
            concurrency: self.plan.clients,
            connections_opened: None,
            server: self.before.zip(self.after),
            was_interrupted: interrupted.is_some(),
            was_abandoned: false,
            protocols: Vec::new(),
            bodies: Vec::new(),
        };
        for report in &mut self.reports {
            match (&mut measured.timeline, report.timeline.take()) {
                (Some(whole), Some(part)) => whole.merge(part),
                (None, part) => measured.timeline = part,
                (Some(_), None) => {}
            }
            measured.tally.merge(&report.tally);
            measured.client_cpu += Duration::from_nanos(report.cpu.total);
            measured.client_system_cpu += Duration::from_nanos(report.cpu.system);
            measured.was_abandoned |= report.was_abandoned;
        }
        // Clients share cores: what counts is how busy these are, not any one client.
        measured.busiest_thread_cpu = measured.client_cpu / threads as u32;
        measured
    }
}

impl ClientReport {
    fn nothing() -> Self {
        Self { tally: Tally::new(), cpu: CpuTime::default(), last: 0, was_abandoned: false, timeline: None, kept: None }
    }
}
