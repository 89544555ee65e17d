//! Sessions whose protocol takes pushes.

use std::task::Waker;

use bytes::Bytes;

use super::{tests::start, *};
use crate::{NextWrite, Pusher, Uptake};

/// Answers every line with itself. The connection takes pushes.
struct Echo(Pusher);

impl Protocol for Echo {
    type Conn = ();

    const PUSHES: bool = true;

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        out.take_pushes_of(&self.0);
        out.inline().extend_from_slice(input);
        Step { flow: if input == b"bye" { Flow::Close } else { Flow::Open }, ..Step::open(input.len()) }
    }
}

struct Subject {
    protocol: Echo,
    session: Session<Echo>,
    now: Now,
}

impl Subject {
    fn new() -> Self {
        let (protocol, now, socket) = (Echo(Pusher::new(1 << 20)), start(), std::io::stdin());
        let peer = Peer::unknown(std::os::fd::AsFd::as_fd(&socket), 0);
        let mut session = Session::new(&protocol, peer, Limits::default(), now);
        session.feed(&protocol, b"in ", now);
        let mut subject = Self { protocol, session, now };
        assert_eq!(subject.sent(), b"in ");
        subject
    }

    fn push(&self, bytes: &[u8]) {
        let _ = self.protocol.0.push(&Bytes::copy_from_slice(bytes));
    }

    /// Sends all there is, and returns it.
    fn sent(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(NextWrite::Memory(pieces, count)) = self.session.outbox.front() {
            let before = all.len();
            pieces[..count].iter().for_each(|piece| all.extend_from_slice(piece));
            let n = all.len() - before;
            self.session.outbox.advance(n);
        }
        all
    }

    fn take_pushes(&mut self) -> bool {
        self.session.take_pushes(|| Waker::noop())
    }
}

#[test]
fn a_push_comes_before_the_input_that_follows_it() {
    let mut subject = Subject::new();
    assert!(!subject.take_pushes());
    subject.push(b"push ");
    subject.session.feed(&subject.protocol, b"line", subject.now);
    assert_eq!(subject.sent(), b"push line");
}

/// Input waits until everything that was pushed before it is in the outbox.
#[test]
fn input_waits_for_the_room_that_pushes_need() {
    let mut subject = Subject::new();
    (0..4).for_each(|_| subject.push(&[b'x'; 100_000]));
    subject.session.feed(&subject.protocol, b"line", subject.now);
    assert!(subject.session.has_input());
    assert_eq!(subject.sent().len(), 300_000);
    assert!(subject.session.wants_turn(&subject.protocol, true));
    subject.session.resume(&subject.protocol, subject.now);
    let rest = subject.sent();
    assert!(rest.len() == 100_004 && rest.ends_with(b"line"));
}

#[test]
fn an_ended_session_sends_what_was_pushed_before() {
    let mut subject = Subject::new();
    subject.push(b"push");
    subject.session.end_of_input();
    assert!(!subject.session.is_done());
    assert!(subject.take_pushes());
    subject.push(b"too late");
    assert_eq!(subject.sent(), b"push");
    assert!(!subject.take_pushes() && subject.session.is_done());
}

#[test]
fn a_session_that_closes_takes_no_more_pushes() {
    let mut subject = Subject::new();
    subject.session.feed(&subject.protocol, b"bye", subject.now);
    assert!(!subject.take_pushes());
    subject.push(b"too late");
    assert!(!subject.take_pushes() && subject.protocol.0.is_closed());
    assert_eq!(subject.sent(), b"bye");
    assert!(subject.session.is_done());
}

#[test]
fn a_session_with_too_many_pushes_is_aborted() {
    let mut subject = Subject::new();
    (0..15).for_each(|_| subject.push(&[b'x'; 100_000]));
    assert!(subject.take_pushes() && subject.session.is_aborted());
    assert!(subject.session.is_cut_off(), "the peer must not take what it has for the whole");
    assert!(!subject.take_pushes() && subject.session.is_done());
}

/// A peer that has been quiet for long is not judged by what it took before there was anything to take.
#[test]
fn a_stall_begins_with_the_push() {
    let mut subject = Subject::new();
    let limit = Limits::default().stall_max;
    let stalled = |pending| Uptake { acknowledged: Some(0), pending };
    for _ in 0..3 {
        subject.now.instant += 3 * limit;
        subject.push(b"push");
        assert!(subject.take_pushes());
        subject.session.tick(&subject.protocol, subject.now, || stalled(4));
        assert!(!subject.session.is_aborted());
        subject.sent();
    }
    subject.push(b"push");
    assert!(subject.take_pushes());
    for _ in 0..2 {
        subject.session.tick(&subject.protocol, subject.now, || stalled(4));
        subject.now.instant += limit;
    }
    subject.session.tick(&subject.protocol, subject.now, || stalled(4));
    assert!(subject.session.is_aborted(), "it takes nothing");
}
