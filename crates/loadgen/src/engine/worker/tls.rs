//! What TLS adds to an open connection.

use super::{super::tls::Standing, Worker, connection::Stage, exchange::Fate};
use crate::{clock::Nanos, error::ErrorClass, protocol::ClientProtocol};

impl<P: ClientProtocol> Worker<'_, P> {
    /// The socket is connected; the protocol has to wait where there is TLS.
    pub(super) fn connected(&mut self, slot: usize, now: Nanos) {
        let Some(tls) = self.tls else { return self.opened(slot, now) };
        match tls.session() {
            Ok(session) => {
                let connection = &mut self.connections[slot];
                let since = connection.dialing_since.unwrap_or(now);
                connection.stage = Stage::Handshaking { since };
                connection.tls = Some(Box::new(session));
                self.burst.clear();
                self.send_burst(slot, now);
            }
            Err(_) => self.connect_failed(slot, ErrorClass::Tls, now),
        }
    }

    /// Requestor the burst into records, behind what the session itself has to say. Nothing happens without TLS.
    #[inline]
    pub(super) fn seal_burst(&mut self, slot: usize) {
        if let Some(tls) = &mut self.connections[slot].tls {
            self.sealed.clear();
            tls.seal(&self.burst, &mut self.sealed);
            std::mem::swap(&mut self.burst, &mut self.sealed);
        }
    }

    /// Deals with what has arrived on a connection with TLS.
    pub(super) fn unseal(&mut self, slot: usize, input: &[u8], now: Nanos) -> Fate {
        let Some(tls) = &mut self.connections[slot].tls else { return Fate::Gone };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let was_handshaking = tls.is_handshaking();
        let fate = match tls.unseal(input, &mut plain) {
            Ok(standing) => self.unsealed(slot, was_handshaking, standing, &plain, now),
            Err(_) if was_handshaking => {
                // The alert says why; if it cannot be sent the server will see a close.
                self.burst.clear();
                self.send_burst(slot, now);
                self.connect_failed(slot, ErrorClass::Tls, now);
                Fate::Gone
            }
            Err(_) => {
                self.fail_stream(slot, now);
                Fate::Gone
            }
        };
        self.plain = plain;
        fate
    }

    fn unsealed(&mut self, slot: usize, was_handshaking: bool, standing: Standing, plain: &[u8], now: Nanos) -> Fate {
        // The handshake's answers, and those to new keys.
        self.burst.clear();
        self.send_burst(slot, now);
        if was_handshaking && !standing.is_handshaking {
            self.opened(slot, now);
        }
        if !plain.is_empty() && self.consume(slot, plain, now) == Fate::Gone {
            return Fate::Gone;
        }
        if standing.is_over {
            self.on_eof(slot, now);
            return Fate::Gone;
        }
        if self.connections[slot].stage == Stage::Open {
            self.refill(slot, now);
        }
        Fate::Stays
    }

    /// The stream makes no sense any more.
    fn fail_stream(&mut self, slot: usize, now: Nanos) {
        if self.connections[slot].inflight.is_empty() {
            self.fail_unasked(slot, ErrorClass::Protocol, now);
            self.hang_up(slot, super::dialer::Redial::Now, now);
        } else {
            self.fail_connection(slot, ErrorClass::Protocol, ErrorClass::Protocol, now);
        }
    }
}
