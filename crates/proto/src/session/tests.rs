use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::{BatchInput, NextWrite, Promise, Segment, Taken, Uptake, run_batch};

/// Lines are answered in order: `N` by N bytes of `x` and a newline; `own N` the same, never shared; `later N` the same by a
/// promise; `bye` closes; `huh` lingers, `all` does until it is delivered. Short answers are inline, longer ones shared.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) promises: Mutex<Vec<(Promise, usize)>>,
    pub(super) idle: Option<Duration>,
}

fn answer(n: usize, out: &mut Outbox) {
    out.push_body(&vec![b'x'; n], |body| body.clone().into());
    out.inline().push(b'\n');
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

impl Lines {
    fn fulfil_all(&self) {
        for (promise, n) in self.promises.lock().drain(..).rev() {
            let mut out = Outbox::default();
            answer(n, &mut out);
            promise.fulfil(out);
        }
    }
}

impl Protocol for Lines {
    type Conn = ();

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        while !out.is_full() {
            let Some(end) = input[consumed..].iter().position(|&byte| byte == b'\n') else { break };
            let line = std::str::from_utf8(&input[consumed..consumed + end]).unwrap();
            consumed += end + 1;
            match line.strip_prefix("later ") {
                Some(n) => self.promises.lock().push((out.defer(), n.parse().unwrap())),
                None if line.starts_with("own ") => out.inline().extend(vec![b'x'; number(&line[4..])]),
                None if line == "bye" => return Step { flow: Flow::Close, ..Step::open(consumed) },
                None if line == "huh" => return Step { flow: Flow::Linger, ..Step::open(consumed) },
                None if line == "all" => return Step { flow: Flow::CloseAfterAck, ..Step::open(consumed) },
                None => answer(line.parse().unwrap(), out),
            }
        }
        Step::open(consumed)
    }

    fn deadline(&self, (): &(), quiet_since: Instant) -> Option<Instant> {
        self.idle.map(|idle| quiet_since + idle)
    }
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to make an Instant")]
pub(super) fn start() -> Now {
    Now { instant: Instant::now(), unix: Duration::ZERO }
}

pub(super) fn session(protocol: &Lines, limits: Limits, now: Now) -> Session<Lines> {
    let socket = std::io::stdin();
    Session::new(protocol, Peer::unknown(std::os::fd::AsFd::as_fd(&socket), 0), limits, now)
}

/// Writes at most `max` bytes at a time, until nothing can be written.
fn borrow_all<P: Protocol>(s: &mut Session<P>, sink: &mut Vec<u8>, max: usize) {
    while let Some(NextWrite::Memory(iov, count)) = s.outbox.front() {
        let all: Vec<u8> = iov[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
        let n = all.len().min(max);
        sink.extend_from_slice(&all[..n]);
        s.outbox.advance(n);
    }
}

/// Writes all there is, and returns it.
fn drain(s: &mut Session<Lines>, protocol: &Lines, now: Now) -> Vec<u8> {
    let mut sink = Vec::new();
    borrow_all(s, &mut sink, usize::MAX);
    s.sent(now);
    s.resume(protocol, now);
    sink
}

fn take_all(s: &mut Session<Lines>, sink: &mut Vec<u8>) {
    while let Taken::Segment(segment) = s.outbox.take() {
        sink.extend_from_slice(segment.memory().expect("memory"));
        s.outbox.recycle(segment);
    }
}

#[derive(Clone, Debug)]
enum Line {
    Now(usize),
    Later(usize),
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let size = prop_oneof![0..40_usize, 2040..2060_usize, Just(150_000_usize)];
    let line = (size, any::<bool>()).prop_map(|(n, later)| if later { Line::Later(n) } else { Line::Now(n) });
    proptest::collection::vec(line, 0..90)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However input is torn and output is trickled, borrowed or taken, batched or not: the reply stream is the same.
    #[test]
    fn replies_do_not_depend_on_fragmentation(lines in lines(), chunk in 1..400_usize, max_write in 1..300_000_usize, taken: bool, batched: bool) {
        let (mut request, mut want) = (String::new(), Vec::new());
        for line in &lines {
            let (Line::Now(n) | Line::Later(n)) = line;
            request += &match line { Line::Now(n) => format!("{n}\n"), Line::Later(n) => format!("later {n}\n") };
            want.resize(want.len() + *n, b'x');
            want.push(b'\n');
        }
        let (protocol, now, mut got) = (Lines::default(), start(), Vec::new());
        let mut s = session(&protocol, Limits::default(), now);
        let flush = |s: &mut Session<Lines>, got: &mut Vec<u8>| {
            if taken { take_all(s, got) } else { borrow_all(s, got, max_write) }
        };
        for piece in request.as_bytes().chunks(chunk) {
            if batched {
                run_batch(&protocol, &mut [BatchInput { session: &mut s, lent: piece }], now);
            } else if s.has_input() && chunk % 2 == 0 {
                for &byte in piece {
                    s.recv_space()[0] = byte;
                    s.received(1, now);
                }
                s.resume(&protocol, now);
            } else {
                s.feed(&protocol, piece, now);
            }
            flush(&mut s, &mut got);
        }
        for _ in 0..=lines.len() {
            protocol.fulfil_all();
            flush(&mut s, &mut got);
            s.resume(&protocol, now);
        }
        flush(&mut s, &mut got);
        prop_assert!(got == want, "{} bytes instead of {}", got.len(), want.len());
        prop_assert!(s.is_quiet());
    }
}

/// In whatever order promises are fulfilled, replies leave in the order of their requests.
#[test]
fn deferred_replies_keep_their_place() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let (protocol, now, mut got) = (Lines::default(), start(), Vec::new());
        let mut s = session(&protocol, Limits::default(), now);
        s.feed(&protocol, b"later 1\n0\nlater 2\nlater 3\n0\nlater 4\n", now);
        let mut promises: Vec<_> = protocol.promises.lock().drain(..).map(Some).collect();
        for i in order {
            borrow_all(&mut s, &mut got, 1);
            let (promise, n) = promises[i].take().unwrap();
            let mut out = Outbox::default();
            answer(n, &mut out);
            promise.fulfil(out);
        }
        borrow_all(&mut s, &mut got, 1);
        assert_eq!(got, b"x\n\nxx\nxxx\n\nxxxx\n", "order {order:?}");
        assert!(s.outbox.is_idle());
    }
}

