//! Requests on their way into the log, if there is one.

use super::super::connection::{Begun, Pending};
use super::{Stamp, Worker};
use crate::clock::Nanos;
use crate::error::ErrorClass;
use crate::protocol::{ClientProtocol, Replies, Verdict};
use crate::request_log::Event;

/// What has come of the replies that a verdict is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// When the first of it was read.
    pub(super) first_byte: Option<Nanos>,
    /// Of all these replies together.
    pub(super) bytes: u64,
}

impl Heard {
    /// Replies that are complete with the last `bytes`.
    #[inline]
    pub(super) fn of(begun: Option<Begun>, bytes: usize, now: Nanos) -> Self {
        let begun = begun.unwrap_or(Begun { at: now, bytes: 0 });
        Self { first_byte: Some(begun.at), bytes: begun.bytes + bytes as u64 }
    }

    /// A reply behind whose beginning nothing comes.
    pub(super) fn of_beginning(begun: Option<Begun>) -> Self {
        Self { first_byte: begun.map(|begun| begun.at), bytes: begun.map_or(0, |begun| begun.bytes) }
    }
}

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
