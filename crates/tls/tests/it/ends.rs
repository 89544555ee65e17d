//! How connections end, from either side and in between.

use std::{sync::Arc, time::Duration};

use proto::{Limits, Now, Protocol as _};
use rustls::{AlertDescription, Error};
use tls::{Config, Counts, Handshakes, PlainAndTls, Tls};

use crate::{
    harness::{Authority, HANDSHAKE_MAX, LARGE, Link, Pieces, Server, VERSIONS, layer},
    lines::Lines,
};

fn link_with(limits: Limits) -> Link {
    let authority = Authority::new();
    let layer = layer(&Arc::new(Config::load(authority.settings()).unwrap()), limits);
    Link::new(Server::new(&layer, limits), authority.client(VERSIONS[1], false), "localhost")
}

fn link() -> Link {
    link_with(Limits::default())
}

fn server() -> Server {
    link().server
}

fn counts(server: &Server) -> Counts {
    server.layer.statistics().counts()
}

fn later(now: Now, by: Duration) -> Now {
    Now { instant: now.instant + by, ..now }
}

#[test]
fn each_end_of_the_inner_protocol_is_preceded_by_close_notify() {
    for (end, lingers) in [("close", false), ("linger", true), ("ack", true)] {
        let mut link = link();
        assert_eq!(link.ask(&format!("inline 5\n{end}\ninline 9\n"))[5..], *end.as_bytes());
        assert!(link.is_closed, "{end}");
        let session = &mut link.server.session;
        assert_eq!(session.is_awaiting_ack(), end == "ack");
        assert_eq!((session.begin_lingering(link.server.now), session.is_done()), (lingers, !lingers), "{end}");
    }
}

#[test]
fn an_inner_abort_says_nothing_more() {
    let mut link = link();
    link.send(b"abort\n");
    link.run(LARGE);
    assert!(link.server.session.is_aborted() && !link.is_closed);
}

/// The client has closed its side: what it asked is answered, and only then comes our own close_notify.
#[test]
fn a_half_closed_client_gets_all_replies() {
    let mut link = link();
    link.ask("inline 1\n");
    link.send(b"later 100\nfile 400000\nhold 5\ninline 7\ntorn");
    link.client.send_close_notify();
    link.run(Pieces { input: 1_000, output: 10_000 });
    assert_eq!(link.received.len(), 400_112);
    assert!(link.is_closed && link.server.session.is_done());
}

/// The end of the bytes without close_notify: whole requests are answered, a torn one is not.
#[test]
fn a_truncated_stream_ends_like_a_closed_one() {
    for sent in ["file 400000\nhold 5\ninl", "inline 3\n", ""] {
        let mut link = link();
        link.ask("inline 1\n");
        link.send(sent.as_bytes());
        link.step(LARGE);
        link.server.session.end_of_input();
        link.run(Pieces { input: usize::MAX, output: 60_000 });
        let wanted = [400_005, 3, 0][usize::from(sent.len() < 20) + usize::from(sent.is_empty())];
        assert_eq!(link.received.len(), wanted);
        assert!(link.is_closed && link.server.session.is_done(), "{sent}");
    }
}

#[test]
fn plain_bytes_get_an_alert_and_are_counted() {
    for plain in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "G", "\0", "PING\r\n"] {
        let (mut server, mut sink) = (server(), Vec::new());
        server.feed(plain.as_bytes());
        server.flush(&mut sink, usize::MAX);
        assert_eq!((sink.first(), sink.len()), (Some(&21), 7), "an alert: {sink:?}");
        assert!(server.session.begin_lingering(server.now));
        assert_eq!(counts(&server), Counts { failed: 1, plain: 1, open: 1, ..Counts::default() });
    }
}

#[test]
fn text_on_a_tls_address_gets_an_answer_in_the_clear() {
    let authority = Authority::new();
    let config = Arc::new(Config::load(authority.settings()).unwrap());
    let layer =
        Tls::new(Arc::new(Lines::new()), config, Limits::default(), HANDSHAKE_MAX).with_answer_to_plain(b"speak TLS\n");
    let layer = Arc::new(layer);
    for (plain, answered) in
        [("GET / HTTP/1.1\r\n\r\n", true), ("P", true), ("\0", false), ("\x16\x03\x01\x02\x00G", false)]
    {
        let (mut server, mut sink) = (Server::new(&layer, Limits::default()), Vec::new());
        server.feed(plain.as_bytes());
        server.flush(&mut sink, usize::MAX);
        assert_eq!(sink == b"speak TLS\n", answered, "{plain:?}: {sink:?}");
    }
}

#[test]
fn a_refusal_is_an_alert_where_all_addresses_are_tls() {
    let config = Arc::new(Config::load(Authority::new().settings()).unwrap());
    let refusal = |plain| {
        let layer = Tls::new(Arc::new(Lines::new()), Arc::clone(&config), Limits::default(), HANDSHAKE_MAX);
        PlainAndTls::new(plain, layer).refusal().to_vec()
    };
    assert_eq!((refusal(0), refusal(1)), (vec![21, 3, 1, 0, 2, 2, 80], Lines::new().refusal().to_vec()));
}

