//! Sessions of one server, for resumption.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rustls::{
    NamedGroup,
    client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue},
    pki_types::ServerName,
};

/// Tickets that are kept; rustls' own store has 8 for a server, fewer than connections that are opened at once.
const TICKETS_MAX: usize = 4096;

/// Store of all threads' connections to one server, whose name is therefore not looked at.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<Stored>);

#[derive(Debug, Default)]
struct Stored {
    group: Option<NamedGroup>,
    /// TLS 1.2: used again and again.
    session: Option<Tls12ClientSessionValue>,
    /// TLS 1.3: each is used once (RFC 8446, appendix C.4).
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _server_name: ServerName<'static>, group: NamedGroup) {
        self.0.lock().group = Some(group);
    }

    fn kx_hint(&self, _server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.lock().group
    }

    fn set_tls12_session(&self, _server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.lock().session = Some(value);
    }

    fn tls12_session(&self, _server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.lock().session.clone()
    }

    fn remove_tls12_session(&self, _server_name: &ServerName<'static>) {
        self.0.lock().session = None;
    }

    fn insert_tls13_ticket(&self, _server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut stored = self.0.lock();
        if stored.tickets.len() == TICKETS_MAX {
            stored.tickets.pop_front();
        }
        stored.tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, _server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().tickets.pop_back()
    }
}
