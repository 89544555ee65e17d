//! How a thread talks to the kernel: by readiness (epoll), or by completions (a ring).

use std::{os::fd::AsFd as _, time::Duration};

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
};
use sys::ring::{Completion, Event, StreamRing};

use super::super::{
    super::{EngineError, EngineKind},
    Worker,
    connection::Stage,
    dialer::READ_INTEREST,
    exchange::Fate,
};
use crate::{
    clock::{self, Nanos},
    protocol::ClientProtocol,
};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Buffers of finished sends that are kept for the next ones, and how large one may be.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 64 << 10;

/// Where events come from.
pub(in super::super) enum Kernel {
    Epoll { epoll: OwnedFd, events: Vec<epoll::Event> },
    Uring { ring: Box<StreamRing>, done: Vec<Completion>, spare: Vec<Vec<u8>> },
}

impl Kernel {
    pub(in super::super) fn new(kind: EngineKind) -> Result<Self, EngineError> {
        match kind {
            EngineKind::Epoll => {
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(EngineError::Epoll)?;
                Ok(Self::Epoll { epoll, events: Vec::with_capacity(EVENTS_MAX) })
            }
            EngineKind::Uring => {
                let ring = StreamRing::new().map_err(EngineError::Ring)?;
                Ok(Self::Uring { ring: Box::new(ring), done: Vec::new(), spare: Vec::new() })
            }
        }
    }
}

