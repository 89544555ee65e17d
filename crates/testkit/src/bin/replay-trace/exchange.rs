//! A connection as it is made: its pieces, its end, and what it receives.

use std::{fmt::Write as _, thread, time::Duration};

use anyhow::anyhow;
use sha2::{Digest as _, Sha256};
use sys::listen::Address;
use testkit::Client;

use crate::script::Script;

/// Pause after some pieces, so that a server reads them apart.
const PAUSE: Duration = Duration::from_micros(200);
/// Pieces of which one is followed by a pause.
const PAUSED: usize = 64;
/// Bytes that are sent at most before a connection is reset: so many never block.
const BROKEN_OFF_BYTES: usize = 32 << 10;
/// Beginning of the one field of a head that depends on the time, and the length of its value.
const DATE: (&[u8], usize) = (b"\r\nDate: ", 29);

/// Length and digest of what a connection has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) len: u64,
    sha256: [u8; 32],
}

impl Stream {
    pub(crate) fn of(received: &[u8]) -> Self {
        Self { len: received.len() as u64, sha256: Sha256::digest(received).into() }
    }
}

/// Returns the digest of all streams in their order.
pub(crate) fn digest_of_all(streams: &[Stream]) -> String {
    let mut all = Sha256::new();
    streams.iter().for_each(|stream| all.update(stream.sha256));
    all.finalize()[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Sends everything, half-closes, and returns what has come until the server closed: with dates masked.
///
/// # Errors
/// There is no connection, or it ends otherwise than by the server's end.
pub(crate) fn whole(address: &Address, script: &Script) -> anyhow::Result<Vec<u8>> {
    let mut client = Client::connect(address)?;
    let mut sender = client.try_clone()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            for (number, piece) in script.pieces().iter().enumerate() {
                // A server that has ended the connection says so to the reader.
                if sender.send(piece).is_err() {
                    return;
                }
                if number % PAUSED == 0 {
                    thread::sleep(PAUSE);
                }
            }
            let _ = sender.half_close();
        });
        let (received, end) = client.read_until_disconnect();
        let received = masked(received);
        end.map_err(|error| anyhow!("{error} after {} bytes", received.len()))?;
        Ok(received)
    })
}

/// Sends the beginning, reads once, and resets the connection. Returns what has come: with dates masked.
///
/// # Errors
/// There is no connection.
pub(crate) fn broken_off(address: &Address, script: &Script) -> anyhow::Result<Vec<u8>> {
    let mut client = Client::connect(address)?;
    let mut room = BROKEN_OFF_BYTES;
    for piece in script.pieces() {
        room = room.saturating_sub(piece.len());
        if room == 0 {
            break;
        }
        client.send(&piece)?;
    }
    let mut received = vec![0; 4 << 10];
    let n = client.read(&mut received)?;
    received.truncate(n);
    client.reset()?;
    Ok(masked(received))
}

fn masked(mut received: Vec<u8>) -> Vec<u8> {
    let (name, len) = DATE;
    let found: Vec<usize> = memchr::memmem::find_iter(&received, name).collect();
    for at in found {
        let value = at + name.len();
        let end = (value + len).min(received.len());
        received[value..end].fill(b'-');
    }
    received
}
