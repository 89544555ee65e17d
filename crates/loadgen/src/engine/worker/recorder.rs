//! Requests on their way into the log, if there is one.

use std::sync::Arc;

use super::{
    Worker, WorkerReport,
    connection::{Pending, Stamp},
};
use crate::{
    clock::Nanos,
    error::ErrorClass,
    protocol::{ClientProtocol, Replies, Verdict},
    request_log::{Event, Gathered, Heard, Reader, RequestLog},
};

impl<P: ClientProtocol> Worker<'_, P> {
    /// A verdict on the oldest requests of a batch, of which `heard` has come.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        slot: usize,
        pending: Pending<P::Request>,
        replies: Replies,
        verdict: Verdict,
        heard: Heard,
        now: Nanos,
    ) {
        let is_counted = self.settle(pending.stamp, replies, verdict, now);
        if is_counted && self.recorder.is_some() {
            self.record(slot, pending, replies.count, verdict, heard, now);
        }
    }

    #[inline(never)]
    fn record(
        &mut self,
        slot: usize,
        pending: Pending<P::Request>,
        count: u64,
        verdict: Verdict,
        heard: Heard,
        now: Nanos,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let Pending { request, stamp: Stamp { due, sent, .. } } = pending;
        for index in 0..count {
            recorder.add(Event {
                due: self.schedule.as_ref().map(|_| due),
                sent: Some(sent),
                first_byte: heard.first_byte,
                finished: now,
                connection: Some(slot),
                operation: Some(self.protocol.operation(request, index)),
                verdict,
                // Replies that came together have equal shares, and the first ones what is left over.
                bytes: heard.bytes / count + u64::from(index < heard.bytes % count),
            });
        }
    }

    /// A failure without a request that has been sent. `due` is of one that should have been.
    #[cold]
    pub(super) fn record_unsent(&mut self, slot: Option<usize>, due: Option<Nanos>, class: ErrorClass, now: Nanos) {
        if let Some(recorder) = &mut self.recorder {
            recorder.add(Event {
                due: due.filter(|_| self.schedule.is_some()),
                sent: None,
                first_byte: None,
                finished: now,
                connection: slot,
                operation: None,
                verdict: Err(class),
                bytes: 0,
            });
        }
    }
}

/// The log of all threads, whose recorders `reports` loses.
pub(in super::super) fn merge_logs<P: ClientProtocol>(
    size: usize,
    opened: Nanos,
    reports: &mut [WorkerReport<P>],
) -> RequestLog {
    let mut gathered = Gathered::new(size);
    for (thread, report) in reports.iter_mut().enumerate() {
        if let Some(recorder) = report.recorder.take() {
            gathered.add(thread, recorder.close());
        }
    }
    gathered.read(opened, reports)
}

/// The recorders are the threads'.
impl<P: ClientProtocol> Reader for [WorkerReport<P>] {
    fn connection(&self, thread: usize, slot: usize) -> u64 {
        self[thread].first_connection + slot as u64
    }

    fn operation(&self, thread: usize, operation: u32) -> Arc<str> {
        self[thread].protocol.operation_name(operation).into()
    }
}
