//! Requests and replies on a connection, and its end.

use std::time::Duration;

use fileserver::{Combination, ProtocolKind};
use layouts::LayoutKind;
use proptest::prelude::*;
use proto::{Flow, Outbox, Protocol};
use wire::file::Status;

use crate::common::{Collection, DATABASE, DOCUMENTS, PLAIN, Setup, World, contents, frame, replies};

const ORIGINAL: Setup = Setup { choice: Combination { protocol: ProtocolKind::Original, ..PLAIN.choice }, ..PLAIN };
const SMALL: (&str, usize) = DOCUMENTS[2];

fn small() -> Vec<u8> {
    contents(SMALL.0, SMALL.1)
}

#[test]
fn malformed_original_requests_are_answered_with_one_nul() {
    let collection = Collection::new(LayoutKind::Flat);
    let world = World::new(&ORIGINAL, &collection);
    for request in [
        &b"small002"[..],
        b"SMALL-02",
        b"SMALL\x0002",
        b"GET / HTTP/1.1\r\n\r\n",
        b"../../..",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let answer = world.exchange(request, request.len());
        assert!(answer.bytes == [0] && answer.is_closed && answer.is_lingering, "{}", request.escape_ascii());
    }
    assert_eq!(world.server.statistics().answers, [0, 0, 6, 0, 0]);
}

/// A reset would overtake the end of the document, so whatever else is sent, now or later, is read first.
#[test]
fn a_client_that_sends_more_than_an_id_gets_the_document() {
    let collection = Collection::new(LayoutKind::Flat);
    let world = World::new(&ORIGINAL, &collection);
    for more in ["", "\n", "SMALL002"] {
        let request = format!("{}{more}", SMALL.0);
        let answer = world.exchange(request.as_bytes(), request.len());
        assert!(answer.bytes == small() && answer.is_closed && answer.is_lingering, "{more:?}");
    }
}

#[test]
fn every_framed_miss_says_what_it_is() {
    let collection = Collection::new(LayoutKind::Flat);
    let world = World::new(&PLAIN, &collection);
    let (good, nul) = (frame(SMALL.0.as_bytes()), frame(b"a\0b"));
    let input = [&*good, &frame(b"MISSING9"), &nul, &frame(&[b'x'; 1024]), &good].concat();
    let answer = world.exchange(&input, input.len());
    let statuses: Vec<_> = replies(&answer.bytes).into_iter().map(|(status, _)| status).collect();
    let wanted = [Status::Found, Status::Missing, Status::Malformed, Status::Missing, Status::Found];
    assert_eq!((&*statuses, answer.is_closed), (&wanted[..], false));

    // Where the next request would start is not known any more.
    for lost in [&[0_u8, 0][..], &[4, 1], &[0xff, 0xff]] {
        let input = [&*good, lost, &good].concat();
        let answer = world.exchange(&input, input.len());
        let statuses: Vec<_> = replies(&answer.bytes).into_iter().map(|(status, _)| status).collect();
        assert_eq!(statuses, [Status::Found, Status::Malformed]);
        assert!(answer.is_lingering);
    }
}

/// A partial request times out however its bytes trickle in; an idle connection has a timeout of its own.
#[test]
fn half_a_request_has_a_deadline() {
    for (setup, half, said) in [
        (ORIGINAL, &b"SMALL0"[..], vec![0]),
        (PLAIN, &b"\0\x08SMALL"[..], vec![Status::Malformed.byte(), 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let collection = Collection::new(LayoutKind::Flat);
        let mut world = World::new(&setup, &collection);
        let begin = world.now.instant;
        let mut conn =
            world.server.open(proto::Peer::unknown(std::os::fd::AsFd::as_fd(&std::io::stdin()), 0), world.now);
        let mut out = Outbox::default();
        assert_eq!(world.server.deadline(&conn, begin), Some(begin + Duration::from_secs(60)));
        for byte in half {
            let step = world.server.on_input(&mut conn, &[*byte], world.now, &mut out);
            assert_eq!((step.consumed, step.flow), (1, Flow::Open));
            world.pass(Duration::from_secs(1));
            assert_eq!(world.server.deadline(&conn, world.now.instant), Some(begin + Duration::from_secs(10)));
        }
        assert_eq!(world.server.on_deadline(&mut conn, world.now, &mut out), Flow::Linger);
        assert_eq!(*out.inline(), said);
    }
    let collection = Collection::new(LayoutKind::Flat);
    let world = World::new(&PLAIN, &collection);
    let mut session = world.session();
    session.feed(&world.server, &frame(SMALL.0.as_bytes()), world.now);
    testkit::in_memory::flush(&mut session, &mut Vec::new(), usize::MAX);
    session.sent(world.now);
    let mut later = world.now;
    later.instant += Duration::from_secs(61);
    session.tick(&world.server, later, proto::Uptake::none);
    assert!(session.is_done(), "nothing more was asked for");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn replies_do_not_depend_on_fragmentation(
        picks in proptest::collection::vec(0..8_usize, 0..60),
        last in 0..4_usize,
        chunk in 1..40_usize,
        is_database in any::<bool>(),
    ) {
        let collection = Collection::new(LayoutKind::Flat);
        let request = |pick: usize| match pick {
            6 => frame(b"MISSING9"),
            7 => frame(b"a\0b"),
            pick => frame(DOCUMENTS[pick].0.as_bytes()),
        };
        let mut input: Vec<u8> = picks.iter().flat_map(|&pick| request(pick)).collect();
        input.extend_from_slice([&b""[..], b"\0\0", b"\0", b"\0\x08SMALL"][last]);
        let world = World::new(if is_database { &DATABASE } else { &PLAIN }, &collection);
        let whole = world.exchange(&input, input.len().max(1));
        let torn = world.exchange(&input, chunk);
        prop_assert!(whole.bytes == torn.bytes && whole.is_closed == torn.is_closed);
        prop_assert_eq!(replies(&whole.bytes).len(), picks.len() + usize::from(last == 1));
        prop_assert_eq!(whole.is_closed, last == 1);
    }

    #[test]
    fn no_input_panics(input in proptest::collection::vec(any::<u8>(), 0..400), chunk in 1..50_usize) {
        for setup in [ORIGINAL, PLAIN] {
            let world = World::new(&setup, &Collection::empty(LayoutKind::Flat));
            let whole = world.exchange(&input, input.len().max(1));
            let torn = world.exchange(&input, chunk);
            prop_assert!(whole.bytes == torn.bytes);
            drop((whole, torn));
            prop_assert_eq!(world.server.connections(), 0);
        }
    }
}