#[test]
fn an_altered_record_ends_the_connection_with_an_alert() {
    let mut link = link();
    link.ask("inline 1\n");
    link.send(b"inline 5\n");
    let mut record = Vec::new();
    link.client.write_tls(&mut record).unwrap();
    record[9] ^= 1;
    link.server.feed(&record);
    link.run(LARGE);
    assert_eq!(link.error, Some(Error::AlertReceived(AlertDescription::BadRecordMac)));
    assert!(link.received.is_empty() && !link.is_closed);
    assert!(link.server.session.begin_lingering(link.server.now));
    assert_eq!(counts(&link.server).failed, 1);
}

#[test]
fn an_oversized_record_ends_the_connection_with_an_alert() {
    let mut link = link();
    link.ask("inline 1\n");
    link.server.feed(&[23, 3, 3, 0xff, 0xff, 1, 2, 3]);
    link.run(LARGE);
    assert!(matches!(link.error, Some(Error::AlertReceived(_))), "{:?}", link.error);
    assert!(link.server.session.begin_lingering(link.server.now));
}

/// Garbage in place of the second flight, and whatever else a stranger may send first.
#[test]
fn garbage_in_a_handshake_is_an_alert_and_never_a_panic() {
    let mut random = 0x1234_5678_9abc_def0_u64;
    let layer = server().layer;
    for round in 0..300 {
        let mut server = Server::new(&layer, Limits::default());
        let mut bytes = vec![22, 3, 1, 0, (round % 200) as u8];
        bytes.extend((0..round).map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        }));
        bytes.chunks(1 + round % 50).for_each(|piece| server.feed(piece));
        server.flush(&mut Vec::new(), usize::MAX);
        assert_eq!(counts(&server).tls13, Handshakes::default());
    }
}

#[test]
fn a_handshake_has_a_time_limit() {
    let mut server = server();
    server.feed(&[22, 3, 1]);
    let due = server.session.deadline(&*server.layer).unwrap();
    assert_eq!(due, server.now.instant + HANDSHAKE_MAX);
    server.session.tick(&*server.layer, Now { instant: due, ..server.now }, proto::Uptake::none);
    assert!(server.session.is_aborted());
    assert_eq!(counts(&server).failed, 1);
}

/// An idle connection is closed with close_notify, and a slow reader is not idle.
#[test]
fn idle_time_begins_when_the_last_byte_has_been_taken() {
    let mut link = link();
    link.ask("inline 1\n");
    link.send(b"file 200000\n");
    let begin = link.server.now;
    for minutes in 1..=4 {
        link.server.now = later(begin, Duration::from_secs(50 * minutes));
        link.step(Pieces { input: usize::MAX, output: 40_000 });
        link.server.session.tick(&*link.server.layer, link.server.now, proto::Uptake::all);
        assert!(!link.server.session.is_done());
    }
    link.run(LARGE);
    assert_eq!(link.received.len(), 200_000);
    let now = link.server.now;
    for (seconds, is_closed) in [(2, false), (58, false), (61, true)] {
        link.server.now = later(now, Duration::from_secs(seconds));
        link.server.session.tick(&*link.server.layer, link.server.now, proto::Uptake::none);
        link.run(LARGE);
        assert_eq!(link.is_closed, is_closed, "after {seconds} seconds");
    }
    assert!(link.server.session.is_done());
}

/// The reply after the greatest age is the last; without one the connection ends a moment later.
#[test]
fn an_old_connection_ends_with_close_notify() {
    let limits = Limits { age_max: Some(Duration::from_secs(20)), ..Limits::default() };
    for is_asked in [true, false] {
        let mut link = link_with(limits);
        link.server.now = later(link.server.now, Duration::from_millis(19_500));
        link.ask("inline 1\n");
        assert!(!link.is_closed);
        link.server.now = later(link.server.now, Duration::from_millis(600));
        link.server.session.tick(&*link.server.layer, link.server.now, proto::Uptake::none);
        if is_asked {
            assert_eq!(link.ask("file 300000\n").len(), 300_000);
        } else {
            link.server.now = later(link.server.now, Duration::from_millis(1_100));
            link.server.session.tick(&*link.server.layer, link.server.now, proto::Uptake::none);
            link.run(LARGE);
        }
        assert!(link.is_closed && !link.server.session.wants_read(), "{is_asked}");
    }
}

/// A file that shrinks during a transfer ends the connection without close_notify: the peer knows that it is not whole.
#[test]
fn a_file_that_shrinks_is_seen_as_truncation() {
    for kind in ["file", "pages", "mapped"] {
        let mut link = link();
        link.ask("inline 1\n");
        link.send(format!("{kind} 3000000\n").as_bytes());
        link.step(Pieces { input: usize::MAX, output: 1_000 });
        link.server.layer.inner().content.truncate(4_096).unwrap();
        link.run(LARGE);
        assert!(link.server.session.is_aborted() && !link.is_closed, "{kind}");
        assert!(link.received.len() < 3_000_000, "{kind}");
    }
}

#[test]
fn a_dropped_promise_ends_the_connection_after_what_came_before() {
    let mut link = link();
    assert_eq!(link.ask("inline 5\ndrop\ninline 9\n").len(), 5);
    assert!(link.server.session.is_done());
}
