//! The floor: a server that does nothing but answer, to tell what sockets alone cost.
//!
//! One thread, edge-triggered epoll, one fixed reply for every request, whatever it asks. A request is anything up to
//! an empty line; pipelined ones are answered with one `send`.

use std::os::unix::net::UnixStream;

use memchr::memmem;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use sys::listen::{Address, Listener, Sharing};

const REQUEST_END: &[u8; 4] = b"\r\n\r\n";
const READ_BYTES: usize = 64 << 10;
/// The reply is repeated up to about this size, so that a pipeline is answered with one `send`.
const BURST_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 256;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// A listening socket that is not served yet.
#[derive(Debug)]
pub struct NullServer {
    listener: Listener,
}

impl NullServer {
    /// Binds and listens. A socket made as our servers make theirs, so that the floor is theirs, too.
    pub fn bind(address: &Address) -> std::io::Result<Self> {
        let listener = Listener::bind(address, Sharing::Alone)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The address, with the port that was found if it was 0.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Answers every request with `reply` until `stop` becomes readable.
    pub fn serve(&self, reply: &[u8], stop: &UnixStream) -> std::io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, self.listener.as_fd(), EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let mut floor = Floor {
            epoll,
            peers: Vec::new(),
            free: Vec::new(),
            reply: Reply::new(reply),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            is_accept_paused: false,
        };
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&floor.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => floor.accept_all(self.listener.as_fd())?,
                    slot => floor.turn(usize::try_from(slot).unwrap_or(usize::MAX), event.flags),
                }
            }
            if floor.is_accept_paused && !floor.free.is_empty() {
                floor.accept_all(self.listener.as_fd())?;
            }
        }
    }
}

/// `200 OK` with a body of `body_bytes`, for HTTP/1.1 and for HTTP/1.0 clients that ask for keep-alive.
#[must_use]
pub fn http_reply(body_bytes: usize) -> Vec<u8> {
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n\r\n"
    )
    .into_bytes();
    reply.resize(reply.len() + body_bytes, b'x');
    reply
}

/// The reply, repeated: any stretch of the output is a slice of it.
struct Reply {
    burst: Vec<u8>,
    length: usize,
}

impl Reply {
    fn new(reply: &[u8]) -> Self {
        Self { burst: reply.repeat((BURST_BYTES / reply.len()).max(1)), length: reply.len() }
    }
}

struct Floor {
    epoll: OwnedFd,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    reply: Reply,
    buffer: Box<[u8]>,
    /// No descriptor was left; tried again when one has come free.
    is_accept_paused: bool,
}

struct Peer {
    socket: OwnedFd,
    scan: RequestScan,
    /// Bytes of output that are owed. They continue a reply that may have begun.
    owed: usize,
    /// How far into a reply the output stands.
    phase: usize,
    waits_for_room: bool,
}

impl Floor {
    fn accept_all(&mut self, listener: BorrowedFd<'_>) -> std::io::Result<()> {
        self.is_accept_paused = false;
        loop {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.adopt(socket)?,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.is_accept_paused = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn adopt(&mut self, socket: OwnedFd) -> std::io::Result<()> {
        // Not a TCP socket, perhaps; then there is nothing to switch off.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), interest(false))?;
        self.peers[slot] =
            Some(Peer { socket, scan: RequestScan::default(), owed: 0, phase: 0, waits_for_room: false });
        Ok(())
    }

    fn turn(&mut self, slot: usize, flags: EventFlags) {
        let Some(peer) = self.peers.get_mut(slot).and_then(Option::as_mut) else { return };
        if peer.turn(slot, flags, &self.epoll, &self.reply, &mut self.buffer).is_err() {
            self.peers[slot] = None;
            self.free.push(slot);
        }
    }
}

/// The connection is over.
struct Over;

impl From<Errno> for Over {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl Peer {
    fn turn(
        &mut self,
        slot: usize,
        flags: EventFlags,
        epoll: &OwnedFd,
        reply: &Reply,
        buffer: &mut [u8],
    ) -> Result<(), Over> {
        let has_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        loop {
            self.flush(slot, epoll, reply)?;
            // What is owed must go before more is taken in; room will be an event.
            if self.owed > 0 {
                return Ok(());
            }
            let length = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Over),
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.owed += self.scan.count(&buffer[..length]) * reply.length;
            if length < buffer.len() && !has_end {
                self.flush(slot, epoll, reply)?;
                if !self.waits_for_room {
                    return Ok(());
                }
            }
        }
    }

    fn flush(&mut self, slot: usize, epoll: &OwnedFd, reply: &Reply) -> Result<(), Over> {
        while self.owed > 0 {
            let end = reply.burst.len().min(self.phase + self.owed);
            match send(&self.socket, &reply.burst[self.phase..end], SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.owed -= sent;
                    self.phase = (self.phase + sent) % reply.length;
                }
                Err(Errno::AGAIN) => return self.wait_for_room(true, slot, epoll),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.wait_for_room(false, slot, epoll)
    }

    fn wait_for_room(&mut self, waits: bool, slot: usize, epoll: &OwnedFd) -> Result<(), Over> {
        if self.waits_for_room != waits {
            self.waits_for_room = waits;
            epoll::modify(epoll, &self.socket, EventData::new_u64(slot as u64), interest(waits))?;
        }
        Ok(())
    }
}

fn interest(waits_for_room: bool) -> EventFlags {
    let base = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if waits_for_room { base | EventFlags::OUT } else { base }
}

/// Counts empty lines in a stream that arrives in pieces.
#[derive(Debug, Default)]
struct RequestScan {
    /// Bytes of [`REQUEST_END`] seen at the end of the last piece.
    matched: usize,
}

impl RequestScan {
    fn count(&mut self, mut input: &[u8]) -> usize {
        let mut count = 0;
        while self.matched > 0
            && let Some((&byte, rest)) = input.split_first()
        {
            count += self.step(byte);
            input = rest;
        }
        let mut end = 0;
        for found in memmem::find_iter(input, REQUEST_END) {
            count += 1;
            end = found + REQUEST_END.len();
        }
        let tail = end.max(input.len().saturating_sub(REQUEST_END.len() - 1));
        for &byte in &input[tail..] {
            count += self.step(byte);
        }
        count
    }

    fn step(&mut self, byte: u8) -> usize {
        self.matched = match byte {
            _ if byte == REQUEST_END[self.matched] => self.matched + 1,
            b'\r' => 1,
            _ => 0,
        };
        if self.matched == REQUEST_END.len() {
            self.matched = 0;
            return 1;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_count_does_not_depend_on_tearing(text in "[\r\nx]{0,60}", chunk in 1_usize..8) {
            let whole = text.matches("\r\n\r\n").count();
            let mut scan = RequestScan::default();
            let torn: usize = text.as_bytes().chunks(chunk).map(|piece| scan.count(piece)).sum();
            prop_assert_eq!(torn, whole);
            prop_assert_eq!(RequestScan::default().count(text.as_bytes()), whole);
        }
    }
}
