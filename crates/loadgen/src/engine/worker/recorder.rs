//! Statistics of one thread: outcomes, latencies, intervals, single requests, and CPU time.

use std::{
    collections::BTreeMap,
    sync::{Arc, mpsc::Sender},
};

use super::{
    super::{
        cpu::{CpuTime, CpuWindow},
        live::LiveStats,
        pace::{Limit, Pacing, first_of},
        tally::Tally,
        timeline::{Slice, Slicer},
        tls::Handshake,
        window::Window,
    },
    pipeline::{Delay, Pending, Stamp},
    thread::Thread,
};
use crate::{
    clock::{self, Nanos},
    error::ErrorClass,
    protocol::{ClientProtocol, Replies, RequestOutcome},
    request_log::{Event, LogBuilder, LogNames, Received, Recorder, RequestLog},
};

/// Statistics of one thread. Everything that a run reports of its requests goes through it.
pub(super) struct StatsRecorder<'a> {
    window: &'a Window,
    live: &'a LiveStats,
    thread: usize,
    /// Number of the thread's first connection among all.
    first_connection: u64,
    is_open_loop: bool,
    /// Requests are counted by when they fall due, not by when their replies arrive.
    counts_by_issue: bool,
    tally: Tally,
    /// Causes that the server named with failures, as the protocol numbers them.
    details: BTreeMap<(ErrorClass, u32), u64>,
    slicer: Option<Slicer>,
    log: Option<Box<Recorder>>,
    cpu: CpuWindow,
}

/// Outcome of the oldest requests of a batch.
#[derive(Clone, Copy)]
pub(super) struct SettledReplies {
    pub(super) replies: Replies,
    pub(super) outcome: RequestOutcome,
    /// Bytes of the replies, and the time of the first one.
    pub(super) received: Received,
    pub(super) at: Nanos,
}

/// Statistics of a thread that has ended.
pub(in super::super) struct ThreadReport<P> {
    pub(in super::super) protocol: P,
    pub(in super::super) tally: Tally,
    /// Kept if [`Load::request_log`](super::super::Load::request_log) asks for it.
    log: Option<Box<Recorder>>,
    first_connection: u64,
    /// CPU time inside the window.
    pub(in super::super) cpu: CpuTime,
    pub(in super::super) was_abandoned: bool,
    /// Number of connections that were opened at least once; `None` where each request has one of its own.
    pub(in super::super) connections_opened: Option<u64>,
}

impl<'a> StatsRecorder<'a> {
    pub(super) fn new(thread: &Thread<'a>, slices: Sender<Box<Slice>>) -> Self {
        let Thread { load, window, live, index, threads, .. } = *thread;
        let slicer = |width| Slicer::new(clock::nanos(width), slices).with_warm_up(load.longest_warm_up());
        let is_open_loop = load.pacing != Pacing::Closed;
        Self {
            window,
            live,
            thread: index,
            first_connection: first_of(load.connections as u64, index, threads),
            is_open_loop,
            counts_by_issue: is_open_loop || matches!(load.limit, Limit::Requests(_)),
            tally: Tally::new(),
            details: BTreeMap::new(),
            slicer: load.timeline.map(slicer),
            log: load.request_log.map(|size| Box::new(Recorder::new(size, load.seed, index))),
            cpu: CpuWindow::default(),
        }
    }

    /// Reads the thread's CPU clock if an edge of the window has passed.
    #[inline]
    pub(super) fn note_edges(&mut self, now: Nanos) {
        self.cpu.note(self.window, now);
    }

    /// Shows the counts so far to the main thread.
    #[inline]
    pub(super) fn publish(&self) {
        self.live.set(self.thread, self.tally.ok, self.tally.failed());
    }

    #[inline]
    pub(super) fn add_received(&mut self, bytes: usize, now: Nanos) {
        if self.window.contains(now) {
            self.tally.bytes_in += bytes as u64;
        }
    }

    #[inline]
    pub(super) fn add_sent(&mut self, bytes: usize, now: Nanos) {
        if self.window.contains(now) {
            self.tally.bytes_out += bytes as u64;
        }
    }

