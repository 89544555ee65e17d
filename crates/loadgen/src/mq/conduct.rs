//! The edges of the measured window, and the readings that belong there: the same for threads and processes.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{MqError, account::Report, plan::MqLoad};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    engine::{CpuTime, Limit, LiveStats, Measured, Pacing, Tally, Timeline, WarmUp, Window},
    usage::{ServerProbe, ServerReading},
};

/// How often the main thread looks at the interrupt flag and reports progress.
const OBSERVE_EVERY: Nanos = 50 * MILLISECOND;
/// From telling the clients when to begin until they do: a message to every process takes its time.
const LEAD: Nanos = 2 * MILLISECOND;

/// When to begin, to count and to stop counting, nanoseconds of the monotonic clock, which all processes share.
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

    pub(super) fn tell(self, window: &Window) {
        window.set_origin(self.origin);
        window.open(self.start);
        window.close(self.end);
    }
}

/// What a client has to say.
#[derive(Debug)]
pub(super) enum News {
    /// It can begin.
    Ready,
    /// It is over.
    Ended(Result<Box<Report>, MqError>),
}

/// Clients that have been started.
pub(super) trait Crew {
    fn news(&self) -> &Receiver<News>;

    fn live(&self) -> &LiveStats;

    /// Once all are ready.
    fn go(&mut self, edges: Edges);

    /// What is under way is dropped.
    fn stop(&mut self);

    /// What clients that share a timeline have counted, once all have ended.
    fn timeline(&mut self) -> Option<Timeline>;
}

/// Conducts a run to its end.
pub(super) fn conduct(
    plan: &MqLoad,
    crew: &mut impl Crew,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
    mut observe: impl FnMut(&LiveStats),
) -> Result<Measured<()>, MqError> {
    let mut course = Course { plan, server, before: None, after: None, reports: Vec::with_capacity(plan.clients) };
    let mut failure = course.assemble(crew).err();
    if plan.warmup.is_zero() {
        course.read_before();
    }
    if failure.is_some() {
        crew.stop();
    }
    let edges = Edges::from_now(plan);
    crew.go(edges);
    let mut stopped = None;
    while course.reports.len() < plan.clients {
        if stopped.is_none() && (failure.is_some() || interrupt.load(Ordering::Relaxed)) {
            crew.stop();
            stopped = Some(clock::now());
        }
        let rest = course.rest(edges, clock::now());
        match crew.news().recv_timeout(Duration::from_nanos(rest)) {
            Ok(News::Ended(Ok(report))) => course.reports.push(*report),
            Ok(News::Ended(Err(error))) => {
                failure = failure.or(Some(error));
                // It counts as one that has ended.
                course.reports.push(Report::nothing());
            }
            Ok(News::Ready) => {}
            Err(RecvTimeoutError::Timeout) => observe(crew.live()),
            Err(RecvTimeoutError::Disconnected) => return Err(failure.unwrap_or(MqError::Panicked)),
        }
        course.read_at(edges, clock::now());
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            let mut measured = course.measured(edges, stopped.filter(|_| interrupt.load(Ordering::Relaxed)));
            if let Some(shared) = crew.timeline() {
                measured.timeline = Some(shared);
            }
            Ok(measured)
        }
    }
}

struct Course<'a> {
    plan: &'a MqLoad,
    server: Option<&'a ServerProbe>,
    before: Option<ServerReading>,
    after: Option<ServerReading>,
    reports: Vec<Report>,
}

impl Course<'_> {
    /// Waits until every client is ready, or has failed to be.
    fn assemble(&mut self, crew: &impl Crew) -> Result<(), MqError> {
        let mut failure = None;
        for _ in 0..self.plan.clients {
            match crew.news().recv() {
                Ok(News::Ready) => {}
                Ok(News::Ended(outcome)) => {
                    let lost = || MqError::Lost("it was not ready".to_owned());
                    failure = failure.or_else(|| Some(outcome.err().unwrap_or_else(lost)));
                    self.reports.push(Report::nothing());
                }
                Err(_) => return Err(MqError::Panicked),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Until the next thing to do.
    fn rest(&self, edges: Edges, now: Nanos) -> Nanos {
        let edge = if self.before.is_none() && self.server.is_some() { edges.start } else { edges.end };
        let until = if edge > now { edge - now } else { OBSERVE_EVERY };
        until.min(OBSERVE_EVERY)
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
            lanes: self.plan.clients,
            server: self.before.zip(self.after),
            was_interrupted: interrupted.is_some(),
            was_abandoned: false,
            protocols: Vec::new(),
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

impl Report {
    fn nothing() -> Self {
        Self { tally: Tally::new(), cpu: CpuTime::default(), last: 0, was_abandoned: false, timeline: None, kept: None }
    }
}
