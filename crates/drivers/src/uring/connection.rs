//! One connection on a ring.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::Waker,
};

use proto::{Outbox, Protocol, Segment, Session, Taken};
use rustix::io::Errno;
use sys::{registered::Region, socket};

use super::{
    Desk,
    ring::{Done, Op},
    sending::PIECES_MAX,
};
use crate::{
    accept::Ticket,
    arrived::read_arrived,
    farewell::end_output,
    mailbox::Key,
    wheel::Alarm,
    write::{WRITE_MAX, write_front},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    Off,
    Armed,
    Cancelling,
}

pub(super) struct Slot<P: Protocol> {
    socket: OwnedFd,
    /// `None` only while a batch is being answered.
    pub(super) session: Option<Box<Session<P>>>,
    receive: Receive,
    /// A send or a wait for the socket is in flight; what comes next waits for it.
    busy: bool,
    broken: bool,
    pub(super) dirty: bool,
    pub(super) draining: bool,
    pub(super) alarm: Alarm,
    /// Made when a promise first keeps us waiting.
    waker: Option<Waker>,
    _ticket: Ticket,
}

impl<P: Protocol> Slot<P> {
    pub(super) fn new(socket: OwnedFd, session: Box<Session<P>>, ticket: Ticket, draining: bool) -> Self {
        Self {
            socket,
            session: Some(session),
            receive: Receive::Off,
            busy: false,
            broken: false,
            dirty: false,
            draining,
            alarm: Alarm::default(),
            waker: None,
            _ticket: ticket,
        }
    }

    pub(super) fn session_mut(&mut self) -> &mut Session<P> {
        self.session.as_mut().expect("batches give sessions back before anything else happens")
    }

    /// What a receive says beside its bytes.
    pub(super) fn received(&mut self, done: Done) {
        if !done.more {
            self.receive = Receive::Off;
        }
        match done.result() {
            Ok(0) => self.session_mut().end_of_input(),
            // Out of buffers, or cancelled: armed again when there is something to read for.
            Ok(_) | Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.broken = true,
        }
    }

    /// A send or a wait for the socket has come to its end.
    pub(super) fn complete(&mut self, done: Done, desk: &mut Desk<'_, P>) {
        let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
        if done.op == Op::Writable {
            self.busy = desk.ring.resend(done.key, self.socket.as_fd());
            return;
        }
        if let Ok(n) = done.result() {
            desk.tally.0.bytes_out += n as u64;
            session.sent(desk.now);
        }
        if let Some(sent) = desk.ring.sent(done, self.socket.as_fd(), |segment| session.outbox().recycle(segment)) {
            self.busy = false;
            self.broken |= sent.is_err();
            session.outbox().return_buffer(&mut desk.buffers);
        }
    }

    /// Starts what can be started; false when the connection is at its end.
    pub(super) fn turn(&mut self, key: usize, desk: &mut Desk<'_, P>) -> bool {
        // A broken connection is the peer's affair; nothing to report.
        self.broken |= self.write(key, desk).is_err();
        while self.draining && self.receive == Receive::Off && !self.broken && self.session_mut().wants_read() {
            // The receive may have been cancelled before it saw everything.
            let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
            let read = read_arrived(self.socket.as_fd(), session, desk.protocol, desk.now, &mut desk.tally);
            self.broken |= read.and_then(|()| self.write(key, desk)).is_err();
        }
        let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
        end_output(session, self.socket.as_fd(), desk.now);
        // All may have been written just as this turn's share was used up: held input has not had its chance then.
        let is_unanswered = self.busy && session.has_input() && !session.is_aborted();
        let finished = self.broken || session.is_done() && !is_unanswered;
        let reading = !finished && !self.draining && session.wants_read();
        match self.receive {
            Receive::Off if reading => {
                desk.ring.receive(key, self.socket.as_fd());
                self.receive = Receive::Armed;
            }
            // A multishot receive cannot pause.
            Receive::Armed if !reading => {
                desk.ring.cancel(Op::Receive, key);
                self.receive = Receive::Cancelling;
            }
            Receive::Off | Receive::Armed | Receive::Cancelling => {}
        }
        if finished && self.busy {
            // A send to a peer that takes nothing ends only so.
            socket::shutdown_both(self.socket.as_fd());
        }
        !finished
    }

    /// The kernel no longer reads or writes on our behalf, so no completion can meet the next peer in this slot.
    pub(super) fn is_free(&self) -> bool {
        !self.busy && self.receive == Receive::Off
    }

    /// One operation of the ring, or plain writes until the socket is full.
    fn write(&mut self, key: usize, desk: &mut Desk<'_, P>) -> io::Result<()> {
        let Self { socket, session: Some(session), busy, broken: false, waker, .. } = self else { return Ok(()) };
        let mut quota = WRITE_MAX;
        while !*busy && !session.is_aborted() {
            if session.outbox().is_empty() {
                session.resume(desk.protocol, desk.now);
                if session.outbox().is_empty() {
                    return Ok(());
                }
            }
            if !leaves_by_ring(session.outbox(), desk.ring.registered()) {
                match write_front(socket.as_fd(), session.outbox(), &mut desk.pipes) {
                    Ok(n) => {
                        desk.tally.0.bytes_out += n as u64;
                        session.sent(desk.now);
                        quota = quota.saturating_sub(n);
                        if quota == 0 {
                            // The ring comes back to it once the others have had their turn.
                            desk.ring.wait_writable(key, socket.as_fd());
                            *busy = true;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        desk.ring.wait_writable(key, socket.as_fd());
                        *busy = true;
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            if desk.ring.send(key, socket.as_fd(), |segments| take_memory(session, segments)) {
                *busy = true;
                return Ok(());
            }
            let waker = waker.get_or_insert_with(|| desk.mailbox.waker(Key(key)));
            if session.outbox().poll_reply(waker).is_pending() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What a file or pipe follows leaves with it by plain calls, unless it is to be sent without being copied.
fn leaves_by_ring(outbox: &Outbox, registered: Option<&Region>) -> bool {
    !outbox.has_more_after_memory()
        || registered.is_some_and(|region| outbox.memory().any(|bytes| region.contains(bytes)))
}

/// Memory to be sent at once: all there is before a promise, a file or a pipe.
fn take_memory<P: Protocol>(session: &mut Session<P>, segments: &mut Vec<Segment>) {
    while segments.len() < PIECES_MAX
        && !session.outbox().is_file_next()
        // Asked here, and not only by the taking: a promise kept in between may turn out to be a file.
        && !session.outbox().is_waiting()
        && let Taken::Segment(segment) = session.outbox().take()
    {
        segments.push(segment);
    }
}
