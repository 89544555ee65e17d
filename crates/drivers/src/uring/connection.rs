//! One connection on a ring.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::Waker,
};

use proto::{Now, Outbox, Protocol, Segment, Session, Taken};
use rustix::io::Errno;
use sys::{registered::Region, socket};

use super::{
    LoopContext,
    ring::{Completion, Op},
    send::PIECES_MAX,
};
use crate::{
    accept::ConnectionPermit,
    arrived::read_arrived,
    clock,
    closing::end_output,
    mailbox::Key,
    peer::uptake,
    wheel::Timer,
    write::{WRITE_MAX, write_front},
};

/// The largest reply that a plain call sends: a socket takes that many bytes at once, unless its peer does not read.
const SHORT_MAX: u64 = 64 << 10;

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
    is_busy: bool,
    /// It has written its share of this turn, and goes on in the next one.
    pub(super) is_paused: bool,
    is_broken: bool,
    pub(super) is_dirty: bool,
    pub(super) is_draining: bool,
    pub(super) timer: Timer,
    /// Made when a promise first keeps us waiting.
    waker: Option<Waker>,
    _permit: ConnectionPermit,
}

impl<P: Protocol> Slot<P> {
    pub(super) fn new(socket: OwnedFd, session: Box<Session<P>>, permit: ConnectionPermit, is_draining: bool) -> Self {
        Self {
            socket,
            session: Some(session),
            receive: Receive::Off,
            is_busy: false,
            is_paused: false,
            is_broken: false,
            is_dirty: false,
            is_draining,
            timer: Timer::default(),
            waker: None,
            _permit: permit,
        }
    }

    pub(super) fn session_mut(&mut self) -> &mut Session<P> {
        self.session.as_mut().expect("batches give sessions back before anything else happens")
    }

    /// Does whatever is due.
    pub(super) fn tick(&mut self, protocol: &P, now: Now) {
        let Self { socket, session: Some(session), .. } = self else { return };
        session.tick(protocol, now, || uptake(socket));
    }

    /// True while the drain keeps it from reading: until what has arrived by then has been read.
    fn stops_reading(&mut self) -> bool {
        self.is_draining && !self.session_mut().is_draining()
    }

    /// Notes the end of a receive, or of the input.
    pub(super) fn received(&mut self, done: Completion) {
        if !done.has_more {
            self.receive = Receive::Off;
        }
        match done.result() {
            Ok(0) => self.session_mut().end_of_input(),
            // Out of buffers, or cancelled: armed again when there is something to read for.
            Ok(_) | Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.is_broken = true,
        }
    }

    /// A send or a wait for the socket has come to its end.
    pub(super) fn complete(&mut self, done: Completion, cx: &mut LoopContext<'_, P>) {
        let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
        if done.op == Op::Writable {
            self.is_busy = cx.ring.submit_send(done.key, self.socket.as_fd());
            return;
        }
        if let Ok(n) = done.result() {
            cx.tally.0.bytes_out += n as u64;
            session.sent(cx.now);
        }
        if let Some(sent) = cx.ring.sent(done, self.socket.as_fd(), session.outbox()) {
            self.is_busy = false;
            let can_go_on = sent == Err(Errno::FAULT) && session.outbox().fall_back_from_mappings();
            self.is_broken |= sent.is_err() && !can_go_on;
            session.report_sent(cx.protocol, clock::now);
            session.outbox().return_buffer(&mut cx.buffers);
        }
    }

    /// Starts what can be started; false when the connection is at its end.
    pub(super) fn move_bytes(&mut self, key: usize, cx: &mut LoopContext<'_, P>) -> bool {
        // Even while something is in flight: the connection may have to be cut off.
        self.take_pushes(key, cx);
        // A broken connection is the peer's affair; nothing to report.
        self.is_broken |= self.write(key, cx).is_err();
        while self.stops_reading() && self.receive == Receive::Off && !self.is_broken && self.session_mut().wants_read()
        {
            // The receive may have been cancelled before it saw everything.
            let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
            let read = read_arrived(self.socket.as_fd(), session, cx.protocol, cx.now, &mut cx.tally);
            self.is_broken |= read.and_then(|()| self.write(key, cx)).is_err();
        }
        let session = self.session.as_mut().expect("batches give sessions back before anything else happens");
        // A quiet connection holds none, or its next reply would be written to memory that nothing has touched since.
        session.outbox().return_buffer(&mut cx.buffers);
        end_output(session, self.socket.as_fd(), cx.now);
        // All may have been written just as this turn's share was used up: held input has not had its chance then.
        let is_unanswered =
            (self.is_busy || self.is_paused) && session.wants_turn(cx.protocol, true) && !session.is_aborted();
        let finished = self.is_broken || session.is_done() && !is_unanswered;
        let reading = !finished && session.wants_read() && (!self.is_draining || session.is_draining());
        match self.receive {
            Receive::Off if reading => {
                cx.ring.receive(key, self.socket.as_fd());
                self.receive = Receive::Armed;
            }
            // A multishot receive cannot pause.
            Receive::Armed if !reading => {
                cx.ring.cancel(Op::Receive, key);
                self.receive = Receive::Cancelling;
            }
            Receive::Off | Receive::Armed | Receive::Cancelling => {}
        }
        if finished && self.is_busy {
            // A send to a peer that takes nothing ends only so.
            socket::shutdown_both(self.socket.as_fd());
        }
        !finished
    }