impl<P: ClientProtocol> Worker<'_, P> {
    /// Sleeps until something happens, for `timeout` nanoseconds at most, and deals with it.
    pub(in super::super) fn wait(&mut self, timeout: Nanos) -> Result<(), EngineError> {
        match &mut self.kernel {
            Kernel::Epoll { epoll, events } => {
                // Nothing that refers to them waits to be submitted.
                self.closing.clear();
                events.clear();
                let until = clock::timespec(timeout);
                match epoll::wait(epoll, rustix::buffer::spare_capacity(events), Some(&until)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(EngineError::Wait(error)),
                }
                let mut taken = std::mem::take(events);
                self.gather(taken.len());
                for event in taken.drain(..) {
                    self.on_event(event.data.u64(), event.flags);
                }
                self.send_gathered();
                if let Kernel::Epoll { events, .. } = &mut self.kernel {
                    *events = taken;
                }
            }
            Kernel::Uring { ring, done, .. } => {
                ring.wait(Duration::from_nanos(timeout), done).map_err(EngineError::RingWait)?;
                self.closing.clear();
                let mut taken = std::mem::take(done);
                for completion in taken.drain(..) {
                    self.on_completion(completion);
                }
                if let Kernel::Uring { done, .. } = &mut self.kernel {
                    // What a `submit_now` in between has reaped comes with the next turn.
                    taken.append(done);
                    *done = taken;
                }
            }
        }
        Ok(())
    }

    /// Something is left from the last turn.
    pub(in super::super) fn has_events(&self) -> bool {
        matches!(&self.kernel, Kernel::Uring { done, .. } if !done.is_empty())
    }

    /// Closes what waits to be closed, so that descriptors become free.
    pub(in super::super) fn close_now(&mut self) {
        if let Kernel::Uring { ring, done, .. } = &mut self.kernel {
            // An error comes again with the next wait.
            let _ = ring.wait(Duration::ZERO, done);
        }
        self.closing.clear();
    }

    /// Lets a fresh socket's events come: those of an attempt, or of a connection.
    pub(in super::super) fn watch(&mut self, slot: usize, is_pending: bool) -> Result<(), Errno> {
        let connection = &mut self.connections[slot];
        let token = token(slot, connection.generation);
        let Some(socket) = &connection.socket else { return Ok(()) };
        match &mut self.kernel {
            Kernel::Epoll { epoll, .. } => {
                let interest = if is_pending { super::super::dialer::WRITE_INTEREST } else { READ_INTEREST };
                epoll::add(epoll, socket, EventData::new_u64(token), interest)
            }
            Kernel::Uring { ring, .. } => {
                let socket = socket.as_fd();
                let ticket = if is_pending { ring.watch_writable(token, socket) } else { ring.receive(token, socket) };
                connection.receiving = Some(ticket);
                Ok(())
            }
        }
    }

    /// The attempt has succeeded: from now on only what arrives is of interest.
    pub(in super::super) fn watch_connected(&mut self, slot: usize) -> Result<(), Errno> {
        match self.kernel {
            Kernel::Epoll { .. } => self.set_interest(slot, READ_INTEREST),
            Kernel::Uring { .. } => self.watch(slot, false),
        }
    }

    /// Of readiness only: a ring waits for room by itself.
    pub(in super::super) fn set_interest(&self, slot: usize, interest: EventFlags) -> Result<(), Errno> {
        let connection = &self.connections[slot];
        match (&self.kernel, &connection.socket) {
            (Kernel::Epoll { epoll, .. }, Some(socket)) => {
                let data = EventData::new_u64(token(slot, connection.generation));
                epoll::modify(epoll, socket, data, interest)
            }
            (Kernel::Epoll { .. }, None) | (Kernel::Uring { .. }, _) => Ok(()),
        }
    }

    /// Ends what the kernel still does with the slot's socket.
    pub(in super::super) fn unwatch(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if let Kernel::Uring { ring, .. } = &mut self.kernel {
            let tickets = [connection.receiving.take(), connection.sending.take()];
            tickets.into_iter().flatten().for_each(|ticket| ring.cancel(ticket));
        }
    }

    /// Gives the burst to the ring; behind a send that is under way it waits for its turn.
    #[inline]
    pub(in super::super) fn submit_burst(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        let Kernel::Uring { ring, spare, .. } = &mut self.kernel else { return };
        let Some(socket) = &connection.socket else { return };
        if connection.sending.is_some() {
            return connection.unsent.push(&self.burst);
        }
        let bytes = std::mem::replace(&mut self.burst, spare.pop().unwrap_or_default());
        connection.sending = Some(ring.send(token(slot, connection.generation), socket.as_fd(), bytes));
    }

    fn on_completion(&mut self, completion: Completion) {
        let (slot, generation) = parts(completion.token);
        let is_ours = self.connections[slot].generation == generation;
        match completion.event {
            Event::Writable if is_ours => {
                if matches!(self.connections[slot].stage, Stage::Connecting { .. }) {
                    self.decide_attempt(slot, clock::now());
                }
            }
            Event::Writable => {}
            Event::Received { bytes, is_armed } => {
                if is_ours && !is_armed {
                    self.connections[slot].receiving = None;
                }
                let fate = if is_ours { self.received(slot, &bytes) } else { Fate::Gone };
                if let (Ok(Some(filled)), Kernel::Uring { ring, .. }) = (bytes, &mut self.kernel) {
                    ring.give_back(filled);
                }
                if fate == Fate::Stays && !is_armed {
                    // A ring takes any request; what is wrong with the socket comes as its completion.
                    let _ = self.watch(slot, false);
                }
            }
            Event::Sent { bytes, outcome } => {
                // The reply may have been quicker, and the connection be gone.
                if let (Ok(sent), true) = (outcome, self.window.contains(clock::now())) {
                    self.tally.bytes_out += sent as u64;
                }
                if is_ours {
                    self.sent(slot, &bytes, outcome);
                }
                self.keep_spare(bytes);
            }
        }
    }

    #[inline]
    fn received(&mut self, slot: usize, bytes: &Result<Option<sys::ring::Filled>, Errno>) -> Fate {
        let now = clock::now();
        match bytes {
            Ok(Some(input)) => {
                if self.arrived(slot, input, now) == Fate::Gone {
                    return Fate::Gone;
                }
                self.serve_schedule(slot, now);
                Fate::Stays
            }
            Ok(None) => {
                self.on_eof(slot, now);
                Fate::Gone
            }
            Err(Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => Fate::Stays,
            Err(error) => {
                self.on_read_error(slot, *error, now);
                Fate::Gone
            }
        }
    }

    fn sent(&mut self, slot: usize, bytes: &[u8], outcome: Result<usize, Errno>) {
        let connection = &mut self.connections[slot];
        connection.sending = None;
        let sent = match outcome {
            Ok(sent) => sent,
            Err(Errno::INTR | Errno::AGAIN | Errno::INPROGRESS) => 0,
            Err(_) => return self.write_broke(slot),
        };
        if sent < bytes.len() {
            connection.unsent.put_back(&bytes[sent..]);
        }
        if connection.unsent.rest().is_empty() {
            return;
        }
        let (Kernel::Uring { ring, spare, .. }, Some(socket)) = (&mut self.kernel, &connection.socket) else { return };
        let bytes = connection.unsent.take(spare.pop().unwrap_or_default());
        connection.sending = Some(ring.send(token(slot, connection.generation), socket.as_fd(), bytes));
    }

    fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        if let Kernel::Uring { spare, .. } = &mut self.kernel
            && spare.len() < SPARE_MAX
            && bytes.capacity() <= SPARE_BYTES_MAX
        {
            bytes.clear();
            spare.push(bytes);
        }
    }
}

/// What an event is told by: the slot, and which of its sockets.
fn token(slot: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | slot as u64
}

#[expect(clippy::cast_possible_truncation, reason = "taken apart as it was put together")]
pub(in super::super) fn parts(token: u64) -> (usize, u32) {
    ((token & u64::from(u32::MAX)) as usize, (token >> 32) as u32)
}
