//! The null server: it does nothing but answer, to show what sockets alone cost.
//!
//! One thread, edge-triggered epoll, and replies that depend on nothing but the kind of the request. All that arrives
//! at once is answered with one `send`. A message queue has another reference: [`NullQueue`].

mod burn;
mod burst;
mod file;
mod http;
mod lines;
mod queue;
mod resp;

use std::os::unix::net::UnixStream;

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt},
};
use sys::listen::{Address, Listener, Sharing};

pub use self::{
    burn::{Burn, BurnOption},
    file::{FileReply, FileResponder},
    http::{HttpReply, HttpResponder},
    lines::{LineReply, LineResponder},
    queue::{NullQueue, NullQueueError},
    resp::{RespReplies, RespResponder},
};

const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 256;

const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Listening socket that is not served yet.
#[derive(Debug)]
pub struct NullServer {
    listener: Listener,
    burns: Vec<Burn>,
}

impl NullServer {
    /// Binds and listens. The socket is made as our servers make theirs, so that the two can be compared.
    pub fn bind(address: &Address) -> std::io::Result<Self> {
        let listener = Listener::bind(address, Sharing::Alone)?;
        Ok(Self { listener, burns: Vec::new() })
    }

    /// Adds work to the requests.
    #[must_use]
    pub fn with_burns(self, burns: Vec<Burn>) -> Self {
        Self { burns, ..self }
    }

    /// Returns the address, with the port that was found if it was 0.
    pub fn address(&self) -> &Address {
        self.listener.address()
    }

    /// Answers every request until `stop` becomes readable.
    pub fn serve<D: Responder>(&self, replies: D::Replies, stop: &UnixStream) -> std::io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, self.listener.as_fd(), EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let mut event_loop = EventLoop::<D> {
            epoll,
            peers: Vec::new(),
            free: Vec::new(),
            replies,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            is_accept_paused: false,
            burns: self.burns.clone(),
        };
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            match epoll::wait(&event_loop.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return Ok(()),
                    LISTENER => event_loop.accept_all(self.listener.as_fd())?,
                    slot => event_loop.on_event(usize::try_from(slot).unwrap_or(usize::MAX), event.flags),
                }
            }
            if event_loop.is_accept_paused && !event_loop.free.is_empty() {
                event_loop.accept_all(self.listener.as_fd())?;
            }
        }
    }
}

/// Error of a request whose end cannot be found; the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unparsable;

/// Replies to the requests of one connection.
pub trait Responder: Default {
    /// Bytes of the replies, the same for all connections.
    type Replies;

    /// Reads requests, and notes which replies are due. Returns the number of requests that have become whole.
    fn on_input(&mut self, input: &[u8], replies: &Self::Replies) -> Result<u64, Unparsable>;

    /// Returns the next stretch of the output, empty if all has been sent.
    fn front<'a>(&'a mut self, replies: &'a Self::Replies) -> &'a [u8];

    /// Takes note that `sent` bytes of the front have left.
    fn advance(&mut self, sent: usize, replies: &Self::Replies);

    /// Returns true if the connection ends with the last pending reply.
    fn closes_when_sent(&self) -> bool {
        false
    }
}

struct EventLoop<D: Responder> {
    epoll: OwnedFd,
    peers: Vec<Option<Peer<D>>>,
    free: Vec<usize>,
    replies: D::Replies,
    buffer: Box<[u8]>,
    /// No descriptor was left; accepting goes on when one has come free.
    is_accept_paused: bool,
    burns: Vec<Burn>,
}

struct Peer<D> {
    socket: OwnedFd,
    responder: D,
    is_waiting_for_room: bool,
    /// Everything has been said, and the client has been told so: what it still sends is discarded until it closes.
    is_lingering: bool,
}

impl<D: Responder> EventLoop<D> {
    fn accept_all(&mut self, listener: BorrowedFd<'_>) -> std::io::Result<()> {
        self.is_accept_paused = false;
        loop {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => self.register(socket)?,
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

    fn register(&mut self, socket: OwnedFd) -> std::io::Result<()> {
        // Not a TCP socket, perhaps; then there is nothing to switch off.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), interest(false))?;
        self.peers[slot] =
            Some(Peer { socket, responder: D::default(), is_waiting_for_room: false, is_lingering: false });
        Ok(())
    }

    fn on_event(&mut self, slot: usize, flags: EventFlags) {
        let Some(peer) = self.peers.get_mut(slot).and_then(Option::as_mut) else { return };
        if peer.serve(slot, flags, &self.epoll, &self.replies, &mut self.buffer, &mut self.burns).is_err() {
            self.peers[slot] = None;
            self.free.push(slot);
        }
    }
}

/// Error that ends a connection.
struct Closed;

impl From<Unparsable> for Closed {
    fn from(_: Unparsable) -> Self {
        Self
    }
}

impl From<Errno> for Closed {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl<D: Responder> Peer<D> {
    fn serve(
        &mut self,
        slot: usize,
        flags: EventFlags,
        epoll: &OwnedFd,
        replies: &D::Replies,
        buffer: &mut [u8],
        burns: &mut [Burn],
    ) -> Result<(), Closed> {
        let has_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        loop {
            self.flush(slot, epoll, replies)?;
            // What is owed must go before more is taken in; room will be an event.
            if self.is_waiting_for_room {
                return Ok(());
            }
            let length = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Closed),
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if self.is_lingering {
                continue;
            }
            let requests = self.responder.on_input(&buffer[..length], replies)?;
            burns.iter_mut().for_each(|burn| burn.spend(requests));
            if length < buffer.len() && !has_end {
                self.flush(slot, epoll, replies)?;
                if !self.is_waiting_for_room {
                    return Ok(());
                }
            }
        }
    }

    fn flush(&mut self, slot: usize, epoll: &OwnedFd, replies: &D::Replies) -> Result<(), Closed> {
        loop {
            let front = self.responder.front(replies);
            if front.is_empty() {
                if self.responder.closes_when_sent() && !self.is_lingering {
                    self.end_connection()?;
                }
                return self.wait_for_room(false, slot, epoll);
            }
            match send(&self.socket, front, SendFlags::NOSIGNAL) {
                Ok(sent) => self.responder.advance(sent, replies),
                Err(Errno::AGAIN) => return self.wait_for_room(true, slot, epoll),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Closes the connection if the client has got everything, and otherwise only this side of it: closing a socket whose
    /// client still sends is a reset, which can overtake the end of the reply.
    fn end_connection(&mut self) -> Result<(), Closed> {
        if sys::socket::end_if_acknowledged(self.socket.as_fd()) {
            return Err(Closed);
        }
        sys::socket::shutdown_write(self.socket.as_fd());
        self.is_lingering = true;
        Ok(())
    }

    fn wait_for_room(&mut self, waits: bool, slot: usize, epoll: &OwnedFd) -> Result<(), Closed> {
        if self.is_waiting_for_room != waits {
            self.is_waiting_for_room = waits;
            epoll::modify(epoll, &self.socket, EventData::new_u64(slot as u64), interest(waits))?;
        }
        Ok(())
    }
}

fn interest(is_waiting_for_room: bool) -> EventFlags {
    let base = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if is_waiting_for_room { base | EventFlags::OUT } else { base }
}