    /// The kernel no longer reads or writes on our behalf, so no completion can meet the next peer in this slot.
    pub(super) fn is_free(&self) -> bool {
        !self.is_busy && self.receive == Receive::Off
    }

    fn take_pushes(&mut self, key: usize, cx: &LoopContext<'_, P>) {
        let Self { session: Some(session), waker, .. } = self else { return };
        session.take_pushes(|| &*waker.get_or_insert_with(|| cx.mailbox.waker(Key(key))));
    }

    /// One operation of the ring, or plain writes until the socket is full or the share of this turn used up.
    fn write(&mut self, key: usize, cx: &mut LoopContext<'_, P>) -> io::Result<()> {
        let Self { socket, session: Some(session), is_busy, is_paused, is_broken: false, waker, .. } = self else {
            return Ok(());
        };
        let mut quota = WRITE_MAX;
        while !*is_busy && !*is_paused && !session.is_aborted() {
            if session.outbox().is_empty() {
                if P::STREAMS {
                    session.outbox().borrow_buffer(&mut cx.buffers);
                }
                session.resume(cx.protocol, cx.now);
                if session.outbox().is_empty() {
                    if !session.take_pushes(|| &*waker.get_or_insert_with(|| cx.mailbox.waker(Key(key)))) {
                        return Ok(());
                    }
                    continue;
                }
            }
            if !is_sent_by_ring(session.outbox(), cx.ring.registered(), cx.is_alone) {
                match write_front(socket.as_fd(), session.outbox(), &mut cx.pipes) {
                    Ok(n) => {
                        cx.tally.0.bytes_out += n as u64;
                        session.sent(cx.now);
                        session.report_sent(cx.protocol, clock::now);
                        quota = quota.saturating_sub(n);
                        *is_paused = quota == 0;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        cx.ring.wait_writable(key, socket.as_fd());
                        *is_busy = true;
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            if cx.ring.send(key, socket.as_fd(), |segments| take_memory(session, segments)) {
                *is_busy = true;
                return Ok(());
            }
            let waker = waker.get_or_insert_with(|| cx.mailbox.waker(Key(key)));
            if session.outbox().poll_reply(waker).is_pending() {
                if !P::STREAMS || !session.wants_turn(cx.protocol, false) {
                    return Ok(());
                }
                // What is said of the drain need not wait for a promise.
                session.resume(cx.protocol, cx.now);
            }
        }
        Ok(())
    }
}

/// True if the memory in front is sent by the ring. Memory before a file or pipe leaves with it by plain calls,
/// unless it is to be sent without being copied; so does all that the kernel encrypts, and a short reply that is the only one of
/// a turn: its completion would end the next wait, and cost a turn and a call of its own.
fn is_sent_by_ring(outbox: &mut Outbox, registered: Option<&Region>, is_alone: bool) -> bool {
    if outbox.is_for_kernel_tls() {
        return false;
    }
    if registered.is_some_and(|region| outbox.memory().any(|bytes| region.contains(bytes))) {
        return true;
    }
    let is_short = is_alone && outbox.is_memory_next() && outbox.unsent_bytes() <= SHORT_MAX;
    !is_short && !outbox.has_more_after_memory()
}

/// Memory to be sent at once: all there is before anything else.
fn take_memory<P: Protocol>(session: &mut Session<P>, segments: &mut Vec<Segment>) {
    while segments.len() < PIECES_MAX
        // Asked here, and not only by the taking: a promise kept in between may turn out to be a file.
        && session.outbox().is_memory_next()
        && let Taken::Segment(segment) = session.outbox().take()
    {
        segments.push(segment);
    }
}
