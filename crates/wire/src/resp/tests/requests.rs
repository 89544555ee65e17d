//! The meaning of requests, as redis-server 7.0.15 understands these very bytes.

use crate::resp::{Args, Parsed, RequestLimits, RequestParser};

/// Requests as their arguments, each in brackets. Empty requests are left out, as they get no reply. At the end comes
/// the error, or `…` if bytes are left over.
pub(super) fn parse_to_text(mut input: &[u8], limits: &RequestLimits) -> String {
    let mut parser = RequestParser::default();
    let mut parts = Vec::new();
    while !input.is_empty() {
        let mut args = Args::new();
        let consumed = match parser.parse(input, limits, &mut args) {
            Ok(Parsed::Complete { consumed }) => consumed,
            Ok(Parsed::Quoted { consumed }) => {
                args = parser.quoted();
                consumed
            }
            Ok(Parsed::Incomplete { .. }) => {
                parts.push("…".to_owned());
                break;
            }
            Err(error) => {
                parts.push(error.to_string());
                break;
            }
        };
        if !args.is_empty() {
            parts.push(args.iter().map(|arg| format!("[{}]", arg.escape_ascii())).collect());
        }
        input = &input[consumed..];
    }
    parts.join(" ")
}

fn check(table: &[(&[u8], &str)], limits: &RequestLimits) {
    for (input, expected) in table {
        assert_eq!(parse_to_text(input, limits), *expected, "{}", input.escape_ascii());
    }
}

