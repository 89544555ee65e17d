//! Beginning of a connection from a proxy: the PROXY header says whose it is.

use std::{sync::atomic::Ordering, time::Instant};

use super::{CloseMode, Phase, Session};
use crate::{
    Admission, ClientPermit, Now, PeerAddress, Protocol, ProxyAddresses, ProxyError,
    proxy::{self, ProxyHeader},
};

/// State of a connection that a proxy has made.
pub(super) struct Proxied {
    admission: &'static Admission,
    proxy: PeerAddress,
    /// Time by which the header must have arrived.
    pub(super) until: Option<Instant>,
    /// Counts the connection as one of the client's.
    permit: Option<ClientPermit>,
}

impl Proxied {
    /// Returns the state of a new connection, if it is a proxy's.
    pub(super) fn new(admission: &'static Admission, peer: PeerAddress, now: Now) -> Option<Box<Self>> {
        let until = now.instant.checked_add(admission.header_max);
        let proxied = Self { admission, proxy: peer, until, permit: None };
        admission.is_proxy(peer).then(|| Box::new(proxied))
    }

    /// Notes that the header is missing or wrong.
    #[cold]
    pub(super) fn refuse(&self, why: &str) {
        self.admission.headers_refused.fetch_add(1, Ordering::Relaxed);
        (self.admission.report)(format_args!("a connection of the proxy {} is closed: {why}", self.proxy));
    }
}

impl<P: Protocol> Session<P> {
    /// True while the header of a proxy is awaited.
    #[inline]
    pub(crate) fn is_greeting(&self) -> bool {
        self.phase == Phase::Greeting
    }

    /// Passes on for whom a proxy speaks.
    pub fn proxied(&mut self, protocol: &P, addresses: ProxyAddresses) {
        protocol.on_proxied(&mut self.conn, addresses);
    }

    /// Looks for the header of a proxy at the start of the held input. What is behind it is offered to the protocol.
    #[cold]
    pub(super) fn greet(&mut self, protocol: &P, now: Now) {
        match proxy::parse(self.inbox.filled()) {
            Ok(None) => {}
            Ok(Some(ProxyHeader { addresses, len })) => {
                self.inbox.consume(len, 0);
                self.phase = Phase::Open;
                if let Some(addresses) = addresses {
                    self.proxied(protocol, addresses);
                    self.count(protocol, addresses);
                }
                if self.phase == Phase::Open {
                    return self.resume(protocol, now);
                }
                self.inbox.clear();
            }
            Err(error) => self.refuse_header(error),
        }
    }

    /// Counts the connection as one of the client's, and refuses it where that has too many.
    fn count(&mut self, protocol: &P, addresses: ProxyAddresses) {
        let Some(proxied) = &mut self.proxied else { return };
        let Some(clients) = &proxied.admission.clients else { return };
        match clients.admit(addresses.client.ip().into()) {
            Ok(permit) => proxied.permit = Some(permit),
            Err(error) => {
                if error.is_first {
                    (proxied.admission.report)(format_args!("connections are refused: {error}"));
                }
                self.outbox.inline().extend_from_slice(protocol.refusal());
                // The other end of the socket is the proxy, which does not wait.
                self.phase = Phase::Closing(CloseMode::Close);
            }
        }
    }

    fn refuse_header(&mut self, error: ProxyError) {
        if let Some(proxied) = &self.proxied {
            proxied.refuse(&error.to_string());
        }
        self.inbox.clear();
        self.phase = Phase::Aborted;
    }
}

#[cfg(test)]
mod tests;