    /// Counts a TLS handshake that has been completed `now`.
    pub(super) fn add_handshake(&mut self, handshake: Handshake, now: Nanos) {
        // Connections that are kept were opened before the window.
        self.tally.add_agreed(handshake.agreed);
        if self.window.contains(now) {
            self.tally.handshake.saturating_record(now.saturating_sub(handshake.began));
            self.tally.resumed += u64::from(handshake.is_resumed);
        }
    }

    /// Counts a connection that is opened again because the server has closed it between two requests.
    pub(super) fn add_reconnect(&mut self, now: Nanos) {
        self.tally.reconnects += u64::from(self.window.contains(now));
    }

    /// Records the outcome of the oldest requests of a batch. `detail` is what the server said with a failure.
    #[inline]
    pub(super) fn settle<P: ClientProtocol>(
        &mut self,
        protocol: &P,
        slot: usize,
        pending: Pending<P::Request>,
        settled: SettledReplies,
        detail: Option<u32>,
    ) {
        let SettledReplies { replies, outcome, at, .. } = settled;
        let is_counted = self.count(pending.stamp, replies, outcome, at);
        if is_counted && self.log.is_some() {
            self.log_replies(protocol, slot, pending, settled);
        }
        if let (true, Err(class)) = (is_counted, outcome) {
            self.add_detail(class, detail, replies.count);
        }
    }

    /// Counts what the server said with failures, if it said anything.
    #[cold]
    fn add_detail(&mut self, class: ErrorClass, detail: Option<u32>, count: u64) {
        if let Some(detail) = detail {
            *self.details.entry((class, detail)).or_default() += count;
        }
    }

    /// Records a request that failed before there was anything to send it on.
    pub(super) fn settle_unsent(
        &mut self,
        slot: Option<usize>,
        stamp: Stamp,
        class: ErrorClass,
        detail: Option<u32>,
        now: Nanos,
    ) {
        if self.count(stamp, Replies::ONE, Err(class), now) {
            self.add_detail(class, detail, 1);
            self.log_unsent(slot, Some(stamp.due), class, now);
        }
    }

    /// Records a failure that belongs to no request.
    pub(super) fn add_failure(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        if self.window.has_started(now) {
            self.tally.fail(class, 1);
            self.slice(Stamp { due: now, sent: now, is_counted: true }, Err(class), 1, now);
            self.log_unsent(Some(slot), None, class, now);
        }
    }

    /// The one place where requests are settled. Returns true if it counts.
    #[inline]
    fn count(&mut self, stamp: Stamp, replies: Replies, outcome: RequestOutcome, now: Nanos) -> bool {
        let Replies { count, hits, misses } = replies;
        let begin = if self.is_open_loop { stamp.due } else { stamp.sent };
        self.live.add(self.thread, outcome, count, now.saturating_sub(begin));
        let is_counted = match outcome {
            _ if self.counts_by_issue => stamp.is_counted,
            Ok(()) => self.window.contains(now),
            Err(_) => self.window.has_started(now),
        };
        match outcome {
            _ if !is_counted => self.slice_warm_up(stamp, outcome, count, now),
            Ok(()) => {
                self.tally.ok += count;
                self.tally.hits += hits;
                self.tally.misses += misses;
                self.tally.service.saturating_record_n(now.saturating_sub(stamp.sent), count);
                if self.is_open_loop {
                    self.tally.response.saturating_record_n(now.saturating_sub(stamp.due), count);
                }
                self.slice(stamp, outcome, count, now);
            }
            Err(class) => {
                self.tally.fail(class, count);
                self.slice(stamp, outcome, count, now);
            }
        }
        is_counted
    }

    /// Returns true if a failure of a request that fell due at `due` counts.
    pub(super) fn counts(&self, due: Nanos, now: Nanos) -> bool {
        self.window.has_started(if self.counts_by_issue { due } else { now })
    }

    /// Adds an outcome to the timeline.
    #[inline]
    fn slice(&mut self, stamp: Stamp, outcome: RequestOutcome, count: u64, now: Nanos) {
        if let Some(slicer) = &mut self.slicer {
            let response = self.is_open_loop.then(|| now.saturating_sub(stamp.due));
            slicer.settle(self.window.elapsed(now), outcome, count, now.saturating_sub(stamp.sent), response);
        }
    }