#[test]
fn arrays_mean_what_they_mean_to_redis() {
    const MULTIBULK: &str = "Protocol error: invalid multibulk length";
    const BULK: &str = "Protocol error: invalid bulk length";
    check(
        &[
            (b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$1\r\nA\r\n", "[PING] [ECHO][A]"),
            (b"*1\n$4\nPING\n", "…"),
            (b"*1\r$4\r\nPING\r\n", "Protocol error: expected '$', got '4'"),
            (b"*1\rX$4\rYPINGZZ", "[PING]"),
            (b"*1\r\n$4\r\nPINGxx*1\r\n$4\r\nPING\r\n", "[PING] [PING]"),
            (b"*-1\r\n*0\r\n*-5\r\n*-9223372036854775808\r\n*1\r\n$1\r\nA\r\n", "[A]"),
            (b"*\r\n", MULTIBULK),
            (b"*+1\r\n", MULTIBULK),
            (b"*01\r\n", MULTIBULK),
            (b"*-0\r\n", MULTIBULK),
            (b"*00\r\n", MULTIBULK),
            (b"* 1\r\n", MULTIBULK),
            (b"*1 \r\n", MULTIBULK),
            (b"*a\r\n", MULTIBULK),
            (b"*2147483648\r\n", MULTIBULK),
            (b"*2147483647\r\n", "…"),
            (b"*9223372036854775807\r\n", MULTIBULK),
            (b"*9223372036854775808\r\n", MULTIBULK),
            (b"*-9223372036854775809\r\n", MULTIBULK),
            (b"*99999999999999999999999999999999999999999\r\n", MULTIBULK),
            (b"*1\r\n$-1\r\n", BULK),
            (b"*1\r\n$\r\n", BULK),
            (b"*1\r\n$+4\r\n", BULK),
            (b"*1\r\n$04\r\nPING\r\n", BULK),
            (b"*1\r\n$-0\r\n", BULK),
            (b"*1\r\n$536870912\r\n", "…"),
            (b"*1\r\n$536870913\r\n", BULK),
            (b"*1\r\n$9223372036854775807\r\n", BULK),
            (b"*1\r\n$99999999999999999999\r\n", BULK),
            (b"*1\r\nPING\r\n", "Protocol error: expected '$', got 'P'"),
            (b"*1\r\n\r\n", "Protocol error: expected '$', got ' '"),
            (b"*1\r\n\n\r\n", "Protocol error: expected '$', got ' '"),
            (b"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"),
            (b"*1\r\n*1\r\n", "Protocol error: expected '$', got '*'"),
            (b"*1\r\n$0\r\n\r\n", "[]"),
            // A NUL ends the search for the end of a line.
            (b"*1\r\n\0\r\nabc", "…"),
            (b"*1\0\r\n$4\r\nPING\r\n", "…"),
            (b"*1\r\n$4\0\r\nPING\r\n", "…"),
        ],
        &RequestLimits::default(),
    );
}

/// The limit of a request is its length in bytes.
#[test]
fn more_arguments_than_redis_takes_are_refused() {
    let limits = RequestLimits::default();
    assert_eq!(parse_to_text(b"*2147483648\r\n", &limits), "Protocol error: invalid multibulk length");
}

#[test]
fn inline_commands_mean_what_they_mean_to_redis() {
    const UNBALANCED: &str = "Protocol error: unbalanced quotes in request";
    check(
        &[
            (b"\r\n\n  \r\nPING\r\n", "[PING]"),
            (b"PING\n  ping  \nPING\r\r\n", "[PING] [ping] [PING]"),
            (b"ECHO \"a b\"\n", "[ECHO][a b]"),
            (b"ECHO \"a\\x41\\n\\r\\t\\b\\a\\q\\\"\\xzz\"\n", r#"[ECHO][aA\n\r\t\x08\x07q\"xzz]"#),
            (b"ECHO 'a\\'b\\n'\n", r"[ECHO][a\'b\\n]"),
            (b"ECHO \"a", "…"),
            (b"ECHO \"a\n", UNBALANCED),
            (b"ECHO \"a\"b\n", UNBALANCED),
            (b"ECHO 'a\n", UNBALANCED),
            (b"ECHO 'a'b\n", UNBALANCED),
            (b"ECHO a\"b c\"\n", "[ECHO][ab c]"),
            (b"ECHO a\"b\"c\n", UNBALANCED),
            (b"ECHO \"\"\n", "[ECHO][]"),
            (b"ECHO a\tb\n", "[ECHO][a][b]"),
            (b"ECHO a\x0bb\n", r"[ECHO][a\x0bb]"),
            (b"\x0bECHO a\x0b\n", r"[ECHO][a\x0b]"),
            (b"ECHO \"a\"\x0b\n", "[ECHO][a]"),
            (b"ECHO a\rb\n", "[ECHO][a][b]"),
            (b"PI\0NG\nPING\n", "…"),
            (b"\0\nPING\n", "…"),
            (b"ECHO \x80\xff\n", r"[ECHO][\x80\xff]"),
            (b"\"PING\"\n", "[PING]"),
            (b"\"\n", UNBALANCED),
            (b"'\n", UNBALANCED),
            (b"$4\r\nPING\r\n", "[$4] [PING]"),
            (b"ECHO a\\ b\n", r"[ECHO][a\\][b]"),
            (b"ECHO \"\\\"\n", UNBALANCED),
            (b"ECHO \"\\x4\"\n", "[ECHO][x4]"),
            (b"ECHO \x1f\n", r"[ECHO][\x1f]"),
        ],
        &RequestLimits::default(),
    );
}

#[test]
fn lines_are_at_most_64_kib_long() {
    for (start, filler, error) in [
        ("", b'A', "Protocol error: too big inline request"),
        ("", 0, "Protocol error: too big inline request"),
        ("*", b'1', "Protocol error: too big mbulk count string"),
        ("*1\r\n$", b'1', "Protocol error: too big bulk count string"),
        ("*1\r\n", 0, "Protocol error: too big bulk count string"),
    ] {
        let line_start = start.rfind('\n').map_or(0, |end| end + 1);
        let mut input = start.as_bytes().to_vec();
        input.resize(line_start + 64 * 1024, filler);
        assert_eq!(parse_to_text(&input, &RequestLimits::default()), "…", "{start:?}");
        input.push(filler);
        assert_eq!(parse_to_text(&input, &RequestLimits::default()), error, "{start:?}");
        // The end of the line comes too late.
        input.extend_from_slice(b"\r\n");
        assert_eq!(parse_to_text(&input, &RequestLimits::default()), error, "{start:?}");
    }
    let long = [b"ECHO ".as_slice(), &[b'a'; 60_000], b"\n"].concat();
    assert_eq!(parse_to_text(&long, &RequestLimits::default()).len(), "[ECHO][]".len() + 60_000);
}

#[test]
fn limits_are_low_before_authentication() {
    const COUNT: &str = "Protocol error: unauthenticated multibulk length";
    const LENGTH: &str = "Protocol error: unauthenticated bulk length";
    let ten = [b"*10\r\n".as_slice(), &b"$1\r\na\r\n".repeat(10)].concat();
    let long = [b"*1\r\n$16384\r\n".as_slice(), &[b'a'; 16_384], b"\r\n"].concat();
    check(
        &[
            (&ten, &"[a]".repeat(10)),
            (b"*11\r\n", COUNT),
            (b"*2147483648\r\n", "Protocol error: invalid multibulk length"),
            (&long, &format!("[{}]", "a".repeat(16_384))),
            (b"*1\r\n$16385\r\n", LENGTH),
            (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
            (b"a a a a a a a a a a a a\n", &"[a]".repeat(12)),
        ],
        &RequestLimits::default().before_authentication(),
    );
}

#[test]
fn errors_keep_bytes_that_are_not_ascii() {
    for (input, expected) in [
        (b"*1\r\n\x80\r\n", b"-ERR Protocol error: expected '$', got '\x80'\r\n"),
        (b"*1\r\n\r\r\n", b"-ERR Protocol error: expected '$', got ' '\r\n"),
    ] {
        let outcome = RequestParser::default().parse(input, &RequestLimits::default(), &mut Args::new());
        let mut out = Vec::new();
        outcome.unwrap_err().write(&mut out);
        assert_eq!(out, expected);
    }
}
