//! The floor: a server that does nothing but answer, to tell what sockets alone cost.
//!
//! One thread, edge-triggered epoll, and replies that depend on nothing but the kind of the request. All that arrives
//! at once is answered with one `send`. Only a message queue has another floor: [`NullQueue`].

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

    /// Answers every request until `stop` becomes readable.
    pub fn serve<D: Responder>(&self, replies: D::Replies, stop: &UnixStream) -> std::io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, self.listener.as_fd(), EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let mut floor = Floor::<D> {
            epoll,
            peers: Vec::new(),
            free: Vec::new(),
            replies,
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

/// The end of a request cannot be told, and the connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unparsable;

/// What is said on one connection.
pub trait Responder: Default {
    /// What the answers are made of, the same for all connections.
    type Replies;

    /// Notes what has to be answered.
    fn take_in(&mut self, input: &[u8], replies: &Self::Replies) -> Result<(), Unparsable>;

    /// The next stretch of the output, empty if all has been sent.
    fn front<'a>(&'a mut self, replies: &'a Self::Replies) -> &'a [u8];

    /// `sent` bytes of the front have left.
    fn advance(&mut self, sent: usize, replies: &Self::Replies);

    /// Nothing comes after what is owed: the connection ends with it.
    fn is_last(&self) -> bool {
        false
    }
}

struct Floor<D: Responder> {
    epoll: OwnedFd,
    peers: Vec<Option<Peer<D>>>,
    free: Vec<usize>,
    replies: D::Replies,
    buffer: Box<[u8]>,
    /// No descriptor was left; tried again when one has come free.
    is_accept_paused: bool,
}

struct Peer<D> {
    socket: OwnedFd,
    dialogue: D,
    waits_for_room: bool,
}

impl<D: Responder> Floor<D> {
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
        self.peers[slot] = Some(Peer { socket, dialogue: D::default(), waits_for_room: false });
        Ok(())
    }

    fn turn(&mut self, slot: usize, flags: EventFlags) {
        let Some(peer) = self.peers.get_mut(slot).and_then(Option::as_mut) else { return };
        if peer.turn(slot, flags, &self.epoll, &self.replies, &mut self.buffer).is_err() {
            self.peers[slot] = None;
            self.free.push(slot);
        }
    }
}

/// The connection is over.
struct Over;

impl From<Unparsable> for Over {
    fn from(_: Unparsable) -> Self {
        Self
    }
}

impl From<Errno> for Over {
    fn from(_: Errno) -> Self {
        Self
    }
}

impl<D: Responder> Peer<D> {
    fn turn(
        &mut self,
        slot: usize,
        flags: EventFlags,
        epoll: &OwnedFd,
        replies: &D::Replies,
        buffer: &mut [u8],
    ) -> Result<(), Over> {
        let has_end = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        loop {
            self.flush(slot, epoll, replies)?;
            // What is owed must go before more is taken in; room will be an event.
            if self.waits_for_room {
                return Ok(());
            }
            let length = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Over),
                Ok((length, _)) => length,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            self.dialogue.take_in(&buffer[..length], replies)?;
            if length < buffer.len() && !has_end {
                self.flush(slot, epoll, replies)?;
                if !self.waits_for_room {
                    return Ok(());
                }
            }
        }
    }

    fn flush(&mut self, slot: usize, epoll: &OwnedFd, replies: &D::Replies) -> Result<(), Over> {
        loop {
            let front = self.dialogue.front(replies);
            if front.is_empty() {
                if self.dialogue.is_last() {
                    return Err(Over);
                }
                return self.wait_for_room(false, slot, epoll);
            }
            match send(&self.socket, front, SendFlags::NOSIGNAL) {
                Ok(sent) => self.dialogue.advance(sent, replies),
                Err(Errno::AGAIN) => return self.wait_for_room(true, slot, epoll),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
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
