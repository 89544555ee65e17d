//! The meaning of requests, as memcached 1.6.18 understands these very bytes.

use super::parse_to_text;
use crate::memcached::Limits;

const FORMAT: &str = "CLIENT_ERROR bad command line format";
const CHUNK: &str = "CLIENT_ERROR bad data chunk";

fn check(table: &[(&str, &str)]) {
    for (input, expected) in table {
        assert_eq!(parse_to_text(input.as_bytes(), &Limits::default()), *expected, "{input:?}");
    }
}

fn key(length: usize) -> String {
    "k".repeat(length)
}

#[test]
fn lines_are_split_at_blanks_alone() {
    check(&[
        ("\r\n", "ERROR"),
        ("\n", "ERROR"),
        ("a\r\n", "ERROR"),
        ("ab\r\n", "ERROR"),
        ("get a\n", "get a"),
        ("get a\r\r\n", r"get a\r"),
        (" get  a  b \r\n", "get a b"),
        ("GET a\r\n", "ERROR"),
        ("set a\tb 0 0 1\r\nx\r\n", r"Set a\tb 0 Never = x"),
        ("get a\0b\r\n", "get a"),
        ("ge\0t a\r\n", "ERROR"),
        ("\0\r\n", "ERROR"),
    ]);
}

#[test]
fn retrieval() {
    check(&[
        ("get\r\n", "ERROR"),
        ("get \r\n", "ERROR"),
        ("gets a b\r\n", "gets a b"),
        ("bget a\r\n", "get a"),
        ("getx a\r\n", "ERROR"),
        (&format!("get {}\r\n", key(250)), &format!("get {}", key(250))),
        (&format!("get {}\r\n", key(251)), FORMAT),
        (&format!("get a {}\r\n", key(251)), FORMAT),
        ("gat\r\n", "ERROR"),
        ("gat 0\r\n", "gat Never "),
        ("gat x\r\n", "CLIENT_ERROR invalid exptime argument"),
        ("gat 9 a\r\n", "gat In(9) a"),
        ("gats x a\r\n", "CLIENT_ERROR invalid exptime argument"),
        ("gats -1 a\r\n", "gats Immediately a"),
    ]);
}

