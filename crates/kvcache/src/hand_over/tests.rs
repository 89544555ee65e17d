use std::task::Waker;

use store::HashbrownStore;

use proto::Protocol;

use super::*;
use crate::{
    connection::FrontEnd,
    store_kind::Sharing,
    testing::{Server, ask, connect, now, server},
};

type Connection = Conn<HashbrownStore>;

/// Two processes in one: the old one with connections, and the new one.
struct Pair {
    old: Server,
    new: Server,
    hand_over: KeyHandOver<HashbrownStore>,
}

impl Pair {
    /// Hands the keys over, as far as the new process.
    fn begin(old: Server) -> Self {
        let (new, _) = server();
        old.start(Sharing::Locked).unwrap();
        let mut hand_over = KeyHandOver::new(Arc::clone(&old));
        let mut handed = hand_over.begin().unwrap();
        let inheritance = Inheritance::take(|role| {
            let at = handed.iter().position(|handed| handed.role == role)?;
            Some(handed.swap_remove(at).descriptor)
        });
        new.take_keys(inheritance.unwrap()).unwrap();
        Self { old, new, hand_over }
    }

    fn complete(old: Server) -> Self {
        let mut pair = Self::begin(old);
        pair.hand_over.complete();
        while !pair.old.has_handed_over() {
            thread::yield_now();
        }
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.hand_over.cancel();
        self.old.stop();
    }
}

/// Sends a request and waits for its replies.
fn ask_patiently(server: &Server, conn: &mut Connection, mut request: &[u8]) -> String {
    let (mut out, mut reply) = (Outbox::default(), Vec::new());
    while !request.is_empty() {
        let step = server.on_input(conn, request, now(), &mut out);
        request = &request[step.consumed..];
        assert!(step.consumed > 0 || out.has_pending_replies(), "{}", request.escape_ascii());
        while out.has_pending_replies() || !out.is_idle() {
            take_bytes(&mut out, &mut reply);
            let _ = out.poll_reply(Waker::noop());
            thread::yield_now();
        }
    }
    String::from_utf8(reply).unwrap()
}

#[test]
fn everything_that_connections_share_is_handed_over() {
    let (old, mut conn) = server();
    let mut memcached = connect(&old, FrontEnd::Memcached);
    ask(&old, &mut conn, b"SET a 1 PXAT 4000000012345\r\nHSET h f v\r\nSELECT 3\r\nSET b 2\r\n");
    let digest = ask(&old, &mut conn, b"SCRIPT LOAD \"return redis.call('get', KEYS[1])\"\r\n");
    let digest = digest.lines().nth(1).unwrap();
    ask(&old, &mut memcached, b"set c 7 0 1\r\n3\r\nms d 1 c\r\n3\r\ndelete d\r\nflush_all 99\r\n");
    let mut pair = Pair::begin(old);
    let mut conn = connect(&pair.new, FrontEnd::Detect);
    let asked = format!("EVALSHA {digest} 1 a\r\nPEXPIRETIME a\r\nHGET h f\r\nSELECT 3\r\nGET b\r\n");
    let wanted = "$1\r\n1\r\n:4000000012345\r\n$1\r\nv\r\n+OK\r\n$1\r\n2\r\n";
    assert_eq!(ask(&pair.new, &mut conn, asked.as_bytes()), wanted);
    let mut memcached = connect(&pair.new, FrontEnd::Memcached);
    assert_eq!(ask(&pair.new, &mut memcached, b"mg c f v\r\n"), "VA 1 f7\r\n3\r\n");
    // The number of a key that has been deleted is not assigned again either.
    let number = |server: &Server| server.state.memcached.numbers.last();
    assert!(number(&pair.old) > 0 && number(&pair.new) == number(&pair.old));
    assert_eq!(pair.new.state.memcached.flush.scheduled(), 4_000_000_099_000);
    pair.hand_over.cancel();
}

#[test]
fn what_waits_during_the_hand_over_is_answered_by_the_new_process() {
    let (old, mut conn) = server();
    ask(&old, &mut conn, b"SET a 1\r\n");
    let mut pair = Pair::begin(old);
    let mut out = Outbox::default();
    assert_eq!(pair.old.on_input(&mut conn, b"INCR a\r\n", now(), &mut out).consumed, 0, "it waits");
    assert!(out.poll_reply(Waker::noop()).is_pending());
    let mut other = connect(&pair.new, FrontEnd::Detect);
    assert_eq!(ask(&pair.new, &mut other, b"INCR a\r\n"), ":2\r\n");
    pair.hand_over.complete();
    while out.poll_reply(Waker::noop()).is_pending() {
        thread::yield_now();
    }
    assert_eq!(ask_patiently(&pair.old, &mut conn, b"INCR a\r\n"), ":3\r\n");
    assert_eq!(ask(&pair.new, &mut other, b"GET a\r\n"), "$1\r\n3\r\n");
}

