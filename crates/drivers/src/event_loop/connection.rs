//! One connection on a readiness loop.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    task::Waker,
    time::Instant,
};

use proto::{BatchInput, Protocol, Session, run_batch};
use slab::Slab;
use sys::socket;

use super::{BATCH_BYTES, Executor, LoopContext, READ_BYTES, Readiness, waker_of};
use crate::{
    accept::ConnectionPermit,
    clock,
    closing::end_output,
    mailbox::Key,
    wheel::Timer,
    write::{WRITE_MAX, write_front},
};

/// Reads before a connection makes room for others.
const READS_MAX: usize = 16;
/// Replies below this wait while there is more to read: one send answers it all.
const GATHER_MAX: usize = 16 * 1024;
const CACHE_LINE: usize = 64;

pub(super) struct Slot<P: Protocol> {
    pub(super) socket: OwnedFd,
    /// Registered with the poll.
    pub(super) is_watched: bool,
    /// `None`: away with a worker.
    pub(super) session: Option<Box<Session<P>>>,
    pub(super) ready: Readiness,
    pub(super) timer: Timer,
    /// Made when a promise first keeps us waiting.
    waker: Option<Waker>,
    _permit: ConnectionPermit,
}

/// State of a connection after its turn.
pub(super) enum Next {
    /// For the kernel, a promise or this deadline.
    Wait(Option<Instant>),
    /// The session has left.
    Away,
    /// It had its share; others first.
    Again,
    Close,
}

/// Next step of a connection.
enum Action {
    Wait,
    /// The protocol has something to work on: so many bytes read into the scratch space, or held ones.
    Work(usize),
    /// There is more to write, but enough has been.
    Pause,
    Close,
}

impl<P: Protocol> Slot<P> {
    pub(super) fn new(socket: OwnedFd, session: Box<Session<P>>, permit: ConnectionPermit) -> Self {
        Self {
            socket,
            is_watched: false,
            session: Some(session),
            ready: Readiness::fresh(),
            timer: Timer::default(),
            waker: None,
            _permit: permit,
        }
    }

    /// Moves bytes until the kernel, the back-pressure or a promise says stop.
    pub(super) fn move_bytes<W: Executor<P>>(&mut self, key: Key, cx: &mut LoopContext<'_, P, W>) -> Next {
        let Some(mut session) = self.session.take() else { return Next::Away };
        let mut quota = WRITE_MAX;
        for _ in 0..READS_MAX {
            // A broken connection is the peer's affair; nothing to report.
            let lent = match self.exchange(key, &mut session, cx, &mut quota).unwrap_or(Action::Close) {
                Action::Close => return Next::Close,
                Action::Wait => {
                    session.outbox().return_buffer(&mut cx.buffers);
                    let deadline = session.deadline(cx.protocol);
                    self.session = Some(session);
                    return Next::Wait(deadline);
                }
                Action::Pause => break,
                Action::Work(n) => {
                    session.outbox().borrow_buffer(&mut cx.buffers);
                    &cx.scratch[..n]
                }
            };
            match cx.executor.work(cx.protocol, key, session, lent, cx.now, &cx.mailbox) {
                Some(back) => session = back,
                None => return Next::Away,
            }
        }
        self.session = Some(session);
        Next::Again
    }

    fn exchange<W>(
        &mut self,
        key: Key,
        session: &mut Session<P>,
        cx: &mut LoopContext<'_, P, W>,
        quota: &mut usize,
    ) -> io::Result<Action> {
        loop {
            let flushed = !self.should_gather(session) && self.flush(key, session, cx, quota)?;
            // Held input gets another chance when there is room for its answers, as does a protocol that streams.
            if session.wants_turn(cx.protocol, flushed) {
                return Ok(Action::Work(0));
            }
            if *quota == 0 && !session.outbox().is_empty() {
                return Ok(Action::Pause);
            }
            end_output(session, self.socket.as_fd(), cx.now);
            if session.is_done() {
                return Ok(Action::Close);
            }
            if self.ready.is_readable && session.wants_read() {
                if let Some(work) = self.read(session, cx)? {
                    return Ok(work);
                }
            } else if cx.is_draining && !session.is_draining() {
                session.drain(cx.protocol);
            } else if !session.take_pushes(|| waker_of(&mut self.waker, &cx.mailbox, key)) {
                return Ok(Action::Wait);
            }
        }
    }