#[test]
fn storage() {
    check(&[
        ("set a 0 0 1\r\nx\r\nget a\r\n", "Set a 0 Never = x | get a"),
        ("set a 5 0 1 noreply\r\nx\r\n", "Set a 5 Never quietly = x"),
        ("set a 0 0 1 foo\r\nx\r\n", "Set a 0 Never = x"),
        ("set a 0 0 1 foo bar\r\nx\r\n", "ERROR | ERROR"),
        ("set a 0 0\r\n", "ERROR"),
        ("set a 0 0 3\r\nabcdef\r\n", &format!("{CHUNK} | ERROR")),
        ("set a 0 0 3\r\nab\r\nget b\r\n", &format!("{CHUNK} | ERROR")),
        ("set a 0 0 3 noreply\r\nabcdef\r\n", "ERROR"),
        (&format!("set {} 0 0 1\r\nx\r\n", key(251)), &format!("{FORMAT} | ERROR")),
        (&format!("set {} 0 0 1 noreply\r\nx\r\n", key(251)), "ERROR"),
        ("set a x 0 1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 x 1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 0 x\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 0 -1\r\n", FORMAT),
        ("set a 0 0 -1 noreply\r\nget a\r\n", "get a"),
        ("set a 0 0 noreply\r\nversion\r\n", "version"),
        ("set a 0 0 2147483645\r\nx", "too large, a | …"),
        ("set a 0 0 2147483646\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 0 0\r\n\r\nget a\r\n", "Set a 0 Never =  | get a"),
        ("set a 0 0 1\r\nx\n\r\n", &format!("{CHUNK} | ERROR")),
        ("set a 0 0 1\nx\r\n", "Set a 0 Never = x"),
        ("add a 0 0 1\r\nx\r\n", "Add a 0 Never = x"),
        ("replace a 0 0 1\r\nx\r\n", "Replace a 0 Never = x"),
        ("append a 0 0 1\r\nx\r\n", "Append a 0 Never = x"),
        ("prepend a 0 0 1\r\nx\r\n", "Prepend a 0 Never = x"),
        ("cas a 0 0 1 7\r\nx\r\n", "Cas(7) a 0 Never = x"),
        ("cas a 0 0 1\r\nx\r\n", "ERROR | ERROR"),
        ("cas a 0 0 1 x\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("cas a 0 0 1 1 noreply\r\nx\r\nmn\r\n", "Cas(1) a 0 Never quietly = x | mn"),
    ]);
}

#[test]
fn a_value_above_the_limit_is_skipped() {
    let value = "x".repeat(2_000_000);
    check(&[
        (&format!("set a 0 0 2000000\r\n{value}\r\nget a\r\n"), "too large, a | get a"),
        (&format!("set a 0 0 2000000 noreply\r\n{value}\r\nget a\r\n"), "too large quietly, a | get a"),
        (&format!("add a 0 0 2000000\r\n{value}\r\nget a\r\n"), "too large, - | get a"),
        (&format!("ms a 2000000 k\r\n{value}\r\nmn\r\n"), "too large, a | mn"),
    ]);
}

#[test]
fn numbers_are_read_as_c_reads_them() {
    check(&[
        ("set a 4294967295 0 1\r\nx\r\n", "Set a 4294967295 Never = x"),
        ("set a 0 4294967295 1\r\nx\r\n", "Set a 0 Immediately = x"),
        ("set a 0 2147483648 1\r\nx\r\n", "Set a 0 Immediately = x"),
        ("set a 0 2147483647 1\r\nx\r\n", "Set a 0 At(2147483647) = x"),
        ("set a 0 4294967296 1\r\nx\r\n", "Set a 0 Never = x"),
        ("set a 0 9999999999 1\r\nx\r\n", "Set a 0 At(1410065407) = x"),
        ("set a 0 -4294967297 1\r\nx\r\n", "Set a 0 Immediately = x"),
        ("set a -1 0 1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a +1 0 1\r\nx\r\n", "Set a 1 Never = x"),
        ("set a 01 0 1\r\nx\r\n", "Set a 1 Never = x"),
        ("set a 1\t2 0 1\r\nx\r\n", "Set a 1 Never = x"),
        ("set a 1x 0 1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 -1 1\r\nx\r\n", "Set a 0 Immediately = x"),
        ("set a 0 2592000 1\r\nx\r\n", "Set a 0 In(2592000) = x"),
        ("set a 0 2592001 1\r\nx\r\n", "Set a 0 At(2592001) = x"),
        ("set a 0 0 1\t2\r\nx\r\n", "Set a 0 Never = x"),
        ("set a 0 0 \x0b1\r\nx\r\n", "Set a 0 Never = x"),
        ("set a 0 0 -0\r\n\r\n", "Set a 0 Never = "),
        ("cas a 0 0 1 -1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("cas a 0 0 1 18446744073709551615\r\nx\r\n", "Cas(18446744073709551615) a 0 Never = x"),
        ("cas a 0 0 1 18446744073709551616\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("cas a 0 0 1 -18446744073709551615\r\nx\r\n", "Cas(1) a 0 Never = x"),
    ]);
}

/// memcached stores flags 0, a value of one byte, and an item that expires at once.
#[test]
fn numbers_that_do_not_fit_are_refused() {
    check(&[
        ("set a 4294967296 0 1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 0 4294967297\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("set a 0 4102444800 1\r\nx\r\n", "Set a 0 Immediately = x"),
    ]);
}

#[test]
fn deletion_arithmetic_and_touch() {
    const USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    const DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
    check(&[
        ("delete a\r\n", "delete a"),
        ("delete a 0\r\n", "delete a"),
        ("delete a 1\r\n", USAGE),
        ("delete / HTTP/1.1\r\n", USAGE),
        ("delete a noreply\r\n", "delete a quietly"),
        ("delete a 0 noreply\r\n", "delete a quietly"),
        ("delete a 1 noreply\r\nmn\r\n", "mn"),
        ("delete\r\n", "ERROR"),
        ("delete a b c d\r\n", "ERROR"),
        ("delete noreply\r\n", "delete noreply"),
        (&format!("delete {}\r\n", key(251)), FORMAT),
        ("incr a\r\n", "ERROR"),
        ("incr a 1\r\n", "Increment a 1"),
        ("decr a +1\r\n", "Decrement a 1"),
        ("incr a x\r\n", DELTA),
        ("incr a -1\r\n", DELTA),
        ("incr a -0\r\n", "Increment a 0"),
        ("incr a 1 noreply\r\n", "Increment a 1 quietly"),
        ("incr a x noreply\r\nmn\r\n", "mn"),
        ("incr a 18446744073709551616\r\n", DELTA),
        (&format!("incr {} 1\r\n", key(251)), FORMAT),
        ("touch a\r\n", "ERROR"),
        ("touch a x\r\n", "CLIENT_ERROR invalid exptime argument"),
        ("touch a 0\r\n", "touch a Never"),
        ("touch a 0 foo\r\n", "touch a Never"),
        ("touch a 0 noreply\r\n", "touch a Never quietly"),
    ]);
}

#[test]
fn administration() {
    check(&[
        ("flush_all\r\n", "flush Never"),
        ("flush_all 0\r\n", "flush Never"),
        ("flush_all 9\r\n", "flush In(9)"),
        ("flush_all noreply\r\n", "flush Never quietly"),
        ("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument"),
        ("flush_all -1\r\n", "flush Immediately"),
        ("flush_all 0 noreply\r\n", "flush Never quietly"),
        ("flush_all 0 1\r\n", "flush Never"),
        ("flush_all 1 2 3\r\n", "ERROR"),
        ("flush_all x noreply\r\nmn\r\n", "mn"),
        ("version\r\n", "version"),
        ("version foo\r\n", "version"),
        ("verbosity\r\n", "ERROR"),
        ("verbosity 1\r\n", "verbosity 1"),
        ("verbosity x\r\n", FORMAT),
        ("verbosity noreply\r\nmn\r\n", "mn"),
        ("verbosity 1 noreply\r\n", "verbosity 1 quietly"),
        ("verbosity 0 0\r\n", "verbosity 0"),
        ("quit x\r\n", "quit"),
        ("stats a b\r\n", "stats a b"),
        ("shutdown\r\n", "shutdown Now"),
        ("shutdown graceful\r\n", "shutdown Graceful"),
        ("shutdown x\r\n", "shutdown Unknown"),
    ]);
}

#[test]
fn connections_of_other_protocols_are_closed() {
    check(&[
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "†"),
        ("POST / HTTP/1.1\r\n", "†"),
        ("put / HTTP/\r\n", "†"),
        ("get / HTTP/1.1\r\n", "get / HTTP/1.1"),
        ("xyz HTTP/1.1 foo\r\n", "ERROR"),
        ("x HTTP/1.1\r\n", "ERROR"),
        ("mm HTTP/1\r\n", "ERROR"),
        (&"g".repeat(2048), "…"),
        (&("g".repeat(2048) + "\n"), "ERROR"),
        (&"g".repeat(2049), "†"),
        (&("touch ".to_owned() + &"a ".repeat(1500)), "†"),
        (&("get ".to_owned() + &"a ".repeat(1500)), "…"),
        (&("get ".to_owned() + &"a ".repeat(1500) + "\r\n"), &("get".to_owned() + &" a".repeat(1500))),
        (&(" ".repeat(100) + "get " + &"a ".repeat(1500)), "…"),
        (&(" ".repeat(101) + "get " + &"a ".repeat(1500)), "†"),
    ]);
    // memcached takes the first byte for the binary protocol, but not a later one.
    assert_eq!(parse_to_text(b"\x80", &Limits::default()), "…");
    assert_eq!(parse_to_text(b"mn\r\n\x80\r\n", &Limits::default()), "mn | ERROR");
}

#[test]
fn meta_get() {
    const TOKEN: &str = "CLIENT_ERROR bad token in command line format";
    const DUPLICATE: &str = "CLIENT_ERROR duplicate flag";
    const INVALID: &str = "CLIENT_ERROR invalid flag";
    check(&[
        ("mn foo\r\n", "mn"),
        ("mx a\r\n", "ERROR"),
        ("m\r\n", "ERROR"),
        ("mg\r\n", "ERROR"),
        ("mg a\r\n", "mg a"),
        ("mg a v t O123 k q\r\n", "mg a v t O123 k q"),
        ("mg a v v\r\n", DUPLICATE),
        ("mg a E1\r\n", INVALID),
        ("mg a S1\r\n", INVALID),
        ("mg a ~\r\n", INVALID),
        ("mg a \x7f\r\n", DUPLICATE),
        ("mg a P1 L1\r\n", "mg a P1 L1"),
        ("mg a Tx\r\n", TOKEN),
        ("mg a T\r\n", TOKEN),
        ("mg a Fx\r\n", FORMAT),
        ("mg a Fx Tx\r\n", TOKEN),
        ("mg a Tx Fx\r\n", TOKEN),
        ("mg a Tx v v\r\n", DUPLICATE),
        (&format!("mg a O{}\r\n", "1".repeat(31)), &format!("mg a O{}", "1".repeat(31))),
        (&format!("mg a O{}\r\n", "1".repeat(32)), "CLIENT_ERROR opaque token too long"),
        (&format!("mg {}\r\n", key(251)), FORMAT),
        ("mg Zm9v b k\r\n", "mg foo b k"),
        ("mg Zm9 b k\r\n", "CLIENT_ERROR error decoding key"),
        ("mg ==== b k\r\n", "CLIENT_ERROR error decoding key"),
        ("mg Zm9= b k\r\n", "mg fo b k"),
        ("mg a M\r\n", "CLIENT_ERROR incorrect length for M token"),
        ("mg a MXX\r\n", "CLIENT_ERROR incorrect length for M token"),
        ("mg a MX\r\n", "mg a MX"),
        ("mg a Jx\r\n", "CLIENT_ERROR invalid numeric initial value"),
        ("mg a Dx\r\n", "CLIENT_ERROR invalid numeric delta value"),
        ("mg a Cx\r\n", TOKEN),
        (&format!("mg a {}\r\n", "v ".repeat(17)), DUPLICATE),
        (&format!("mg a {}\r\n", "v ".repeat(18)), "CLIENT_ERROR options flags are too long"),
        (&format!("mg a {}\r\n", "v ".repeat(99)), "CLIENT_ERROR options flags are too long"),
    ]);
    assert_eq!(parse_to_text(b"mg a \xff\r\n", &Limits::default()), DUPLICATE);
}

#[test]
fn meta_set() {
    check(&[
        ("ms\r\n", "ERROR"),
        ("ms a\r\n", FORMAT),
        ("ms a 1\r\nx\r\n", "ms Set a = x"),
        ("ms a x\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("ms a -1\r\n", FORMAT),
        ("ms a S1\r\nx\r\n", &format!("{FORMAT} | ERROR")),
        ("ms a 1 q\r\nxyz\r\nmn\r\n", &format!("{CHUNK} | ERROR | mn")),
        ("ms a 1 Z\r\nx\r\nmn\r\n", "CLIENT_ERROR invalid flag | mn"),
        ("ms a 1 MX\r\nx\r\nmn\r\n", "CLIENT_ERROR invalid mode for ms M token | mn"),
        ("ms a 1 Me\r\nx\r\n", "CLIENT_ERROR invalid mode for ms M token"),
        ("ms a 1 MXX\r\nx\r\nmn\r\n", "CLIENT_ERROR incorrect length for M token | mn"),
        ("ms a 1 ME\r\nx\r\n", "ms Add a ME = x"),
        ("ms a 1 MA C3\r\nx\r\n", "ms Append a MA C3 = x"),
        ("ms a 1 MP\r\nx\r\n", "ms Prepend a MP = x"),
        ("ms a 1 MR\r\nx\r\n", "ms Replace a MR = x"),
        ("ms a 1 MR C3\r\nx\r\n", "ms Cas(3) a MR C3 = x"),
        ("ms a 1 MS I\r\nx\r\n", "ms Set a MS I = x"),
        ("ms a 1 b\r\nx\r\n", "CLIENT_ERROR error decoding key"),
        ("ms YQ== 1 k O1 b\r\nx\r\n", "ms Set a k O1 b = x"),
        (&format!("ms a 1 O{}\r\nx\r\nmn\r\n", "1".repeat(32)), "CLIENT_ERROR opaque token too long | mn"),
        (&format!("ms {} 1\r\nx\r\n", key(251)), &format!("{FORMAT} | ERROR")),
        (&format!("ms {}\r\n", key(251)), FORMAT),
        ("ms a 1 v v\r\nx\r\nmn\r\n", "CLIENT_ERROR duplicate flag | mn"),
        ("ms a 1 Fx\r\nx\r\nmn\r\n", &format!("{FORMAT} | mn")),
    ]);
}

#[test]
fn the_other_meta_commands() {
    const FLAG: &str = "CLIENT_ERROR invalid or duplicate flag";
    check(&[
        ("md\r\n", "ERROR"),
        ("md a q O1 k\r\n", "md a q O1 k"),
        ("md a v v\r\n", FLAG),
        ("md a Z\r\n", FLAG),
        ("md a Tx\r\n", FLAG),
        (&format!("md a O{}\r\n", "1".repeat(32)), "CLIENT_ERROR opaque token too long"),
        (&format!("md a {}\r\n", "v ".repeat(18)), "CLIENT_ERROR options flags too long"),
        ("ma\r\n", "ERROR"),
        ("ma a\r\n", "ma Increment a"),
        ("ma a MD D5 v\r\n", "ma Decrement a MD D5 v"),
        ("ma a M-\r\n", "ma Decrement a M-"),
        ("ma a M+\r\n", "ma Increment a M+"),
        ("ma a MX\r\n", "CLIENT_ERROR invalid mode for ma M token"),
        ("ma a N0 Mi\r\n", "CLIENT_ERROR invalid mode for ma M token"),
        ("ma a Dx\r\n", FLAG),
        ("me\r\n", FORMAT),
        ("me a\r\n", "me a"),
        ("me YQ== b\r\n", "me a"),
        ("me a k b\r\n", "me a"),
        ("me Zm9 b\r\n", FORMAT),
        (&format!("me {}\r\n", key(251)), FORMAT),
    ]);
}

/// memcached ignores bytes that do not belong to base64.
#[test]
fn base64_is_read_strictly() {
    check(&[
        ("mg Zm9v! b\r\n", "CLIENT_ERROR error decoding key"),
        ("mg =m9v b\r\n", "CLIENT_ERROR error decoding key"),
    ]);
}

#[test]
fn slab_classes_and_the_memory_limit() {
    let disabled = "slabs CLIENT_ERROR slab reassignment disabled";
    check(&[
        ("slabs\r\n", "ERROR"),
        ("slabs automove\r\n", "ERROR"),
        ("slabs automove 0\r\n", "slabs ok"),
        ("slabs automove 2 noreply\r\n", "slabs ok quietly"),
        ("slabs automove 3\r\n", "slabs ERROR"),
        ("slabs automove x\r\n", "slabs CLIENT_ERROR bad command line format"),
        ("slabs automove ratio 0.8\r\n", "slabs ok"),
        ("slabs automove ratio x\r\n", "slabs ERROR"),
        ("slabs reassign 1 2\r\n", disabled),
        ("slabs reassign 1\r\n", "ERROR"),
        ("cache_memlimit\r\n", "ERROR"),
        ("cache_memlimit 64\r\n", "memory limit Some(64)"),
        ("cache_memlimit 64 noreply\r\n", "memory limit Some(64) quietly"),
        ("cache_memlimit x\r\n", "memory limit None"),
        ("cache_memlimit 1 2 3\r\n", "ERROR"),
    ]);
}