/// A dropped promise ends the connection after the replies before it, never before.
#[test]
fn a_dropped_promise_closes_after_what_came_before() {
    let (protocol, now, mut got) = (Lines::default(), start(), Vec::new());
    let mut s = session(&protocol, Limits::default(), now);
    s.feed(&protocol, b"1\nlater 2\n3\n", now);
    protocol.promises.lock().clear();
    assert!(!s.is_done());
    borrow_all(&mut s, &mut got, 1);
    assert_eq!((&got[..], s.is_done()), (&b"x\n"[..], true));
}

/// A reply may be as long as it likes where its bytes are shared; what is the connection's own is limited.
#[test]
fn output_of_a_connections_own_is_bounded() {
    for (line, is_aborted) in [("400000\n", false), ("own 299999\n", false), ("own 300001\n", true)] {
        let (protocol, now) = (Lines::default(), start());
        let mut s = session(&protocol, Limits { output_bytes_max: 300_000, ..Limits::default() }, now);
        s.feed(&protocol, line.as_bytes(), now);
        assert_eq!(s.is_aborted(), is_aborted, "{line}");
    }
}

/// Answers piled up behind an open promise count against the output limit.
#[test]
fn bytes_behind_an_open_promise_are_bounded() {
    let (protocol, now) = (Lines::default(), start());
    let mut s = session(&protocol, Limits { output_bytes_max: 300_000, ..Limits::default() }, now);
    s.feed(&protocol, b"later 1\nlater 200000\nlater 200000\n", now);
    let mut promises = protocol.promises.lock().split_off(1);
    for (promise, n) in promises.drain(..) {
        let mut out = Outbox::default();
        out.inline().resize(n, b'x');
        promise.fulfil(out);
    }
    assert!(!s.wants_read(), "a full outbox stops reading");
    s.feed(&protocol, b"1\n", now);
    assert!(s.is_aborted());
}

/// A peer that takes its time over a reply is not idle; the idle clock starts when the reply has gone.
#[test]
fn idle_time_does_not_run_while_output_moves() {
    let (protocol, begin) = (Lines { idle: Some(Duration::from_secs(2)), ..Lines::default() }, start());
    let at = |secs| Now { instant: begin.instant + Duration::from_secs(secs), ..begin };
    let mut s = session(&protocol, Limits::default(), begin);
    s.feed(&protocol, b"6\n", begin);
    for secs in 1..=7 {
        assert!(s.outbox.front().is_some());
        s.outbox.advance(1);
        s.sent(at(secs));
        s.tick(&protocol, at(secs + 1), Uptake::none);
        assert!(!s.is_done());
    }
    assert!(s.outbox.is_idle());
    s.tick(&protocol, at(7 + 2), Uptake::none);
    assert!(s.is_done());
}

