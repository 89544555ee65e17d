//! Input of a connection: bytes, replies, and the end of the stream.

use std::ops::ControlFlow;

use rustix::{event::epoll::EventFlags, io::Errno};
use sys::ring::{Completion, Event, Filled};

use super::{
    super::{load::Reuse, tls::TlsState},
    Worker,
    dialer::Redial,
    kernel::SocketId,
    recorder::SettledReplies,
};
use crate::{
    clock::{self, Nanos},
    error::ErrorClass,
    protocol::{AfterReply, ClientProtocol, EofOutcome, Progress},
};

/// Reads from one connection before the next is read.
const READS_PER_VISIT: usize = 8;

/// The peer will send no more, or something is wrong: read until the kernel says which.
const ENDING: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// End of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// A short read has emptied the socket; asking again would only return EAGAIN.
    ShortRead,
    /// There is an end behind the data. No further event will tell of it.
    End,
}

/// The socket is not the slot's any more, which may have another one by now.
pub(super) struct SocketGone;

impl<P: ClientProtocol> Worker<'_, P> {
    #[inline]
    pub(super) fn on_ready(&mut self, id: SocketId, flags: EventFlags) {
        let connection = &mut self.connections[id.slot];
        // The slot may have got another socket since the kernel wrote this event.
        if !connection.link.is(id) {
            return;
        }
        if connection.dial.is_connecting() {
            self.finish_attempt(id.slot, clock::now());
        } else if flags.contains(EventFlags::OUT) {
            self.kernel.send_unsent(&mut connection.link, &mut self.recorder);
        }
        if self.can_be_read(id) && flags.intersects(EventFlags::IN | ENDING) {
            self.read(id, if flags.intersects(ENDING) { Until::End } else { Until::ShortRead });
        }
    }

    pub(super) fn on_completion(&mut self, completion: Completion) {
        let id = SocketId::from_token(completion.token);
        let connection = &mut self.connections[id.slot];
        let is_current = connection.link.is(id);
        match completion.event {
            Event::Writable => {
                if is_current && connection.dial.is_connecting() {
                    self.finish_attempt(id.slot, clock::now());
                }
            }
            Event::Received { bytes, is_armed } => {
                if is_current && !is_armed {
                    self.kernel.on_disarmed(&mut connection.link);
                }
                let flow = if is_current { self.on_received(id.slot, &bytes) } else { ControlFlow::Break(SocketGone) };
                if let Ok(Some(filled)) = bytes {
                    self.kernel.give_back(filled);
                }
                if flow.is_continue() && !is_armed {
                    // A ring takes any request; what is wrong with the socket comes as its completion.
                    let _ = self.kernel.watch(&mut self.connections[id.slot].link, false);
                }
            }
            Event::Sent { bytes, outcome } => {
                // The reply may have been quicker, and the connection be gone.
                if let Ok(sent) = outcome {
                    self.recorder.add_sent(sent, clock::now());
                }
                self.kernel.on_sent(is_current.then_some(&mut connection.link), bytes, outcome);
            }
        }
    }

    #[inline]
    fn on_received(&mut self, slot: usize, bytes: &Result<Option<Filled>, Errno>) -> ControlFlow<SocketGone> {
        let now = clock::now();
        match bytes {
            Ok(Some(input)) => {
                self.on_input(slot, input, now)?;
                self.serve_schedule(slot, now);
                ControlFlow::Continue(())
            }
            Ok(None) => {
                self.on_eof(slot, now);
                ControlFlow::Break(SocketGone)
            }
            Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => ControlFlow::Continue(()),
            Err(error) => {
                self.on_read_error(slot, *error, now);
                ControlFlow::Break(SocketGone)
            }
        }
    }

    /// Returns to connections that were left with something to read.
    pub(super) fn read_again(&mut self) {
        for id in self.kernel.take_unread() {
            if self.can_be_read(id) {
                self.read(id, Until::End);
            }
        }
    }

    /// Returns true if the slot still holds that socket, and something may come on it.
    #[inline]
    fn can_be_read(&self, id: SocketId) -> bool {
        let connection = &self.connections[id.slot];
        connection.link.is(id) && connection.dial.can_be_read()
    }

    #[inline]
    fn read(&mut self, id: SocketId, until: Until) {
        let mut buffer = std::mem::take(&mut self.read_buffer);
        self.read_into(&mut buffer, id.slot, until);
        self.read_buffer = buffer;
    }

    #[inline]
    fn read_into(&mut self, buffer: &mut [u8], slot: usize, until: Until) {
        for _ in 0..READS_PER_VISIT {
            let Some(received) = self.connections[slot].link.receive(buffer) else { return };
            let now = clock::now();
            match received {
                Ok(0) => return self.on_eof(slot, now),
                Ok(length) => {
                    if self.on_input(slot, &buffer[..length], now).is_break() {
                        return;
                    }
                    if length < buffer.len() && until == Until::ShortRead {
                        return self.serve_schedule(slot, now);
                    }
                }
                Err(Errno::AGAIN) => return self.serve_schedule(slot, now),
                Err(Errno::INTR) => {}
                Err(error) => return self.on_read_error(slot, error, now),
            }
        }
        let connection = &mut self.connections[slot];
        self.kernel.read_later(&connection.link);
        self.issuer.list_if_room(connection, slot);
    }

    /// Sends what has fallen due while this reply was read.
    #[inline]
    fn serve_schedule(&mut self, slot: usize, now: Nanos) {
        if self.issuer.is_open_loop() {
            self.issuer.list_if_room(&mut self.connections[slot], slot);
            self.send_due(now);
        }
    }

    /// Deals with what has come from the socket, and sends what that makes room for.
    #[inline]
    fn on_input(&mut self, slot: usize, input: &[u8], now: Nanos) -> ControlFlow<SocketGone> {
        self.recorder.add_received(input.len(), now);
        if self.connections[slot].link.has_tls() {
            return self.on_sealed_input(slot, input, now);
        }
        self.on_plain_input(slot, input, now)?;
        self.refill(slot, now);
        ControlFlow::Continue(())
    }

    /// Deals with TLS records.
    fn on_sealed_input(&mut self, slot: usize, input: &[u8], now: Nanos) -> ControlFlow<SocketGone> {
        let Some(tls) = self.connections[slot].link.tls() else { return ControlFlow::Break(SocketGone) };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let was_handshaking = tls.is_handshaking();
        let unsealed = tls.unseal(input, &mut plain);
        let flow = match unsealed {
            Ok(state) => self.on_unsealed(slot, was_handshaking, state, &plain, now),
            Err(_) if was_handshaking => {
                // The alert says why; if it cannot be sent the server will see a close.
                self.send_tls_messages(slot, now);
                self.connect_failed(slot, ErrorClass::Tls, now);
                ControlFlow::Break(SocketGone)
            }
            Err(_) => {
                self.fail_stream(slot, now);
                ControlFlow::Break(SocketGone)
            }
        };
        self.plain = plain;
        flow
    }

    fn on_unsealed(
        &mut self,
        slot: usize,
        was_handshaking: bool,
        state: TlsState,
        plain: &[u8],
        now: Nanos,
    ) -> ControlFlow<SocketGone> {
        self.send_tls_messages(slot, now);
        if was_handshaking && !state.is_handshaking {
            if !self.finish_handshake(slot, now) {
                return ControlFlow::Break(SocketGone);
            }
            self.opened(slot, now);
        }
        if !plain.is_empty() {
            self.on_plain_input(slot, plain, now)?;
        }
        if state.has_ended {
            self.on_eof(slot, now);
            return ControlFlow::Break(SocketGone);
        }
        if self.connections[slot].dial.is_open() {
            self.refill(slot, now);
        }
        ControlFlow::Continue(())
    }

    /// Counts a handshake. Returns false if the connection is of no use, because the server speaks another protocol on it.
    fn finish_handshake(&mut self, slot: usize, now: Nanos) -> bool {
        let Some(tls) = self.connections[slot].link.tls() else { return false };
        let (handshake, has_protocol) = (tls.handshake(), tls.has_protocol());
        self.recorder.add_handshake(handshake, now);
        if !has_protocol {
            self.connect_failed(slot, ErrorClass::Tls, now);
        }
        has_protocol
    }

    /// Sends what the TLS session itself has to say: its part of the handshake, answers to new keys, alerts.
    pub(super) fn send_tls_messages(&mut self, slot: usize, now: Nanos) {
        self.kernel.new_burst();
        self.kernel.send_burst(&mut self.connections[slot].link, &mut self.recorder, now);
    }

    /// Gives each reply in the input its outcome.
    #[inline]
    fn on_plain_input(&mut self, slot: usize, input: &[u8], now: Nanos) -> ControlFlow<SocketGone> {
        if P::MULTIPLEXED {
            return self.on_multiplexed_input(slot, input, now);
        }
        let (mut start, length) = (0, input.len());
        if !self.connections[slot].is_greeted {
            start = self.on_greeting_reply(slot, input, now)?;
        }
        while let Some(pending) = self.connections[slot].pipeline.oldest() {
            let connection = &mut self.connections[slot];
            let rest = &input[start..];
            let decoded = self.protocol.decode(&mut connection.decoder, pending.request, rest);
            start += decoded.consumed;
            match decoded.progress {
                Progress::NeedMore => {
                    connection.pipeline.add_partial(rest.len(), now);
                    return ControlFlow::Continue(());
                }
                Progress::Done { replies, outcome, after } => {
                    connection.pipeline.complete(replies.count);
                    let mut received = connection.pipeline.take_partial();
                    received.add(decoded.consumed as u64, now);
                    let is_last = connection.pipeline.is_idle();
                    // No request is in flight for what follows, so it belongs to this reply.
                    let has_excess = start < length && (is_last || after == AfterReply::Close);
                    self.on_valid_reply(slot, now);
                    let outcome = if has_excess { Err(ErrorClass::Protocol) } else { outcome };
                    self.settle(slot, pending, SettledReplies { replies, outcome, received, at: now });
                    self.begin_pause(slot, now);
                    if after == AfterReply::Close {
                        self.on_server_close(slot, now);
                        return ControlFlow::Break(SocketGone);
                    }
                    let is_outlived = is_last && self.connections[slot].pipeline.is_outlived();
                    if has_excess || is_outlived || (is_last && self.issuer.reuse() == Reuse::Once) {
                        self.close(slot, Redial::Now, now);
                        return ControlFlow::Break(SocketGone);
                    }
                }
                Progress::Broken(class) => {
                    self.fail_connection(slot, class, class, now);
                    return ControlFlow::Break(SocketGone);
                }
            }
        }
        if start < length {
            self.recorder.add_failure(slot, ErrorClass::Protocol, now);
            self.close(slot, Redial::Now, now);
            return ControlFlow::Break(SocketGone);
        }
        ControlFlow::Continue(())
    }

    /// Reads the reply to the greeting. Continues with the number of bytes that it has.
    #[cold]
    fn on_greeting_reply(&mut self, slot: usize, input: &[u8], now: Nanos) -> ControlFlow<SocketGone, usize> {
        let connection = &mut self.connections[slot];
        let decoded = self.protocol.decode_greeting(&mut connection.decoder, input);
        let class = match decoded.progress {
            Progress::NeedMore => return ControlFlow::Continue(input.len()),
            Progress::Done { outcome: Ok(()), .. } => {
                connection.is_greeted = true;
                self.on_valid_reply(slot, now);
                return ControlFlow::Continue(decoded.consumed);
            }
            Progress::Done { outcome: Err(class), .. } | Progress::Broken(class) => class,
        };
        if connection.pipeline.is_idle() {
            self.connect_failed(slot, class, now);
        } else {
            self.fail_connection(slot, class, class, now);
        }
        ControlFlow::Break(SocketGone)
    }

    #[inline]
    pub(super) fn on_valid_reply(&mut self, slot: usize, now: Nanos) {
        self.dialer.settle(&mut self.connections[slot].dial);
        self.issuer.note_reply(now);
    }

    #[cold]
    fn on_eof(&mut self, slot: usize, now: Nanos) {
        let connection = &mut self.connections[slot];
        if connection.dial.is_handshaking() {
            return self.connect_failed(slot, ErrorClass::Tls, now);
        }
        let Some(pending) = connection.pipeline.oldest() else { return self.on_server_close(slot, now) };
        if P::MULTIPLEXED {
            return self.on_multiplexed_eof(slot, now);
        }
        let is_cut_off = connection.link.tls().is_some_and(|tls| !tls.has_ended_properly());
        match self.protocol.on_eof(&mut connection.decoder, pending.request) {
            // A third party on the way could have cut the stream here.
            EofOutcome::Done { .. } if is_cut_off => {
                self.fail_connection(slot, ErrorClass::ShortBody, ErrorClass::EofEarly, now);
            }
            EofOutcome::Done { replies, outcome } => {
                connection.pipeline.complete(replies.count);
                let received = connection.pipeline.take_partial();
                self.on_valid_reply(slot, now);
                self.settle(slot, pending, SettledReplies { replies, outcome, received, at: now });
                self.begin_pause(slot, now);
                match self.issuer.reuse() {
                    Reuse::Keep => self.on_server_close(slot, now),
                    Reuse::Once => self.close(slot, Redial::Now, now),
                }
            }
            EofOutcome::Failed(_) if connection.link.is_write_broken() => {
                self.fail_connection(slot, ErrorClass::WriteError, ErrorClass::WriteError, now);
            }
            EofOutcome::Failed(class) => self.fail_connection(slot, class, ErrorClass::EofEarly, now),
        }
    }

    #[cold]
    fn on_read_error(&mut self, slot: usize, error: Errno, now: Nanos) {
        let connection = &self.connections[slot];
        if connection.dial.is_handshaking() {
            return self.connect_failed(slot, ErrorClass::Tls, now);
        }
        if connection.pipeline.is_idle() {
            // Nothing was asked for, so nothing failed.
            return self.on_server_close(slot, now);
        }
        let class = match error {
            // With a fast open this is the answer to what was sent first.
            Errno::CONNREFUSED => ErrorClass::ConnectRefused,
            _ if connection.link.is_write_broken() => ErrorClass::WriteError,
            Errno::TIMEDOUT => ErrorClass::Timeout,
            _ => ErrorClass::Reset,
        };
        self.fail_connection(slot, class, class, now);
    }

    /// Fails a connection whose stream makes no sense any more.
    fn fail_stream(&mut self, slot: usize, now: Nanos) {
        if self.connections[slot].pipeline.is_idle() {
            self.recorder.add_failure(slot, ErrorClass::Protocol, now);
            self.close(slot, Redial::Now, now);
        } else {
            self.fail_connection(slot, ErrorClass::Protocol, ErrorClass::Protocol, now);
        }
    }
}
