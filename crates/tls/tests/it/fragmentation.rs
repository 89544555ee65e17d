//! The plaintext is what the inner protocol says, however the ciphertext is torn.

use std::sync::Arc;

use proptest::prelude::*;
use proto::Limits;
use tls::Config;

use crate::{
    harness::{Authority, LARGE, Link, Pieces, Server, VERSIONS, layer},
    lines::CONTENT_BYTES,
};

const KINDS: [&str; 9] = ["inline", "shared", "file", "pages", "mapped", "pipe", "slow", "later", "hold"];

fn link(version: usize) -> Link {
    link_with(version, None)
}

/// A client whose records have so many bytes, those of the handshake included.
fn link_with(version: usize, record_bytes: Option<usize>) -> Link {
    let authority = Authority::new();
    let layer = layer(&Arc::new(Config::load(authority.settings()).unwrap()), Limits::default());
    let mut client = authority.client(VERSIONS[version], false);
    client.max_fragment_size = record_bytes;
    Link::new(Server::new(&layer, Limits::default()), client, "localhost")
}

/// Sends a script in pieces and compares all of the replies.
fn check(link: &mut Link, lines: &[String], pieces: Pieces) {
    let inner = Arc::clone(&link.server.layer);
    let wanted: Vec<u8> = lines.iter().flat_map(|line| inner.inner().reply(line)).collect();
    link.run(pieces);
    link.send((lines.join("\n") + "\n").as_bytes());
    link.client.send_close_notify();
    link.run(pieces);
    assert_eq!(link.error, None);
    let same = link.received.iter().zip(&wanted).take_while(|(got, wanted)| got == wanted).count();
    let (got, wanted) = (link.received.len(), wanted.len());
    assert!(got == wanted && same == wanted, "{got} bytes instead of {wanted}, {same} the same");
    assert!(link.is_closed && link.server.session.is_done(), "closed by both sides");
}

#[test]
fn every_kind_of_segment_arrives_unchanged() {
    for version in [0, 1] {
        for pieces in [LARGE, Pieces { input: 1, output: usize::MAX }, Pieces { input: 7, output: 333 }] {
            let mut lines = vec!["instant".to_owned(), "empty".to_owned()];
            for kind in KINDS {
                let sizes: &[usize] = if kind == "slow" { &[1, 40] } else { &[0, 1, 2_049, 16_384, 16_385, 300_000] };
                lines.extend(sizes.iter().map(|n| format!("{kind} {n}")));
                lines.extend(["empty".to_owned(), "instant".to_owned()]);
            }
            check(&mut link(version), &lines, pieces);
        }
    }
}

#[test]
fn one_byte_at_a_time_in_both_directions_is_the_same_stream() {
    for version in [0, 1] {
        let lines: Vec<_> = KINDS.iter().map(|kind| format!("{kind} 37")).collect();
        check(&mut link(version), &lines, Pieces { input: 1, output: 1 });
    }
}

/// Large bodies are encrypted as the peer takes them.
#[test]
fn queued_ciphertext_is_bounded() {
    for kind in ["file", "shared", "mapped"] {
        let mut link = link(1);
        let lines = vec![format!("{kind} {CONTENT_BYTES}"); 5];
        check(&mut link, &lines, Pieces { input: usize::MAX, output: 50_000 });
        assert!(link.server.held_max < 400_000, "{kind}: {} bytes", link.server.held_max);
    }
}

/// The inner session takes no more while replies are pending; what comes meanwhile waits outside, and is not too long.
#[test]
fn input_behind_pending_replies_is_held_back() {
    let mut lines = vec!["later 9".to_owned(); 300];
    lines.extend(vec!["inline 1".to_owned(); 200_000]);
    lines.extend(vec!["hold 3".to_owned(), "inline 2".to_owned()]);
    check(&mut link(1), &lines, Pieces { input: 30_000, output: usize::MAX });
}

fn line() -> impl Strategy<Value = String> {
    let size = prop_oneof![0..40_usize, 2_000..2_100_usize, 16_300..16_500_usize, Just(400_000_usize)];
    let sized = (0..KINDS.len(), size).prop_map(|(kind, n)| match KINDS[kind] {
        "slow" => format!("slow {}", n % 40),
        kind => format!("{kind} {n}"),
    });
    prop_oneof![9 => sized, 1 => Just("empty".to_owned()), 1 => Just("instant".to_owned())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_plaintext_does_not_depend_on_how_it_is_torn(
        lines in proptest::collection::vec(line(), 1..25),
        version in 0..2_usize,
        record_bytes in prop_oneof![Just(None), (32..300_usize).prop_map(Some)],
        input in prop_oneof![1..40_usize, 100..20_000_usize],
        output in prop_oneof![100..2_000_usize, 2_000..400_000_usize],
    ) {
        check(&mut link_with(version, record_bytes), &lines, Pieces { input, output });
    }
}

/// Messages of the handshake that are torn over many records, each of which comes alone.
#[test]
fn a_handshake_in_the_smallest_records_is_complete() {
    for version in [0, 1] {
        for input in [1, 20, 37, usize::MAX] {
            check(&mut link_with(version, Some(32)), &["inline 900".to_owned()], Pieces { input, output: 50 });
        }
    }
}

#[test]
fn keys_are_updated_in_the_middle_of_a_stream() {
    let mut link = link(1);
    for round in 0..5 {
        link.ask("inline 1\n");
        link.send(b"file 300000\nhold 7\n");
        link.step(Pieces { input: usize::MAX, output: 9_000 });
        link.client.refresh_traffic_keys().unwrap();
        link.send(b"shared 5000\n");
        link.client.refresh_traffic_keys().unwrap();
        link.run(Pieces { input: 17, output: 20_000 });
        assert_eq!((link.received.len(), &link.error), (305_007, &None), "{round}");
        link.received.clear();
    }
}
