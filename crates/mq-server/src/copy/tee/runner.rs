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
    group::{Group, Joiner, MemberHandle, Reserved},
    pass::{Departure, Need, Pass},
};

/// A pass with its file, its pipe and its members.
pub(super) struct PassRunner {
    group: Arc<Group>,
    file: OwnedFd,
    /// Pipe that all members share: it holds the present window, or nothing.
    reader: OwnedFd,
    writer: OwnedFd,
    holds: u64,
    null: File,
    wake: Arc<EventFd>,
    begun: Instant,
    pass: Pass,
    members: BTreeMap<usize, Sink>,
    /// False until [`PassRunner::run`]. Before that the group may be locked by the thread that starts the pass.
    is_running: bool,
    _reserved: Reserved,
}

/// A member's FIFO.
struct Sink {
    handle: Arc<MemberHandle>,
    /// True if it was full; poll tells when it is no longer.
    is_full: bool,
}

impl PassRunner {
    /// `pipe` is reader, writer and capacity of the pipe that all members share.
    pub(super) fn new(
        group: Arc<Group>,
        file: OwnedFd,
        (reader, writer, capacity): (OwnedFd, OwnedFd, usize),
        wake: Arc<EventFd>,
        reserved: Reserved,
    ) -> io::Result<Self> {
        let null = File::options().write(true).open("/dev/null")?;
        let pass = Pass::new(group.of().size, group.capacity().min(capacity as u64), Duration::ZERO);
        let (begun, members) = (Instant::now(), BTreeMap::new());
        Ok(Self {
            group,
            file,
            reader,
            writer,
            holds: 0,
            null,
            wake,
            begun,
            pass,
            members,
            is_running: false,
            _reserved: reserved,
        })
    }

    pub(super) fn run(mut self) {
        self.is_running = true;
        loop {
            self.admit();
            if self.members.is_empty() && self.group.end_unless_joined() {
                return;
            }
            for key in self.pass.late_members(self.now()) {
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

    fn admit(&mut self) {
        for Joiner { handle, at, credit } in self.group.admit(self.pass.base(), self.members.len()) {
            let key = self.pass.join(at, credit, self.now());
            self.members.insert(key, Sink { handle, is_full: false });
        }
        // There is no other transfer to share the pass with.
        if self.members.len() == 1
            && !self.group.has_more_than(1)
            && let Some(&key) = self.members.keys().next()
        {
            self.release(key);
        }
    }

    /// Moves to a window, and fills the pipe with it if several members need all of it.
    ///
    /// # Errors
    /// The file is not what it was.
    fn open(&mut self, base: u64, len: u64) -> io::Result<()> {
        self.empty()?;
        let mut len = len;
        if self.pass.takers(base) > 1 {
            self.holds = transfer::splice_in(&self.file, base, &self.writer, len)? as u64;
            // The pipe holds pages. They are those of the file only if it is still the same afterwards.
            if self.holds == 0 || Metadata::of(&self.file).ok().as_ref() != Some(self.group.of()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            len = self.holds;
        }
        self.pass.open(base, len, self.now());
        self.members.values_mut().for_each(|member| member.is_full = false);
        Ok(())
    }

    fn empty(&mut self) -> io::Result<()> {
        while self.holds > 0 {
            self.holds -= transfer::splice_out(self.reader.as_fd(), self.null.as_fd(), self.holds, false)? as u64;
        }
        Ok(())
    }

    /// Gives each member the bytes that it needs, as far as its FIFO has room. True if any moved.
    fn serve(&mut self) -> bool {
        let mut has_moved = false;
        let keys: Vec<usize> = self.members.iter().filter(|(_, member)| !member.is_full).map(|(&key, _)| key).collect();
        for key in keys {
            has_moved |= self.serve_one(key);
        }
        has_moved
    }

    fn serve_one(&mut self, key: usize) -> bool {
        let Some(member) = self.members.get_mut(&key) else { return false };
        let counts = self.group.counts();
        let (count, wanted, moved) = match self.pass.need(key) {
            Need::Nothing => return false,
            Need::Window { len } if self.holds > 0 => {
                let tee = |sink: &Writer| transfer::tee(self.reader.as_fd(), sink.as_fd(), len);
                (&counts.teed, len, member.handle.fill(tee))
            }
            Need::Window { len } => {
                let splice = |sink: &Writer| transfer::splice_in(&self.file, self.pass.base(), sink, len);
                (&counts.caught_up, len, member.handle.fill(splice))
            }
            Need::Bytes { offset, len } => {
                let splice = |sink: &Writer| transfer::splice_in(&self.file, offset, sink, len);
                (&counts.caught_up, len, member.handle.fill(splice))
            }
        };
        match moved {
            Some(Ok(n @ 1..)) => {
                member.is_full = n < wanted || n == self.group.capacity();
                count.fetch_add(n, Ordering::Relaxed);
                if self.pass.record(key, n, self.now()) {
                    self.release(key);
                }
                true
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                member.is_full = true;
                false
            }
            // The file has become shorter, or the reader is gone: the transfer finds out which.
            Some(Ok(0) | Err(_)) | None => {
                self.release(key);
                true
            }
        }
    }

    /// Waits until a FIFO has room for bytes that its member needs, a transfer joins or withdraws, or a member is late.
    fn wait(&mut self) {
        let waiting =
            self.members.iter().filter(|(key, member)| member.is_full && self.pass.need(**key) != Need::Nothing);
        let waiting: Vec<_> = waiting.filter_map(|(&key, member)| Some((key, member.handle.sink()?))).collect();
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        polled.extend(waiting.iter().map(|(_, sink)| PollFd::new(&**sink, PollFlags::OUT)));
        let timeout = self.pass.deadline().map(|deadline| deadline.saturating_sub(self.now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // An error (EINTR) is a wake-up like any other.
        let _ = poll(&mut polled, timeout.as_ref());
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        for ((key, _), _) in waiting.iter().zip(&ready[1..]).filter(|(_, is_ready)| **is_ready) {
            if let Some(member) = self.members.get_mut(key) {
                member.is_full = false;
            }
        }
        if ready[0] {
            self.wake.clear();
            let gone = self.members.iter().filter(|(_, member)| member.handle.is_withdrawn());
            for key in gone.map(|(&key, _)| key).collect::<Vec<_>>() {
                self.release(key);
            }
        }
    }

    /// Releases a member, which goes on alone.
    fn release(&mut self, key: usize) {
        if let (Some(departure), Some(member)) = (self.pass.leave(key), self.members.remove(&key)) {
            member.handle.release(departure);
        }
    }

    /// Releases all members, for good.
    fn give_up(&mut self) {
        self.group.close();
        for key in self.members.keys().copied().collect::<Vec<_>>() {
            self.release(key);
        }
    }
}

/// However the thread ends, no transfer waits for it for ever.
impl Drop for PassRunner {
    fn drop(&mut self) {
        if !self.is_running {
            return;
        }
        if !self.members.is_empty() || !self.group.end_unless_joined() {
            self.give_up();
            for Joiner { handle, at, credit } in self.group.admit(0, 0) {
                handle.release(Departure { at, credit });
            }
            self.group.end_unless_joined();
        }
    }
}
