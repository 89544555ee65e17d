//! Requests that come after the keys have been handed to the next process: forwarded to it by a pipe, and answered by
//! another.
//!
//! ```text
//! request = length u32, begin u32, dialect u8, database u8, version u8, locks u8, bytes
//! reply   = length u32, bytes
//! ```
//!
//! All numbers are little endian. There is one request at a time, and each has a reply, perhaps an empty one.

use std::io::{self, PipeReader, PipeWriter, Read, Write};

use wire::resp::Version;

const HEAD_BYTES: usize = 12;
/// Limit of a reply: more than any outbox holds.
const REPLY_BYTES_MAX: u32 = (3 << 30) - 1;

/// Protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedDialect {
    Resp,
    Us,
    Memcached,
}

/// One request, or a transaction, as its client has sent it, with what it depends on of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedRequest {
    pub(crate) bytes: Vec<u8>,
    /// Position in the bytes of the request whose reply is wanted: those before it only make it ready.
    pub(crate) begin: usize,
    pub(crate) dialect: ForwardedDialect,
    pub(crate) database: u8,
    pub(crate) version: Version,
    /// True if all shards have to be locked before it begins.
    pub(crate) locks_all: bool,
}

impl ForwardedRequest {
    fn head(&self) -> io::Result<[u8; HEAD_BYTES]> {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&length(self.bytes.len())?);
        head[4..8].copy_from_slice(&length(self.begin)?);
        head[8] = match self.dialect {
            ForwardedDialect::Resp => 0,
            ForwardedDialect::Us => 1,
            ForwardedDialect::Memcached => 2,
        };
        head[9] = self.database;
        head[10] = if self.version == Version::Resp3 { 3 } else { 2 };
        head[11] = u8::from(self.locks_all);
        Ok(head)
    }

    /// Receives a request; `None`: the other process has ended.
    pub(crate) fn receive(pipe: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        match pipe.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let mut bytes = vec![0; number(&head)];
        pipe.read_exact(&mut bytes)?;
        let dialect = match head[8] {
            0 => ForwardedDialect::Resp,
            1 => ForwardedDialect::Us,
            2 => ForwardedDialect::Memcached,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Some(Self {
            bytes,
            begin: number(&head[4..]),
            dialect,
            database: head[9],
            version: if head[10] == 3 { Version::Resp3 } else { Version::Resp2 },
            locks_all: head[11] != 0,
        }))
    }
}

/// Sends the reply to a request.
pub(crate) fn send_reply(pipe: &mut impl Write, reply: &[u8]) -> io::Result<()> {
    pipe.write_all(&length(reply.len())?)?;
    pipe.write_all(reply)
}

/// The process that has the keys.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) to: PipeWriter,
    pub(crate) from: PipeReader,
}

impl Successor {
    /// Forwards a request and waits for its reply.
    pub(crate) fn exchange(&mut self, request: &ForwardedRequest) -> io::Result<Vec<u8>> {
        self.to.write_all(&request.head()?)?;
        self.to.write_all(&request.bytes)?;
        let mut head = [0; 4];
        self.from.read_exact(&mut head)?;
        if u32::from_le_bytes(head) > REPLY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut reply = vec![0; number(&head)];
        self.from.read_exact(&mut reply)?;
        Ok(reply)
    }
}

fn length(bytes: usize) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(length.to_le_bytes())
}

/// Reads the number in the first four bytes, which must be there.
fn number(bytes: &[u8]) -> usize {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[..4]);
    u32::from_le_bytes(number) as usize
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_forwarded_request_arrives_as_it_was_and_its_reply_comes_back() {
        let (mut theirs, to) = io::pipe().unwrap();
        let (from, mut answers) = io::pipe().unwrap();
        let mut successor = Successor { to, from };
        let peer = thread::spawn(move || {
            let mut received = Vec::new();
            while let Some(request) = ForwardedRequest::receive(&mut theirs).unwrap() {
                send_reply(&mut answers, &request.bytes[request.begin..]).unwrap();
                received.push(request);
            }
            received
        });
        let dialects = [ForwardedDialect::Resp, ForwardedDialect::Us, ForwardedDialect::Memcached];
        // Longer than a pipe.
        let sent = dialects.map(|dialect| ForwardedRequest {
            bytes: (0..300_000_u32).map(|n| n as u8).collect(),
            begin: 7,
            dialect,
            database: 9,
            version: if dialect == ForwardedDialect::Us { Version::Resp3 } else { Version::Resp2 },
            locks_all: dialect == ForwardedDialect::Resp,
        });
        for request in &sent {
            assert!(successor.exchange(request).unwrap() == request.bytes[7..]);
        }
        drop(successor);
        assert!(peer.join().unwrap() == sent);
    }
}
