//! The thread that moves the bytes of a pass.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::{beneath::Metadata, eventfd::EventFd, fifo::Writer, transfer};

use super::{
    group::{Carried, Group, Joining, Reserved},
    pass::{Left, Need, Pass},
};

pub(super) struct Carrier {
    group: Arc<Group>,
    file: OwnedFd,
    /// What all share: it holds the present window, or nothing.
    reader: OwnedFd,
    writer: OwnedFd,
    holds: u64,
    null: File,
    wake: Arc<EventFd>,
    begun: Instant,
    pass: Pass,
    seats: BTreeMap<usize, Seat>,
    _reserved: Reserved,
}

/// A member's FIFO.
struct Seat {
    carried: Arc<Carried>,
    /// It was full; poll tells when it no longer is.
    is_full: bool,
}

impl Carrier {
    /// `pipe` is its reader, its writer and what it has room for.
    pub(super) fn new(
        group: Arc<Group>,
        file: OwnedFd,
        (reader, writer, capacity): (OwnedFd, OwnedFd, usize),
        wake: Arc<EventFd>,
        reserved: Reserved,
    ) -> io::Result<Self> {
        let null = File::options().write(true).open("/dev/null")?;
        let pass = Pass::new(group.of().size, group.room().min(capacity as u64), Duration::ZERO);
        let (begun, seats) = (Instant::now(), BTreeMap::new());
        Ok(Self { group, file, reader, writer, holds: 0, null, wake, begun, pass, seats, _reserved: reserved })
    }

    pub(super) fn run(mut self) {
        loop {
            self.let_in();
            if self.seats.is_empty() && self.group.end_if_nobody_joins() {
                return;
            }
            for key in self.pass.late(self.now()) {
                self.release(key);
            }
            if let Some((base, len)) = self.pass.next_window()
                && let Err(_gone) = self.open(base, len)
            {
                self.give_up();
            }
            if !self.serve() {
                self.wait();
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn let_in(&mut self) {
        for Joining { carried, at, credit } in self.group.let_in(self.pass.base(), self.seats.len()) {
            let key = self.pass.join(at, credit, self.now());
            self.seats.insert(key, Seat { carried, is_full: false });
        }
        // Nobody to share with.
        if self.seats.len() == 1
            && !self.group.is_wanted_by_more_than(1)
            && let Some(&key) = self.seats.keys().next()
        {
            self.release(key);
        }
    }

    /// Moves to a window, and fills the pipe with it if several members want all of it.
    ///
    /// # Errors
    /// The file is not what it was.
    fn open(&mut self, base: u64, len: u64) -> io::Result<()> {
        self.empty()?;
        let mut len = len;
        if self.pass.takers(base) > 1 {
            self.holds = transfer::splice_in(&self.file, base, &self.writer, len)? as u64;
            // The pipe holds pages, and whose they are is only known if the file is still the same afterwards.
            if self.holds == 0 || Metadata::of(&self.file).ok().as_ref() != Some(self.group.of()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            len = self.holds;
        }
        self.pass.open(base, len, self.now());
        self.seats.values_mut().for_each(|seat| seat.is_full = false);
        Ok(())
    }

    fn empty(&mut self) -> io::Result<()> {
        while self.holds > 0 {
            self.holds -= transfer::splice_out(self.reader.as_fd(), self.null.as_fd(), self.holds, false)? as u64;
        }
        Ok(())
    }

    /// Gives each member what it needs, as far as its FIFO has room; whether anything moved.
    fn serve(&mut self) -> bool {
        let mut has_moved = false;
        let keys: Vec<usize> = self.seats.iter().filter(|(_, seat)| !seat.is_full).map(|(&key, _)| key).collect();
        for key in keys {
            has_moved |= self.serve_one(key);
        }
        has_moved
    }

    fn serve_one(&mut self, key: usize) -> bool {
        let Some(seat) = self.seats.get_mut(&key) else { return false };
        let counts = self.group.counts();
        let (count, wanted, moved) = match self.pass.need(key) {
            Need::Nothing => return false,
            Need::Window { len } if self.holds > 0 => {
                let tee = |sink: &Writer| transfer::tee(self.reader.as_fd(), sink.as_fd(), len);
                (&counts.teed, len, seat.carried.fill(tee))
            }
            Need::Window { len } => {
                let splice = |sink: &Writer| transfer::splice_in(&self.file, self.pass.base(), sink, len);
                (&counts.caught_up, len, seat.carried.fill(splice))
            }
            Need::Bytes { offset, len } => {
                let splice = |sink: &Writer| transfer::splice_in(&self.file, offset, sink, len);
                (&counts.caught_up, len, seat.carried.fill(splice))
            }
        };
        match moved {
            Some(Ok(n @ 1..)) => {
                seat.is_full = n < wanted || n == self.group.room();
                count.fetch_add(n, Ordering::Relaxed);
                if self.pass.took(key, n, self.now()) {
                    self.release(key);
                }
                true
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                seat.is_full = true;
                false
            }
            // The file has become shorter, or the reader is gone: the transfer will find out which.
            Some(Ok(0) | Err(_)) | None => {
                self.release(key);
                true
            }
        }
    }

    /// Waits until a FIFO that somebody needs has room, somebody comes or goes, or a member is too late.
    fn wait(&mut self) {
        let waiting = self.seats.iter().filter(|(key, seat)| seat.is_full && self.pass.need(**key) != Need::Nothing);
        let waiting: Vec<_> = waiting.filter_map(|(&key, seat)| Some((key, seat.carried.sink()?))).collect();
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(waiting.iter().map(|(_, sink)| PollFd::new(&**sink, PollFlags::OUT)));
        let timeout = self.pass.deadline().map(|deadline| deadline.saturating_sub(self.now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An error (EINTR) is a wake-up like any other.
        let _ = poll(&mut polled, timeout.as_ref());
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        for ((key, _), _) in waiting.iter().zip(&ready[1..]).filter(|(_, is_ready)| **is_ready) {
            if let Some(seat) = self.seats.get_mut(key) {
                seat.is_full = false;
            }
        }
        if ready[0] {
            self.wake.clear();
            let gone = self.seats.iter().filter(|(_, seat)| seat.carried.is_abandoned());
            for key in gone.map(|(&key, _)| key).collect::<Vec<_>>() {
                self.release(key);
            }
        }
    }

    /// Leaves a member to itself.
    fn release(&mut self, key: usize) {
        if let (Some(left), Some(seat)) = (self.pass.leave(key), self.seats.remove(&key)) {
            seat.carried.release(left);
        }
    }

    /// Leaves everybody to themselves, for good.
    fn give_up(&mut self) {
        self.group.close();
        for key in self.seats.keys().copied().collect::<Vec<_>>() {
            self.release(key);
        }
    }
}

/// However the thread ends, nobody waits for it for ever.
impl Drop for Carrier {
    fn drop(&mut self) {
        if !self.seats.is_empty() || !self.group.end_if_nobody_joins() {
            self.give_up();
            for Joining { carried, at, credit } in self.group.let_in(0, 0) {
                carried.release(Left { at, credit });
            }
            self.group.end_if_nobody_joins();
        }
    }
}
