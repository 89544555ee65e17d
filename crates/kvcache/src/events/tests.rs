use wire::{
    memcached::{
        self,
        binary::{Opcode, Status, client::RequestBody},
    },
    resp,
};

use super::*;
use crate::protocol::us::Us;

fn describe(dialect: &Dialect, request: &[u8]) -> (Option<String>, usize, Option<String>) {
    let text = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let RequestDescription { command, key_count, key } = RequestDescription::parse(dialect, request);
    (text(command), key_count, text(key))
}

fn described(command: &str, key_count: usize, key: &str) -> (Option<String>, usize, Option<String>) {
    (Some(command.to_owned()), key_count, Some(key.to_owned()).filter(|key| !key.is_empty()))
}

#[test]
fn requests_of_all_dialects_have_their_command_and_keys() {
    let resp = Dialect::Resp(resp::RequestParser::default());
    assert_eq!(describe(&resp, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"), described("get", 1, "a"));
    assert_eq!(describe(&resp, b"MSET a 1 b 2\r\n"), described("mset", 2, "a"));
    assert_eq!(describe(&resp, b"set \"a b\" 1\r\n"), described("set", 1, "a b"));
    assert_eq!(describe(&resp, b"CONFIG GET save\r\n"), described("config|get", 0, ""));
    assert_eq!(describe(&resp, b"NONSENSE x\r\n"), described("nonsense", 0, ""));
    assert_eq!(describe(&resp, b"*x\r\n"), (None, 0, None));
    let us = Dialect::Us(Us::default());
    assert_eq!(describe(&us, b"SET a b c\x1f"), described("set", 1, "a"));
    assert_eq!(describe(&us, b"MULTI\x1f"), described("multi", 0, ""));
    assert_eq!(describe(&us, b"NONSENSE a\x1f"), (None, 0, None));
    let memcached = Dialect::Memcached(memcached::RequestParser::default());
    assert_eq!(describe(&memcached, b"get a b c\r\n"), described("get", 3, "a"));
    assert_eq!(describe(&memcached, b"gat 10 a b\r\n"), described("gat", 2, "a"));
    assert_eq!(describe(&memcached, b"set a 0 0 3\r\nx y\r\n"), described("set", 1, "a"));
    assert_eq!(describe(&memcached, b"mg a v\r\n"), described("mg", 1, "a"));
    assert_eq!(describe(&memcached, b"version\r\n"), described("version", 0, ""));
}

/// Bytes of a request that a client of the binary protocol sends, and the dialect of its connection.
fn binary(opcode: Opcode, key: &[u8]) -> (Dialect, Vec<u8>) {
    let (mut parser, mut request) = (memcached::RequestParser::default(), Vec::new());
    let body = RequestBody { key, ..RequestBody::default() };
    memcached::binary::client::request(&mut request, opcode.number(), 1, 0, &body);
    assert!(parser.parse(&request, &memcached::Limits::default()).is_ok());
    (Dialect::Memcached(parser), request)
}

#[test]
fn binary_requests_have_the_names_of_the_text_protocol() {
    for (opcode, key, expected) in [
        (Opcode::GetK, "a b", described("get", 1, "a b")),
        (Opcode::Delete, "a", described("delete", 1, "a")),
        (Opcode::Noop, "", described("noop", 0, "")),
    ] {
        let (dialect, request) = binary(opcode, key.as_bytes());
        assert_eq!(describe(&dialect, &request), expected);
    }
    let (dialect, _) = binary(Opcode::Get, b"a");
    let head = memcached::binary::Head::default();
    let mut reply = Vec::new();
    for (status, expected) in [
        (Status::NotFound, Outcome::Nil),
        (Status::NotStored, Outcome::Error(b"Not stored.")),
        (Status::Success, Outcome::Ok),
    ] {
        reply.clear();
        memcached::binary::reply::error(&mut reply, head, status);
        assert_eq!(Outcome::of(&dialect, &reply), expected);
    }
}

/// Values and passwords are nobody's business.
#[test]
fn no_argument_but_a_key_is_in_an_event() {
    let resp = Dialect::Resp(resp::RequestParser::default());
    for request in
        ["AUTH secret\r\n", "HELLO 3 AUTH default secret\r\n", "CONFIG SET requirepass secret\r\n", "SET k secret\r\n"]
    {
        let description = format!("{:?}", describe(&resp, request.as_bytes()));
        assert!(!description.contains("secret"), "{description}");
    }
}

#[test]
fn an_outcome_is_what_the_reply_says() {
    let resp = Dialect::Resp(resp::RequestParser::default());
    let (us, memcached) = (Dialect::Us(Us::default()), Dialect::Memcached(memcached::RequestParser::default()));
    for (dialect, reply, expected) in [
        (&resp, &b"+OK\r\n"[..], Outcome::Ok),
        (&resp, b"$-1\r\n", Outcome::Nil),
        (&resp, b"_\r\n", Outcome::Nil),
        (&resp, b"-ERR no\r\n", Outcome::Error(b"-ERR no")),
        (&resp, b"", Outcome::Ok),
        (&us, b"(nil)\x1f", Outcome::Nil),
        (&us, b"ERROR: no\x1f", Outcome::Error(b"ERROR: no")),
        (&memcached, b"END\r\n", Outcome::Nil),
        (&memcached, b"VALUE a 0 1\r\nx\r\nEND\r\n", Outcome::Ok),
        (&memcached, b"CLIENT_ERROR bad\r\n", Outcome::Error(b"CLIENT_ERROR bad")),
    ] {
        assert_eq!(Outcome::of(dialect, reply), expected, "{}", reply.escape_ascii());
    }
    assert_eq!(Outcome::of(&resp, b"-ERR no\r\n").error(), Some(&b"ERR no"[..]));
}