    /// Few replies are waiting, and there is more to answer.
    fn should_gather(&self, session: &mut Session<P>) -> bool {
        let outbox = session.outbox();
        let is_small = (1..GATHER_MAX).contains(&outbox.held_bytes()) && !outbox.has_pending_replies();
        is_small && self.ready.is_readable && session.wants_read()
    }

    /// True when anything has been written, or a promise has been settled.
    fn flush<W>(
        &mut self,
        key: Key,
        session: &mut Session<P>,
        cx: &mut LoopContext<'_, P, W>,
        quota: &mut usize,
    ) -> io::Result<bool> {
        let mut flushed = false;
        while self.ready.is_writable && !session.outbox().is_empty() && !session.is_aborted() && *quota > 0 {
            match write_front(self.socket.as_fd(), session.outbox(), &mut cx.pipes) {
                Ok(0) => {
                    let waker = waker_of(&mut self.waker, &cx.mailbox, key);
                    if session.outbox().poll_reply(waker).is_pending() || session.outbox().is_broken() {
                        break;
                    }
                    // An answer may be empty, and input may have waited for it.
                    flushed = true;
                }
                Ok(n) => {
                    session.sent(cx.now);
                    session.report_sent(cx.protocol, clock::now);
                    cx.tally.0.bytes_out += n as u64;
                    *quota = quota.saturating_sub(n);
                    flushed = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ready.is_writable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(flushed)
    }

    fn read<W>(&mut self, session: &mut Session<P>, cx: &mut LoopContext<'_, P, W>) -> io::Result<Option<Action>> {
        let (space, held) = match session.has_input() {
            true => (session.recv_space(), true),
            false => (&mut cx.scratch[..READ_BYTES], false),
        };
        let room = space.len();
        match socket::recv(self.socket.as_fd(), space) {
            Ok(0) => {
                self.ready.is_readable = false;
                session.end_of_input();
                Ok(None)
            }
            Ok(n) => {
                self.ready.have_read(n, room);
                cx.tally.0.bytes_in += n as u64;
                if held {
                    session.received(n, cx.now);
                    return Ok(Some(Action::Work(0)));
                }
                Ok(Some(Action::Work(n)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.ready.is_readable = false;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Reads several connections and runs the protocol once for all of them; how many of `keys` have been looked at, at
/// least one. Whatever it meets beside bytes is left for the connection's own turn.
pub(super) fn read_batch<P: Protocol, W: Executor<P>>(
    keys: &[usize],
    slots: &mut Slab<Slot<P>>,
    cx: &mut LoopContext<'_, P, W>,
) -> usize {
    let mut batch: Vec<(usize, Box<Session<P>>, Range<usize>)> = Vec::with_capacity(cx.batch_len);
    let (mut seen, mut end) = (0, 0);
    for &key in keys.iter().take(cx.batch_len) {
        let Some(space) = cx.scratch.get_mut(end..end + READ_BYTES) else { break };
        seen += 1;
        let Some(slot) = slots.get_mut(key) else { continue };
        let readable = slot.ready.is_readable;
        let Some(mut session) = slot.session.take_if(|session| readable && session.wants_read()) else { continue };
        match socket::recv(slot.socket.as_fd(), space) {
            Ok(n) if n > 0 => {
                slot.ready.have_read(n, READ_BYTES);
                cx.tally.0.bytes_in += n as u64;
                session.outbox().borrow_buffer(&mut cx.buffers);
                batch.push((key, session, end..end + n));
                end = (end + n).next_multiple_of(CACHE_LINE);
            }
            _ => slot.session = Some(session),
        }
    }
    let mut offers: Vec<_> = batch
        .iter_mut()
        .map(|(_, session, lent)| BatchInput { session: &mut **session, lent: &cx.scratch[lent.clone()] })
        .collect();
    run_batch(cx.protocol, &mut offers, cx.now);
    let mut replies = 0;
    let len = batch.len();
    for (key, mut session, _) in batch {
        replies += session.outbox().held_bytes();
        slots[key].session = Some(session);
    }
    // The next batch is taken to be like this one.
    if len > 0 {
        cx.batch_len = (BATCH_BYTES * len / replies.max(1)).clamp(1, W::BATCH);
    }
    seen
}