/// After a lingering close, input is discarded until the peer closes or the time is up.
#[test]
fn a_lingering_close_discards_input_for_a_bounded_time() {
    for peer_closes in [true, false] {
        let (protocol, begin, mut got) = (Lines::default(), start(), Vec::new());
        let mut s = session(&protocol, Limits::default(), begin);
        s.feed(&protocol, b"1\nhuh\n2\n", begin);
        assert!(!s.begin_lingering(begin), "output comes first");
        borrow_all(&mut s, &mut got, 9);
        assert!(!s.is_done() && s.begin_lingering(begin) && !s.begin_lingering(begin));
        assert!(s.wants_read());
        s.feed(&protocol, b"3\n", begin);
        assert!(!s.is_done() && s.outbox.is_empty());
        if peer_closes {
            s.end_of_input();
        } else {
            s.tick(&protocol, Now { instant: s.deadline(&protocol).unwrap(), ..begin }, Uptake::none);
        }
        assert_eq!((s.is_done(), &got[..]), (true, &b"x\n"[..]));
    }
}

/// A peer that has everything is not waited for, and every other peer is.
#[test]
fn close_after_ack_lingers_unless_the_ack_is_known() {
    for is_delivered in [true, false] {
        let (protocol, now, mut got) = (Lines::default(), start(), Vec::new());
        let mut s = session(&protocol, Limits::default(), now);
        s.feed(&protocol, b"1\nall\n2\n", now);
        assert!(!s.is_awaiting_ack() && !s.begin_lingering(now), "output comes first");
        s.acknowledged();
        borrow_all(&mut s, &mut got, 9);
        assert!(s.is_awaiting_ack() && !s.is_done());
        if is_delivered {
            s.acknowledged();
        }
        assert_eq!((s.begin_lingering(now), s.is_done()), (!is_delivered, is_delivered));
        assert!(!s.is_awaiting_ack());
        s.end_of_input();
        assert_eq!((s.is_done(), &got[..]), (true, &b"x\n"[..]));
    }
}

/// A request longer than the limit ends the connection instead of growing the inbox.
#[test]
fn a_request_above_the_limit_ends_the_connection() {
    let (protocol, now) = (Lines::default(), start());
    let mut s = session(&protocol, Limits { request_bytes_max: 1000, ..Limits::default() }, now);
    for _ in 0..1000 {
        if s.wants_read() {
            s.feed(&protocol, b"1", now);
        }
    }
    assert!(!s.wants_read() && s.begin_lingering(now));
}

/// Echoes its input, once a promise has been fulfilled that it makes before the first byte.
#[derive(Default)]
struct EchoLater(Mutex<Option<Promise>>);

impl Protocol for EchoLater {
    /// True once the promise has been made.
    type Conn = bool;

    fn open(&self, _: Peer<'_>, _: Now) -> bool {
        false
    }

    fn on_input(&self, has_promised: &mut bool, input: &[u8], _: Now, out: &mut Outbox) -> Step {
        if !*has_promised {
            *has_promised = true;
            *self.0.lock() = Some(out.defer());
        }
        if out.has_pending_replies() {
            return Step::open(0);
        }
        out.inline().extend_from_slice(input);
        Step::open(input.len())
    }
}

/// They are not one long request.
#[test]
fn requests_that_wait_for_a_reply_do_not_end_the_connection() {
    let (protocol, now, mut got) = (EchoLater::default(), start(), Vec::new());
    let stdin = std::io::stdin();
    let limits = Limits { request_bytes_max: 1000, ..Limits::default() };
    let mut s = Session::new(&protocol, Peer::unknown(std::os::fd::AsFd::as_fd(&stdin), 0), limits, now);
    let mut sent = 0;
    while s.wants_read() {
        s.feed(&protocol, &[b'x'; 300], now);
        sent += 300;
    }
    assert!(sent >= 1000 && !s.begin_lingering(now));
    protocol.0.lock().take().unwrap().fulfil(Outbox::default());
    for _ in 0..2 {
        borrow_all(&mut s, &mut got, usize::MAX);
        s.resume(&protocol, now);
    }
    borrow_all(&mut s, &mut got, usize::MAX);
    assert_eq!((got.len(), s.is_done(), s.wants_read()), (sent, false, true));
}

/// Half-close is not close: what was received is still answered, even where the outbox was full at the time.
#[test]
fn buffered_requests_are_answered_after_the_end_of_input() {
    let (protocol, now, mut got) = (Lines::default(), start(), Vec::new());
    let mut s = session(&protocol, Limits::default(), now);
    s.feed(&protocol, "100000\n".repeat(50).as_bytes(), now);
    s.end_of_input();
    while !s.is_done() {
        borrow_all(&mut s, &mut got, usize::MAX);
        s.resume(&protocol, now);
    }
    assert_eq!(got.len(), 50 * 100_001);
}

