//! The state of rustls for one connection, with the input that it has not come to the end of.

use std::mem;

use bytes::Bytes;
use proto::Outbox;
use rustls::{
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic},
};

use crate::scratch::Sealed;

/// Plaintext of the largest record (RFC 8446, 5.1).
pub(crate) const RECORD_MAX: usize = 16 * 1024;
/// More than a record is longer than its plaintext.
const EXPANSION_MAX: usize = 64;
/// Plaintext from which on its ciphertext has memory of its own: half a record, so that no more than as much again is unused.
const SHARED_MIN: usize = RECORD_MAX / 2;
/// Room for close_notify.
const ALERT_MAX: usize = 64;

/// Error of output that cannot be sent as it was promised: a file has shrunk, or a key is used up. The connection ends
/// without close_notify, so that the peer knows.
#[derive(Debug)]
pub(crate) struct Broken;

/// State of rustls for one connection.
pub(crate) struct Engine {
    pub(crate) tls: UnbufferedServerConnection,
    /// Records that were taken from the input and are not done with. While there are any, rustls must be shown them
    /// whatever it is asked for: it remembers where in them the parts of a torn message are.
    pub(crate) held: Vec<u8>,
    /// Plaintext that the inner session has not been given yet.
    pub(crate) plain: Vec<u8>,
    /// close_notify has been received.
    pub(crate) is_closed_by_peer: bool,
}

/// Reasons to stop processing records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// There is no whole message left.
    Starved,
    /// The inner session takes no more.
    Paused,
    Failed,
}

impl Engine {
    pub(crate) fn new(tls: UnbufferedServerConnection) -> Self {
        Self { tls, held: Vec::new(), plain: Vec::new(), is_closed_by_peer: false }
    }

    /// Processes the next record of `buffer` behind `done`; `deliver` is given its plaintext.
    pub(crate) fn process(
        &mut self,
        buffer: &mut [u8],
        done: &mut usize,
        out: &mut Outbox,
        mut deliver: impl FnMut(&mut Vec<u8>, &[u8]),
    ) -> Option<Stop> {
        let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut buffer[*done..]);
        *done += discard;
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let Ok(record) = record else { return Some(Stop::Failed) };
                    if !record.payload.is_empty() {
                        deliver(&mut self.plain, record.payload);
                    }
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out),
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => self.is_closed_by_peer = true,
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => return Some(Stop::Starved),
            Ok(ConnectionState::Closed) => {
                *done = buffer.len();
                return Some(Stop::Starved);
            }
            // Early data is never offered.
            Ok(_) => return Some(Stop::Failed),
            Err(error) => {
                tracing::debug!("TLS: {error}");
                return Some(Stop::Failed);
            }
        }
        None
    }

    /// Encrypts `plain`, which is not empty.
    pub(crate) fn seal(&mut self, plain: &[u8], out: &mut Outbox) -> Result<(), Broken> {
        let sealed = self.with_traffic(out, |traffic, out| {
            if plain.len() >= SHARED_MIN && seal_apart(plain, traffic, out) {
                return Ok(());
            }
            let mut room = plain.len() + plain.len().div_ceil(RECORD_MAX) * EXPANSION_MAX;
            loop {
                let mut outcome = Ok(0);
                append(out, room, |to| {
                    outcome = traffic.encrypt(plain, to);
                    *outcome.as_ref().unwrap_or(&0)
                });
                match outcome {
                    Ok(_) => return Ok(()),
                    // An update of the keys comes first.
                    Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
                    Err(EncryptError::EncryptExhausted) => return Err(Broken),
                }
            }
        });
        sealed.unwrap_or(Err(Broken))
    }

    /// Queues close_notify: what came before it is all there is.
    pub(crate) fn say_goodbye(&mut self, out: &mut Outbox) {
        self.with_traffic(out, |traffic, out| {
            append(out, ALERT_MAX, |to| traffic.queue_close_notify(to).unwrap_or(0));
        });
    }

    /// Queues the alert that says what was wrong.
    pub(crate) fn say_error(&mut self, out: &mut Outbox) {
        // Not a step further: rustls is not to be shown any more input.
        while self.tls.wants_write() {
            match self.tls.process_tls_records(&mut self.held).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, out),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => while traffic.next_record().is_some() {},
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Runs `write` as soon as rustls may write, having queued all that it has to say itself; `None` if it may not.
    fn with_traffic<T>(
        &mut self,
        out: &mut Outbox,
        mut write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut Outbox) -> T,
    ) -> Option<T> {
        loop {
            let mut held = mem::take(&mut self.held);
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(&mut held);
            let written = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(Some(write(&mut traffic, out))),
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.plain.extend_from_slice(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, out);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.is_closed_by_peer = true;
                    None
                }
                Ok(_) | Err(_) => Some(None),
            };
            held.drain(..discard);
            self.held = held;
            if let Some(written) = written {
                return written;
            }
        }
    }
}

/// Encrypts into memory of its own, which is not cleared first as that behind other output would have to be. Returns false if
/// nothing has been done: something comes before it, or the key is used up.
fn seal_apart(plain: &[u8], traffic: &mut WriteTraffic<'_, ServerConnectionData>, out: &mut Outbox) -> bool {
    // Few lengths, so that one of those that were given back is the right one.
    let records = plain.len().div_ceil(RECORD_MAX).next_power_of_two();
    let mut sealed = Sealed::take(records * (RECORD_MAX + EXPANSION_MAX));
    let Ok(n) = traffic.encrypt(plain, sealed.bytes_mut()) else { return false };
    out.push_uncopied(&Bytes::from_owner(sealed).slice(..n));
    true
}

/// Queues what rustls has to say itself.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, out: &mut Outbox) {
    if let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) {
        append(out, needed.required_size, |to| data.encode(to).unwrap_or(0));
    }
}

/// Has `fill` write up to `room` bytes behind the output, and say how many.
fn append(out: &mut Outbox, room: usize, fill: impl FnOnce(&mut [u8]) -> usize) {
    let tail = out.inline();
    let start = tail.len();
    tail.resize(start + room, 0);
    let n = fill(&mut tail[start..]);
    tail.truncate(start + n);
}
