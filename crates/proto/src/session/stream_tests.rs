//! Sessions of a protocol that streams.

use super::{tests::start, *};
use crate::NextWrite;
use crate::Uptake;

/// A reply of so many bytes that is made as there is room, once it is asked for by any byte; `.` at the end of input.
struct Stream(usize);

impl Protocol for Stream {
    /// Bytes still to be made.
    type Conn = usize;

    const STREAMS: bool = true;

    fn open(&self, _: Peer<'_>, _: Now) -> usize {
        0
    }

    fn on_input(&self, left: &mut usize, input: &[u8], _: Now, out: &mut Outbox) -> Step {
        *left += input.len() * self.0;
        while *left > 0 && !out.is_full() {
            let n = (*left).min(1000);
            out.inline().extend(std::iter::repeat_n(b'x', n));
            *left -= n;
        }
        Step::open(input.len())
    }

    fn on_end(&self, _: &mut usize, _: Now, out: &mut Outbox) -> Flow {
        out.inline().push(b'.');
        Flow::Open
    }

    fn retire(&self, left: &mut usize) -> bool {
        *left == 0
    }
}

fn stream(protocol: &Stream, limits: Limits, now: Now) -> Session<Stream> {
    let socket = std::io::stdin();
    Session::new(protocol, Peer::unknown(std::os::fd::AsFd::as_fd(&socket), 0), limits, now)
}

/// Sends at most `max` bytes and offers a turn where the session says so, as a driver does.
fn send_and_resume(s: &mut Session<Stream>, protocol: &Stream, max: usize, now: Now) -> usize {
    let n = match s.outbox.front() {
        Some(NextWrite::Memory(iov, count)) => iov[..count].iter().map(|piece| piece.len()).sum::<usize>().min(max),
        _ => 0,
    };
    s.outbox.advance(n);
    if s.wants_turn(protocol, n > 0) {
        s.resume(protocol, now);
    }
    n
}

/// A protocol that streams needs no input to go on, holds no more than there is room for, and is told the end.
#[test]
fn a_stream_goes_on_whenever_output_has_been_sent() {
    for (max, limits) in [(700, Limits::default()), (90_000, Limits { output_bytes_max: 300_000, ..Limits::default() })]
    {
        let (protocol, now, mut sent) = (Stream(2_000_000), start(), 0);
        let mut s = stream(&protocol, limits, now);
        assert!(!s.wants_turn(&protocol, false));
        s.feed(&protocol, b"!", now);
        assert!(!s.wants_read() && !s.wants_turn(&protocol, true), "full");
        s.end_of_input();
        while !s.is_done() {
            sent += send_and_resume(&mut s, &protocol, max, now);
            assert!(s.outbox.held_bytes() < 300_000 && !s.is_aborted());
        }
        assert_eq!(sent, 2_000_001);
    }
}

/// A connection whose input ends while nothing is to be sent is not done before the protocol has had its last word.
#[test]
fn the_end_of_input_is_told_before_the_end() {
    let (protocol, now) = (Stream(0), start());
    let mut s = stream(&protocol, Limits::default(), now);
    s.end_of_input();
    assert!(!s.is_done() && s.wants_turn(&protocol, false));
    s.resume(&protocol, now);
    assert!(!s.is_done() && !s.wants_turn(&protocol, false));
    assert_eq!((send_and_resume(&mut s, &protocol, 9, now), s.is_done()), (1, true));
}

/// The greatest age comes in the middle of a stream, which is completed and followed by nothing.
#[test]
fn an_old_session_completes_its_stream() {
    let (protocol, begin, mut sent) = (Stream(1_000_000), start(), 0);
    let at = |ms| Now { instant: begin.instant + Duration::from_millis(ms), ..begin };
    let mut s = stream(&protocol, Limits { age_max: Some(Duration::from_secs(1)), ..Limits::default() }, begin);
    s.feed(&protocol, b"!", begin);
    s.tick(&protocol, at(1_000), Uptake::none);
    while !s.outbox.is_idle() {
        sent += send_and_resume(&mut s, &protocol, 90_000, at(1_100));
        s.sent(at(1_100));
    }
    assert_eq!(sent, 1_000_000);
    assert!(!s.wants_read() && s.begin_lingering(at(1_100)));
}

/// A protocol that says when it has heard of the drain, and ends when it is asked to.
struct Graceful;

impl Protocol for Graceful {
    /// It is to say goodbye.
    type Conn = bool;

    const STREAMS: bool = true;

    fn open(&self, _: Peer<'_>, _: Now) -> bool {
        false
    }

    fn on_drain(&self, conn: &mut bool) -> bool {
        *conn = true;
        true
    }

    fn on_input(&self, conn: &mut bool, input: &[u8], _: Now, out: &mut Outbox) -> Step {
        if mem::take(conn) {
            out.inline().extend_from_slice(b"bye");
        }
        let flow = if input.contains(&b'q') { Flow::Close } else { Flow::Open };
        Step { flow, ..Step::open(input.len()) }
    }
}

/// While a server drains, such a protocol has a turn, and goes on reading until it has ended the connection itself.
#[test]
fn a_drain_leaves_the_end_to_a_protocol_that_asks_for_it() {
    let (now, socket) = (start(), std::io::stdin());
    let peer = Peer::unknown(std::os::fd::AsFd::as_fd(&socket), 0);
    let mut s = Session::new(&Graceful, peer, Limits::default(), now);
    assert!(s.drain(&Graceful) && s.is_draining() && s.wants_turn(&Graceful, false));
    s.resume(&Graceful, now);
    assert!(!s.wants_turn(&Graceful, false) && !s.is_done() && s.wants_read());
    s.outbox.advance(3);
    assert!(!s.is_done() && !s.has_ended());
    s.feed(&Graceful, b"q", now);
    assert!(s.is_done());
    let mut s = stream(&Stream(0), Limits::default(), now);
    assert!(!s.drain(&Stream(0)) && s.has_ended(), "others end with their input");
}

/// As an HTTP/1.1 connection of a server that speaks HTTP/2, too.
struct OneByOne;

impl Protocol for OneByOne {
    type Conn = ();

    const STREAMS: bool = true;

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn is_streaming(&self, (): &()) -> bool {
        false
    }

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        out.inline().extend(input);
        Step::open(input.len())
    }
}

/// A turn that is due for ever would keep the driver from reading the request.
#[test]
fn a_retired_connection_that_does_not_stream_is_owed_no_more_than_one_turn() {
    let (protocol, now) = (OneByOne, start());
    let socket = std::io::stdin();
    let peer = Peer::unknown(std::os::fd::AsFd::as_fd(&socket), 0);
    let mut s = Session::new(&protocol, peer, Limits::default(), now);
    s.retire(&protocol, now);
    if s.wants_turn(&protocol, false) {
        s.resume(&protocol, now);
    }
    assert!(!s.wants_turn(&protocol, false) && s.wants_read());
}