/// A connection that has gone quiet holds no buffers.
#[test]
fn quiet_connections_give_their_buffers_back() {
    let (protocol, begin, mut got) = (Lines::default(), start(), Vec::new());
    let mut s = session(&protocol, Limits::default(), begin);
    s.feed(&protocol, b"2000\n20", begin);
    s.feed(&protocol, b"00\n", begin);
    borrow_all(&mut s, &mut got, usize::MAX);
    let due = s.deadline(&protocol).expect("there is something to trim");
    s.tick(&protocol, Now { instant: due, ..begin }, Uptake::none);
    assert_eq!((s.spare_capacity(), s.is_done()), (0, false));
}

/// Input copied for another thread costs about its size: buffers of a fixed size, freed between sessions that stay,
/// remain with the process.
#[test]
fn a_held_request_costs_no_more_than_its_bytes() {
    let (protocol, now) = (Lines::default(), start());
    let mut s = session(&protocol, Limits::default(), now);
    s.hold(b"20\n", now);
    s.resume(&protocol, now);
    assert!(!s.has_input() && s.inbox.spare_capacity() <= 16, "{} bytes", s.inbox.spare_capacity());
}

/// Memory that one connection keeps between two requests: thousands of idle ones are paid for here.
#[test]
fn an_idle_session_is_small() {
    assert!(size_of::<Session<Lines>>() <= 448, "{} bytes", size_of::<Session<Lines>>());
    assert!(size_of::<Segment>() <= 48, "{} bytes", size_of::<Segment>());
}

/// From its greatest age the next reply is the last; without another request it is closed a moment later.
#[test]
fn an_old_session_ends_after_a_reply_or_when_it_is_quiet() {
    let (protocol, begin) = (Lines::default(), start());
    let limits = Limits { age_max: Some(Duration::from_secs(10)), ..Limits::default() };
    let at = |ms| Now { instant: begin.instant + Duration::from_millis(ms), ..begin };
    for is_asked in [true, false] {
        let mut s = session(&protocol, limits, begin);
        s.feed(&protocol, b"1\n", at(9_500));
        assert!(!s.is_done() && drain(&mut s, &protocol, at(9_500)) == b"x\n");
        assert_eq!(s.deadline(&protocol), Some(at(10_000).instant));
        assert!(!s.is_past_age(at(9_999)) && s.is_past_age(at(10_000)));
        s.tick(&protocol, at(10_000), Uptake::none);
        assert!(!s.is_past_age(at(10_000)) && s.wants_read(), "half a second after its last reply it may still ask");
        if is_asked {
            s.feed(&protocol, b"2\n3", at(10_100));
            assert!(s.wants_read(), "a request has begun to arrive");
            s.feed(&protocol, b"\n", at(10_200));
            assert_eq!(drain(&mut s, &protocol, at(10_200)), b"xx\nxxx\n");
        } else {
            s.tick(&protocol, at(10_500), Uptake::none);
        }
        assert!(!s.wants_read() && s.begin_lingering(at(10_500)), "{is_asked}");
    }
}

/// However long it has been quiet, it is left the time that a request takes to arrive.
#[test]
fn a_retired_session_ends_after_a_reply_or_a_moment_later() {
    let (protocol, begin) = (Lines::default(), start());
    let at = |ms| Now { instant: begin.instant + Duration::from_millis(ms), ..begin };
    for is_asked in [true, false] {
        let mut s = session(&protocol, Limits::default(), begin);
        s.feed(&protocol, b"1\n", begin);
        assert_eq!(drain(&mut s, &protocol, begin), b"x\n");
        s.retire(&protocol, at(60_000));
        assert!(s.is_retiring() && s.wants_read());
        assert_eq!(s.deadline(&protocol), Some(at(60_000).instant + RETIRE_AFTER));
        if is_asked {
            s.feed(&protocol, b"2\n", at(60_999));
            assert_eq!(drain(&mut s, &protocol, at(60_999)), b"xx\n");
        } else {
            s.tick(&protocol, at(60_999), Uptake::none);
            assert!(s.wants_read(), "not yet");
            s.tick(&protocol, at(61_000), Uptake::none);
        }
        assert!(!s.wants_read() && s.begin_lingering(at(61_000)), "{is_asked}");
    }
}

/// A protocol that does not stream is offered nothing when nothing is held.
#[test]
fn a_protocol_without_streams_has_no_turns_of_its_own() {
    let (protocol, now) = (Lines::default(), start());
    let mut s = session(&protocol, Limits::default(), now);
    s.feed(&protocol, b"300000\n1\n", now);
    assert!(s.has_input() && s.wants_turn(&protocol, true) && !s.wants_turn(&protocol, false));
    assert_eq!(drain(&mut s, &protocol, now).len(), 300_001);
    assert_eq!(drain(&mut s, &protocol, now), b"x\n");
    s.end_of_input();
    assert!(!s.wants_turn(&protocol, true) && s.is_done());
}