    /// Adds an outcome that is not counted to the part of the timeline that shows the warm-up.
    fn slice_warm_up(&mut self, stamp: Stamp, outcome: RequestOutcome, count: u64, now: Nanos) {
        if let Some(slicer) = &mut self.slicer
            && !self.window.has_started(now)
        {
            let response = self.is_open_loop.then(|| now.saturating_sub(stamp.due));
            let service = now.saturating_sub(stamp.sent);
            slicer.warm_up(self.window.since_origin(now), outcome, count, service, response);
        }
    }

    /// Records how a request of an open loop was delayed that fell due at `due` and is sent `now`.
    #[inline]
    pub(super) fn add_delay(&mut self, due: Nanos, delay: Delay, now: Nanos) {
        self.add_backlog(due, delay.backlog);
        if self.window.contains(due) {
            self.tally.lag.saturating_record(delay.lag);
            if let Some(slicer) = &mut self.slicer {
                slicer.lag(self.window.elapsed(now), delay.lag);
            }
        } else if let Some(slicer) = &mut self.slicer
            && !self.window.has_started(now)
        {
            slicer.warm_up_lag(self.window.since_origin(now), delay.lag);
        }
    }

    /// Records how many requests waited for a connection when one fell due at `due`.
    #[inline]
    pub(super) fn add_backlog(&mut self, due: Nanos, backlog: u64) {
        if self.window.contains(due) {
            self.tally.backlog.saturating_record(backlog);
        }
    }

    #[inline(never)]
    fn log_replies<P: ClientProtocol>(
        &mut self,
        protocol: &P,
        slot: usize,
        pending: Pending<P::Request>,
        settled: SettledReplies,
    ) {
        let Some(log) = &mut self.log else { return };
        let Pending { request, stamp: Stamp { due, sent, .. } } = pending;
        let SettledReplies { replies: Replies { count, .. }, outcome, received, at } = settled;
        for index in 0..count {
            log.add(Event {
                due: self.is_open_loop.then_some(due),
                sent: Some(sent),
                first_byte: received.first_byte,
                finished: at,
                connection: Some(slot),
                operation: Some(protocol.operation(request, index)),
                outcome,
                // Replies that came together have equal shares, and the first ones what is left over.
                bytes: received.bytes / count + u64::from(index < received.bytes % count),
            });
        }
    }

    /// Logs a failure without a request that has been sent. `due` is that of one that should have been.
    #[cold]
    fn log_unsent(&mut self, slot: Option<usize>, due: Option<Nanos>, class: ErrorClass, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.add(Event {
                due: due.filter(|_| self.is_open_loop),
                sent: None,
                first_byte: None,
                finished: now,
                connection: slot,
                operation: None,
                outcome: Err(class),
                bytes: 0,
            });
        }
    }

    /// Ends the recording.
    pub(super) fn finish<P: ClientProtocol>(
        mut self,
        protocol: P,
        was_abandoned: bool,
        connections_opened: Option<u64>,
    ) -> ThreadReport<P> {
        self.note_edges(Nanos::MAX);
        if let Some(slicer) = &mut self.slicer {
            slicer.flush();
        }
        let Self { mut tally, details, log, first_connection, cpu, .. } = self;
        for ((class, detail), count) in details {
            tally.add_detail(class, protocol.failure_detail(detail), count);
        }
        ThreadReport { protocol, tally, log, first_connection, cpu: cpu.used(), was_abandoned, connections_opened }
    }
}

/// Merges the logs of all threads, which `reports` loses.
pub(in super::super) fn merge_logs<P: ClientProtocol>(
    size: usize,
    opened: Nanos,
    reports: &mut [ThreadReport<P>],
) -> RequestLog {
    let mut builder = LogBuilder::new(size);
    for (thread, report) in reports.iter_mut().enumerate() {
        if let Some(log) = report.log.take() {
            builder.add(thread, log.close());
        }
    }
    builder.read(opened, reports)
}

/// Names of what the threads' logs have as numbers.
impl<P: ClientProtocol> LogNames for [ThreadReport<P>] {
    fn connection(&self, thread: usize, slot: usize) -> u64 {
        self[thread].first_connection + slot as u64
    }

    fn operation(&self, thread: usize, operation: u32) -> Arc<str> {
        self[thread].protocol.operation_name(operation).into()
    }
}
