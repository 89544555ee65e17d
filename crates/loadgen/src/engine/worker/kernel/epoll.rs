//! Readiness: one edge-triggered epoll, and calls of send(2).
//!
//! In a closed loop the requests of one wake-up leave together: everything that has arrived is read first, then
//! everything is sent. The kernel's way of receiving and its way of sending share little code, and alternating between
//! them with each reply costs refetching both. A reply is also stamped sooner if no request has to leave before it is
//! read.

use std::collections::VecDeque;

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
    net::{SendFlags, send},
};

use super::{
    super::{super::error::EngineError, recorder::StatsRecorder},
    link::{Link, SocketId},
};
use crate::clock::{self, Nanos};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// More than this leaves at once: coalescing it would only be a copy.
const COALESCED_BYTES_MAX: usize = 4 << 10;

const READ_INTEREST: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const WRITE_INTEREST: EventFlags = READ_INTEREST.union(EventFlags::OUT);

/// An epoll instance, and the sockets that have to be visited without an event of it.
pub(super) struct Epoll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// False for an open loop, whose requests are due at once.
    coalesces_sends: bool,
    /// Beginning of the wake-up whose requests are being coalesced. What was stamped as sent after it has not been.
    coalescing_since: Option<Nanos>,
    coalesced: VecDeque<SocketId>,
    /// Sockets with something left to read that the kernel will not report again.
    unread: Vec<SocketId>,
}

impl Epoll {
    pub(super) fn new(coalesces_sends: bool) -> Result<Self, EngineError> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(EngineError::Epoll)?,
            events: Vec::with_capacity(EVENTS_MAX),
            coalesces_sends,
            coalescing_since: None,
            coalesced: VecDeque::new(),
            unread: Vec::new(),
        })
    }

    /// Sleeps for `timeout` nanoseconds at most. The events go back by [`Self::put_back`].
    pub(super) fn wait(&mut self, timeout: Nanos) -> Result<Vec<epoll::Event>, EngineError> {
        let until = clock::timespec(timeout);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&until)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(EngineError::Wait(error)),
        }
        if self.coalesces_sends && self.events.len() > 1 {
            self.coalescing_since = Some(clock::now());
        }
        Ok(std::mem::take(&mut self.events))
    }

    pub(super) fn put_back(&mut self, mut events: Vec<epoll::Event>) {
        events.clear();
        self.events = events;
    }

    pub(super) fn watch(&self, link: &Link, is_pending: bool) -> Result<(), Errno> {
        let Some(socket) = &link.socket else { return Ok(()) };
        let interest = if is_pending { WRITE_INTEREST } else { READ_INTEREST };
        epoll::add(&self.epoll, socket, EventData::new_u64(link.id.token()), interest)
    }

    /// Waits for input only, or for room in the socket as well.
    fn set_interest(&self, link: &Link, interest: EventFlags) -> Result<(), Errno> {
        match &link.socket {
            Some(socket) => epoll::modify(&self.epoll, socket, EventData::new_u64(link.id.token()), interest),
            None => Ok(()),
        }
    }

    /// Waits for input only: the attempt to connect has succeeded.
    pub(super) fn watch_connected(&self, link: &Link) -> Result<(), Errno> {
        self.set_interest(link, READ_INTEREST)
    }

    #[inline]
    pub(super) fn send(&mut self, link: &mut Link, burst: &[u8], recorder: &mut StatsRecorder<'_>, now: Nanos) {
        if link.has_unsent() {
            return link.unsent.push(burst);
        }
        if self.coalescing_since.is_some() && burst.len() <= COALESCED_BYTES_MAX {
            link.unsent.push(burst);
            return self.coalesced.push_back(link.id);
        }
        let Some(socket) = &link.socket else { return };
        match send(socket, burst, SendFlags::NOSIGNAL) {
            Ok(length) => {
                recorder.add_sent(length, now);
                if length < burst.len() {
                    self.keep_unsent(link, &burst[length..]);
                }
            }
            // Nothing fitted into the SYN of a fast open.
            Err(Errno::AGAIN | Errno::INTR | Errno::INPROGRESS) => self.keep_unsent(link, burst),
            Err(_) => self.on_broken_write(link),
        }
    }

    #[cold]
    fn keep_unsent(&mut self, link: &mut Link, rest: &[u8]) {
        link.unsent.push(rest);
        self.wait_for_room(link);
    }

    #[cold]
    fn wait_for_room(&mut self, link: &mut Link) {
        if self.set_interest(link, WRITE_INTEREST).is_err() {
            self.on_broken_write(link);
        }
    }

    /// Sends what has waited for room.
    #[cold]
    pub(super) fn send_unsent(&mut self, link: &mut Link, recorder: &mut StatsRecorder<'_>) {
        let now = clock::now();
        while link.has_unsent() {
            let Some(socket) = &link.socket else { return };
            match send(socket, link.unsent.rest(), SendFlags::NOSIGNAL) {
                Ok(length) => {
                    link.unsent.advance(length);
                    recorder.add_sent(length, now);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.on_broken_write(link),
            }
        }
        if self.set_interest(link, READ_INTEREST).is_err() {
            self.on_broken_write(link);
        }
    }

    /// Ends the coalescing. Returns the next socket whose requests have waited for that, and since when.
    #[inline]
    pub(super) fn next_coalesced(&mut self) -> Option<(SocketId, Nanos)> {
        let since = self.coalescing_since?;
        let next = self.coalesced.pop_front();
        if next.is_none() {
            self.coalescing_since = None;
        }
        next.map(|id| (id, since))
    }

    #[inline]
    pub(super) fn send_coalesced(&mut self, link: &mut Link, recorder: &mut StatsRecorder<'_>, now: Nanos) {
        let Some(socket) = &link.socket else { return };
        match send(socket, link.unsent.rest(), SendFlags::NOSIGNAL) {
            Ok(length) => {
                link.unsent.advance(length);
                recorder.add_sent(length, now);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return self.on_broken_write(link),
        }
        if link.has_unsent() {
            self.wait_for_room(link);
        }
    }

    /// Has the socket read once more: replies may have arrived before the end, and decide what the rest failed of.
    #[cold]
    fn on_broken_write(&mut self, link: &mut Link) {
        link.is_write_broken = true;
        link.unsent.clear();
        self.unread.push(link.id);
    }

    pub(super) fn read_later(&mut self, link: &Link) {
        self.unread.push(link.id);
    }

    pub(super) fn take_unread(&mut self) -> Vec<SocketId> {
        std::mem::take(&mut self.unread)
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }
}
