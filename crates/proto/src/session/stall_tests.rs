//! Peers that take too little.

use super::{
    tests::{Lines, session, start},
    *,
};
use crate::Uptake;

/// Ticks a session with pending output at its next deadline.
fn tick_stalled(s: &mut Session<Lines>, protocol: &Lines, begin: Now, uptake: Uptake) -> Duration {
    let at = s.deadline(protocol).unwrap();
    s.tick(protocol, Now { instant: at, ..begin }, || uptake);
    at - begin.instant
}

/// A peer that takes nothing for the stall limit is aborted, whatever the protocol's own deadline.
#[test]
fn a_stalled_reader_is_aborted() {
    for uptake in
        [Uptake { acknowledged: Some(7), pending: 9 }, Uptake { acknowledged: None, pending: 9 }, Uptake::none()]
    {
        let (protocol, begin) = (Lines { idle: Some(Duration::from_secs(1)), ..Lines::default() }, start());
        let limits = Limits { stall_max: Duration::from_secs(8), ..Limits::default() };
        let mut s = session(&protocol, limits, begin);
        s.feed(&protocol, b"6\n", begin);
        tick_stalled(&mut s, &protocol, begin, uptake);
        assert!(!s.is_aborted(), "the first look is only there to be compared with");
        assert_eq!(tick_stalled(&mut s, &protocol, begin, uptake), limits.stall_max * 9 / 8);
        assert!(s.is_aborted() && s.is_done());
    }
}

/// A peer that takes what the kernel has is not aborted, even if that makes no room for more.
#[test]
fn a_reader_above_the_least_rate_is_not_stalled() {
    let stall_max = Duration::from_secs(8);
    let taken = |n: u64| Uptake { acknowledged: Some(n), pending: 1 };
    let unread = |n: u64| Uptake { acknowledged: None, pending: n };
    for (first, then, rate_min, is_aborted) in [
        (taken(0), taken(800), 100, false),
        (taken(0), taken(799), 100, true),
        (taken(0), taken(1), 0, false),
        (taken(5), taken(5), 0, true),
        (unread(90), unread(80), 100, false),
        (unread(90), unread(90), 0, true),
        (taken(5), Uptake { acknowledged: Some(5), pending: 0 }, 100, false),
    ] {
        let (protocol, begin) = (Lines::default(), start());
        let mut s = session(&protocol, Limits { stall_max, send_rate_min: rate_min, ..Limits::default() }, begin);
        s.feed(&protocol, b"6\n", begin);
        tick_stalled(&mut s, &protocol, begin, first);
        tick_stalled(&mut s, &protocol, begin, then);
        assert_eq!(s.is_aborted(), is_aborted, "{first:?} {then:?} {rate_min}");
        if !is_aborted {
            tick_stalled(&mut s, &protocol, begin, Uptake { pending: 1, ..then });
            assert!(s.is_aborted() || then.pending != 1, "it takes nothing any more");
        }
    }
}

/// Bytes that could be written are not taken yet, and a request begins the time anew.
#[test]
fn only_input_begins_the_stall_limit_anew() {
    for is_heard in [true, false] {
        let (protocol, begin) = (Lines::default(), start());
        let mut s = session(&protocol, Limits { stall_max: Duration::from_secs(8), ..Limits::default() }, begin);
        s.feed(&protocol, b"6\n", begin);
        let later = Now { instant: begin.instant + tick_stalled(&mut s, &protocol, begin, Uptake::none()), ..begin };
        match is_heard {
            true => s.feed(&protocol, b"6\n", later),
            false => {
                s.outbox.advance(1);
                s.sent(later);
            }
        }
        tick_stalled(&mut s, &protocol, begin, Uptake::none());
        assert_eq!(s.is_aborted(), !is_heard);
        assert_eq!(s.is_cut_off(), !is_heard);
    }
}