#[test]
fn requests_are_forwarded_with_what_they_depend_on() {
    let (old, mut conn) = server();
    let (mut us, mut memcached) = (connect(&old, FrontEnd::Us), connect(&old, FrontEnd::Memcached));
    ask(&old, &mut us, b"GET a\x1f");
    let pair = Pair::complete(old);
    let long = "x".repeat(50_000);
    let asked = format!("SELECT 5\r\nHELLO 3\r\nSET a {long}\r\nGET a\r\nGET none\r\nSCARD a\r\nNONE\r\n");
    let reply = ask_patiently(&pair.old, &mut conn, asked.as_bytes());
    assert!(reply.contains(&long) && reply.contains("_\r\n-WRONGTYPE"), "RESP3, of database 5");
    assert!(reply.ends_with("-ERR unknown command 'NONE', with args beginning with: \r\n"), "{reply}");
    assert_eq!(
        ask_patiently(&pair.old, &mut conn, b"EVAL \"return redis.call('strlen', KEYS[1])\" 1 a\r\n"),
        ":50000\r\n"
    );
    assert_eq!(
        ask_patiently(&pair.old, &mut memcached, b"set m 1 0 2\r\nab\r\nget m\r\n"),
        "STORED\r\nVALUE m 1 2\r\nab\r\nEND\r\n"
    );
    let mut other = connect(&pair.new, FrontEnd::Detect);
    assert_eq!(
        ask(&pair.new, &mut other, b"GET m\r\nEXISTS a\r\nSELECT 5\r\nSTRLEN a\r\n"),
        "$2\r\nab\r\n:0\r\n+OK\r\n:50000\r\n"
    );
    assert_eq!(
        ask_patiently(&pair.old, &mut us, b"GET m\x1f"),
        ask(&pair.new, &mut connect(&pair.new, FrontEnd::Us), b"GET m\x1f")
    );
}

#[test]
fn a_transaction_is_run_whole_by_the_new_process() {
    let (old, mut conn) = server();
    let mut watching = connect(&old, FrontEnd::Detect);
    ask(&old, &mut conn, b"SET a 1\r\nMULTI\r\nINCR a\r\n");
    ask(&old, &mut watching, b"WATCH a\r\nMULTI\r\nINCR a\r\n");
    let pair = Pair::complete(old);
    let asked = b"EVAL \"return redis.call('incr', KEYS[1])\" 1 a\r\nEXEC\r\nGET a\r\nEXEC\r\n";
    let wanted = "+QUEUED\r\n*2\r\n:2\r\n:3\r\n$1\r\n3\r\n-ERR EXEC without MULTI\r\n";
    assert_eq!(ask_patiently(&pair.old, &mut conn, asked), wanted);
    // Nobody can tell what has become of the key, so that the client has to begin anew.
    assert_eq!(ask_patiently(&pair.old, &mut watching, b"EXEC\r\nGET a\r\n"), "*-1\r\n$1\r\n3\r\n");
}

#[test]
fn without_a_successor_the_keys_stay_and_what_waits_goes_on() {
    let (old, mut conn) = server();
    ask(&old, &mut conn, b"SET a 1\r\n");
    let mut pair = Pair::begin(old);
    let mut out = Outbox::default();
    assert_eq!(pair.old.on_input(&mut conn, b"INCR a\r\n", now(), &mut out).consumed, 0, "it waits");
    pair.hand_over.cancel();
    while out.poll_reply(Waker::noop()).is_pending() {
        thread::yield_now();
    }
    assert_eq!(ask_patiently(&pair.old, &mut conn, b"INCR a\r\n"), ":2\r\n");
    assert!(!pair.old.has_handed_over());
    // And the next one may succeed.
    let (next, _) = server();
    let mut handed = pair.hand_over.begin().unwrap();
    let from = handed.swap_remove(0).descriptor.into();
    next.take_keys(Inheritance { from, to: handed.swap_remove(0).descriptor.into() }).unwrap();
    assert_eq!(ask(&next, &mut connect(&next, FrontEnd::Detect), b"GET a\r\n"), "$1\r\n2\r\n");
}

#[test]
fn a_process_with_a_predecessor_hands_nothing_over() {
    let (old, _) = server();
    let pair = Pair::complete(old);
    let mut next = KeyHandOver::new(Arc::clone(&pair.new));
    let refused = next.begin().unwrap_err().to_string();
    assert!(refused.contains("has not come to its end"), "{refused}");
}
