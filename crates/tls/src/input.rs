//! The way in: records are decrypted, and the inner session is fed.

use std::mem;

use crate::{
    Tls,
    connection::{Connection, Phase},
    engine::{Engine, Stop},
    identity, records, scratch,
};
use proto::{Now, Outbox, Protocol, Secured, Step};

/// Outcome of an attempt to take input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Some,
    Nothing,
    /// The peer has broken the protocol; it has been told so.
    Failed,
}

impl<P: Protocol> Connection<P> {
    /// Takes some of `input`, and what was held of the input before it.
    pub(crate) fn receive(
        &mut self,
        layer: &Tls<P>,
        input: &[u8],
        step: &mut Step,
        now: Now,
        out: &mut Outbox,
    ) -> Received {
        if self.kernel.is_some() {
            return self.receive_beside_kernel(layer, input, step, now, out);
        }
        let is_closed_by_peer = self.is_closed_by_peer();
        let Some(engine) = &mut self.engine else { return Received::Failed };
        let whole = records::whole(input);
        let has_held = !engine.plain.is_empty() || self.is_paused && !engine.held.is_empty();
        if self.phase == Phase::Over || is_closed_by_peer && engine.plain.is_empty() {
            // Nothing follows a close_notify.
            step.consumed += input.len();
            engine.held = Vec::new();
            self.is_paused = false;
            return Received::Nothing;
        }
        let has_more = whole.len > 0 || has_held;
        let is_ready = self.takes_input() && !out.is_full();
        self.is_paused = has_more && !is_ready;
        if !has_more || !is_ready {
            step.need = if has_more { 0 } else { whole.missing };
            return Received::Nothing;
        }
        if !mem::replace(&mut self.has_begun, true) && !records::is_handshake(input) {
            layer.statistics.plain(now.instant);
            if input[0].is_ascii_graphic() && !layer.answer_to_plain.is_empty() {
                step.consumed += input.len();
                out.inline().extend_from_slice(layer.answer_to_plain);
                self.phase = Phase::Over;
                layer.statistics.failed();
                return Received::Failed;
            }
        }
        step.consumed += whole.len;
        let stop = self.process(layer, &input[..whole.len], now, out);
        if stop == Stop::Failed {
            self.fail(layer, out);
            return Received::Failed;
        }
        Received::Some
    }

    /// True if the inner session takes more, or has nothing to do with what comes. Its last input may have ended it.
    pub(crate) fn takes_input(&self) -> bool {
        self.phase != Phase::Open || self.inner.wants_read() || self.inner.has_ended()
    }

    /// Processes what is held and `records` behind it, up to the end of the last whole message.
    fn process(&mut self, layer: &Tls<P>, records: &[u8], now: Now, out: &mut Outbox) -> Stop {
        let Some(engine) = &mut self.engine else { return Stop::Failed };
        let mut buffer = match engine.held.is_empty() {
            true => scratch::take_records(),
            false => mem::take(&mut engine.held),
        };
        buffer.extend_from_slice(records);
        let mut done = 0;
        let stop = loop {
            self.deliver(layer, now);
            if !self.takes_input() {
                break Stop::Paused;
            }
            let Self { engine: Some(engine), inner, phase, .. } = self else { break Stop::Failed };
            let is_open = *phase == Phase::Open;
            let stop = engine.process(&mut buffer, &mut done, out, |plain, record| match is_open {
                true => inner.feed(&layer.inner, record, now),
                // It came with the end of the handshake.
                false => plain.extend_from_slice(record),
            });
            self.note_handshake(layer, now);
            if let Some(stop) = stop {
                self.deliver(layer, now);
                break stop;
            }
        };
        self.is_paused = stop == Stop::Paused && done < buffer.len();
        if let Some(engine) = &mut self.engine
            && done < buffer.len()
        {
            engine.held = buffer[done..].to_vec();
        }
        scratch::keep_records(buffer);
        stop
    }

    /// Feeds plaintext that has waited.
    fn deliver(&mut self, layer: &Tls<P>, now: Now) {
        if self.phase == Phase::Open
            && let Some(engine) = &mut self.engine
            && !engine.plain.is_empty()
        {
            let plain = mem::take(&mut engine.plain);
            self.inner.feed(&layer.inner, &plain, now);
        }
    }

    /// Notes the name in a hello, and the end of the handshake.
    fn note_handshake(&mut self, layer: &Tls<P>, now: Now) {
        if self.phase == Phase::Open {
            return;
        }
        if let Some(name) = identity::take_server_name() {
            self.server_name = Some(name);
        }
        let is_complete = |engine: &Engine| !engine.tls.is_handshaking();
        if matches!(self.phase, Phase::Handshake(_)) && self.engine.as_deref().is_some_and(is_complete) {
            self.establish(layer, now);
        }
    }

    fn establish(&mut self, layer: &Tls<P>, now: Now) {
        let Some(Engine { tls, .. }) = self.engine.as_deref() else { return };
        self.phase = Phase::Open;
        layer.statistics.completed(tls.protocol_version(), tls.handshake_kind());
        let certificate = tls.peer_certificates().and_then(|chain| chain.first());
        let server_name = self.server_name.take();
        self.inner.sent(now);
        self.inner.secured(
            &layer.inner,
            Secured {
                protocol: tls.alpn_protocol(),
                server_name: server_name.as_deref(),
                client_certificate: certificate.map(AsRef::as_ref),
            },
        );
    }

    /// Queues the alert that says what was wrong, and lets nothing follow it.
    fn fail(&mut self, layer: &Tls<P>, out: &mut Outbox) {
        self.phase = Phase::Over;
        layer.statistics.failed();
        if let Some(engine) = &mut self.engine {
            engine.say_error(out);
        }
    }
}
