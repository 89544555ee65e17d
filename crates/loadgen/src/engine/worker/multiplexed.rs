//! Connections on which replies come in any order, and one request can fail without the others.

use std::ops::ControlFlow;

use super::{Worker, dialer::Redial, exchange::SocketGone, pipeline::Pending, recorder::SettledReplies};
use crate::{
    clock::Nanos,
    error::ErrorClass,
    protocol::{Answer, Batch as _, ClientProtocol, EofOutcome, Fate, Replies},
    request_log::Received,
};

impl<P: ClientProtocol> Worker<'_, P> {
    /// Gives each reply in the input its outcome.
    pub(super) fn on_multiplexed_input(&mut self, slot: usize, input: &[u8], now: Nanos) -> ControlFlow<SocketGone> {
        let mut answers = std::mem::take(&mut self.answers);
        let decoded = self.protocol.decode_any(&mut self.connections[slot].decoder, input, now, &mut answers);
        answers.drain(..).for_each(|answer| self.on_answer(slot, answer, now));
        self.answers = answers;
        if let Err(class) = decoded {
            self.fail_multiplexed(slot, class, now);
            return ControlFlow::Break(SocketGone);
        }
        let connection = &self.connections[slot];
        if P::is_ending(&connection.decoder) && connection.pipeline.is_idle() {
            self.on_server_close(slot, now);
            return ControlFlow::Break(SocketGone);
        }
        if connection.pipeline.is_outlived() {
            self.close(slot, Redial::Now, now);
            return ControlFlow::Break(SocketGone);
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn on_answer(&mut self, slot: usize, answer: Answer<P::Request>, now: Nanos) {
        let Answer { request, fate, received } = answer;
        let pipeline = &mut self.connections[slot].pipeline;
        let Some(pending) = pipeline.take(request.key()) else { return };
        match fate {
            Fate::Settled { outcome, detail } => {
                self.on_valid_reply(slot, now);
                let settled = SettledReplies { replies: Replies::ONE, outcome, received, at: now };
                self.issuer.record_settled(1);
                self.record(slot, pending, settled, detail);
                self.begin_pause(slot, now);
            }
            Fate::Unread => pipeline.push_resend(Pending { request, ..pending }),
        }
    }

    /// Fails a connection that makes no sense any more.
    fn fail_multiplexed(&mut self, slot: usize, class: ErrorClass, now: Nanos) {
        let connection = &self.connections[slot];
        if !connection.pipeline.is_idle() {
            return self.fail_connection(slot, class, class, now);
        }
        self.issuer.note_failure();
        // Where nothing was asked for nothing failed, unless it was a server that had answered before.
        if connection.dial.is_settled() {
            self.recorder.add_failure(slot, class, now);
        }
        // A server that speaks something else would be dialled as fast as the kernel can.
        self.on_server_close(slot, now);
    }

    /// Fails each request in flight by how far its reply had come.
    #[cold]
    pub(super) fn on_multiplexed_eof(&mut self, slot: usize, now: Nanos) {
        while let Some(pending) = self.connections[slot].pipeline.pop() {
            let connection = &mut self.connections[slot];
            let class = match self.protocol.on_eof(&mut connection.decoder, pending.request) {
                EofOutcome::Failed(_) if connection.link.is_write_broken() => ErrorClass::WriteError,
                EofOutcome::Failed(class) => class,
                // No reply is ended by the end of a connection that has others.
                EofOutcome::Done { .. } => ErrorClass::EofEarly,
            };
            let received = self.protocol.cancel(&mut self.connections[slot].decoder, pending.request);
            self.settle(slot, pending, failed(class, received, now));
        }
        self.fail_connection(slot, ErrorClass::EofEarly, ErrorClass::EofEarly, now);
    }

    /// Looks for replies that have taken too long. Where no request on a connection can still be answered in time, another is
    /// opened; otherwise the late ones are given up alone.
    pub(super) fn check_streams(&mut self, slot: usize, now: Nanos) {
        if self.is_refused(slot, now) {
            return self.connect_failed(slot, ErrorClass::Timeout, now);
        }
        let (total, first_byte) = (self.timeout, self.first_byte_timeout);
        let connection = &self.connections[slot];
        let late = |pending: &Pending<P::Request>| {
            let waited = now.saturating_sub(pending.stamp.sent);
            if waited >= total {
                return Some(ErrorClass::Timeout);
            }
            let is_silent = waited >= first_byte && !P::has_begun(&connection.decoder, pending.request);
            is_silent.then_some(ErrorClass::TimeoutFirstByte)
        };
        let overdue: Vec<_> =
            connection.pipeline.inflight().filter_map(|pending| Some((pending.request, late(&pending)?))).collect();
        let Some(&(_, class)) = overdue.first() else { return };
        if overdue.len() == connection.pipeline.inflight().count() {
            return self.fail_connection(slot, class, class, now);
        }
        for (request, class) in overdue {
            let connection = &mut self.connections[slot];
            let Some(pending) = connection.pipeline.take(request.key()) else { continue };
            let received = self.protocol.cancel(&mut connection.decoder, request);
            self.settle(slot, pending, failed(class, received, now));
            self.begin_pause(slot, now);
        }
        self.refill(slot, now);
        self.issuer.list_if_room(&mut self.connections[slot], slot);
    }

    /// Returns true if the server has allowed no request on a connection for as long as a reply may take.
    fn is_refused(&mut self, slot: usize, now: Nanos) -> bool {
        let connection = &mut self.connections[slot];
        let is_refused = connection.pipeline.is_idle() && P::room(&connection.decoder) == 0;
        connection.refused_since = is_refused.then(|| connection.refused_since.unwrap_or(now));
        connection.refused_since.is_some_and(|since| now.saturating_sub(since) >= self.timeout)
    }
}

fn failed(class: ErrorClass, received: Received, at: Nanos) -> SettledReplies {
    SettledReplies { replies: Replies::ONE, outcome: Err(class), received, at }
}
