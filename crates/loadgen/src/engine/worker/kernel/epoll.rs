//! The requests of one turn of a closed loop on epoll: everything that has arrived is read first, then everything is sent.
//!
//! The kernel's way of receiving and its way of sending share little code, and taking turns with each reply costs
//! refetching both. A reply is also stamped sooner if no request has to leave before it is read.

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

use super::super::Worker;
use crate::{
    clock::{self, Nanos},
    protocol::ClientProtocol,
};

/// More than this leaves at once: it would only be copied.
const GATHERED_BYTES_MAX: usize = 4 << 10;

/// Who has something to send when the turn is over.
#[derive(Debug, Default)]
pub(in super::super) struct Gathering {
    /// When the turn began, while there is one. What is stamped as sent after that has not been.
    since: Option<Nanos>,
    /// Slots, and the generation of their sockets.
    slots: Vec<(usize, u32)>,
}

impl<P: ClientProtocol> Worker<'_, P> {
    /// From here on requests wait for [`Self::send_gathered`]. A schedule's do not: they are due.
    pub(in super::super) fn gather(&mut self, events: usize) {
        if events > 1 && self.schedule.is_none() {
            self.gathering.since = Some(clock::now());
        }
    }

    /// Puts the burst aside, if that pays. The connection has nothing else unsent.
    #[inline]
    pub(in super::super) fn is_gathered(&mut self, slot: usize) -> bool {
        if self.gathering.since.is_none() || self.burst.len() > GATHERED_BYTES_MAX {
            return false;
        }
        let connection = &mut self.connections[slot];
        connection.unsent.push(&self.burst);
        self.gathering.slots.push((slot, connection.generation));
        true
    }

    /// The turn is over.
    pub(in super::super) fn send_gathered(&mut self) {
        let Some(since) = self.gathering.since.take() else { return };
        let mut slots = std::mem::take(&mut self.gathering.slots);
        for (slot, generation) in slots.drain(..) {
            let connection = &self.connections[slot];
            // The socket may have gone meanwhile, and its requests with it.
            if connection.generation == generation && !connection.unsent.rest().is_empty() {
                self.send_late(slot, since);
            }
        }
        self.gathering.slots = slots;
    }

    #[inline]
    fn send_late(&mut self, slot: usize, since: Nanos) {
        let now = clock::now();
        let connection = &mut self.connections[slot];
        connection.sent_only_now(since, now);
        let Some(socket) = &connection.socket else { return };
        match send(socket, connection.unsent.rest(), SendFlags::NOSIGNAL) {
            Ok(length) => {
                connection.unsent.advance(length);
                if self.window.contains(now) {
                    self.tally.bytes_out += length as u64;
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return self.write_broke(slot),
        }
        if !self.connections[slot].unsent.rest().is_empty() && self.wait_for_room(slot).is_err() {
            self.write_broke(slot);
        }
    }
}
