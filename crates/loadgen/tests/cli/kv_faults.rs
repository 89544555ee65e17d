//! `loadgen kv` against faulty caches: every outcome has its own class, and the sums are exact.

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, line_request, resp_request, us_request},
};

/// One connection, so that the order of requests is known; values that the servers here need not compute.
const ONE: &[&str] = &["-c", "1", "-n", "10", "--constant-values", "--keys", "100"];
/// The same, all in one batch.
const BATCH: &[&str] = &["-c", "1", "-n", "10", "-P", "10", "--constant-values", "--keys", "100"];
const VALUE: &[u8] = b"$12\r\nxxxxxxxxxxxx\r\n";

/// Starts a server that answers every get rightly, but not number 3.
fn all_but_one(other: impl Fn() -> Act + Send + Sync + 'static) -> Server {
    Server::of(resp_request, move |n| if n % 10 == 3 { other() } else { Act::Say(VALUE.to_vec()) })
}

/// Panics unless one reply of ten has this class, asked one by one and in a batch.
fn assert_one_error(reply: &'static [u8], class: &str) {
    for options in [ONE, BATCH] {
        let server = all_but_one(move || Act::Say(reply.to_vec()));
        let run = Run::kv(&server.address(), options);
        run.assert_errors(&[(class, 1)]);
        assert_eq!((run.result.ok, run.result.hits), (9, Some(9)), "{class} {options:?}");
    }
}

#[test]
fn a_right_server_makes_no_errors() {
    let server = Server::of(resp_request, |_| Act::Say(VALUE.to_vec()));
    let run = Run::kv(&server.address(), &["-c", "3", "-n", "1000", "-P", "7", "--constant-values"]);
    run.assert_errors(&[]);
    assert_eq!((run.result.requests, run.result.bytes_in), (1_000, 1_000 * VALUE.len() as u64));
    assert_eq!((run.result.hits, run.result.misses, run.result.stores), (Some(1_000), Some(0), Some(0)));
    assert!(run.result.latency_us.min > 0.0 && run.result.service_us.is_none());
}

#[test]
fn a_wrong_reply_leaves_those_behind_it_right() {
    assert_one_error(b"$12\r\nxxxxxxxxxxxy\r\n", "content");
    assert_one_error(b"$13\r\nxxxxxxxxxxxxx\r\n", "length");
    assert_one_error(b"$0\r\n\r\n", "length");
    assert_one_error(b"$-1\r\n", "miss");
    assert_one_error(b"-ERR no\r\n", "status");
    assert_one_error(b":1\r\n", "protocol");
}

#[test]
fn a_refusal_is_quoted() {
    let server = all_but_one(|| Act::Say(b"-NOAUTH Authentication required.\r\n".to_vec()));
    let run = Run::kv(&server.address(), ONE);
    let said = "error reply `NOAUTH Authentication required.`: the server wants a password: --auth";
    assert!(run.stderr.starts_with("1 of 10 requests failed: ") && run.stderr.contains(said), "{}", run.stderr);
    assert_eq!(run.result.error_details["status"]["`NOAUTH Authentication required.`"], 1);
}

#[test]
fn misses_are_right_where_they_are_allowed_or_expected() {
    let server = all_but_one(|| Act::Say(b"$-1\r\n".to_vec()));
    let run = Run::kv(&server.address(), &[BATCH, &["--allow-misses"]].concat());
    run.assert_errors(&[]);
    assert_eq!((run.result.hits, run.result.misses), (Some(9), Some(1)));
    let server = Server::of(resp_request, |_| Act::Say(b"$-1\r\n".to_vec()));
    let run = Run::kv(&server.address(), &[BATCH, &["--miss-ratio", "1"]].concat());
    run.assert_errors(&[]);
    assert_eq!(run.result.misses, Some(10));
    // A value that nobody ever stored.
    let server = Server::of(resp_request, |_| Act::Say(VALUE.to_vec()));
    Run::kv(&server.address(), &[BATCH, &["--miss-ratio", "1"]].concat()).assert_errors(&[("content", 10)]);
}

#[test]
fn lower_levels_check_less() {
    let wrong = |reply: &'static [u8], verify: &str| {
        let server = all_but_one(move || Act::Say(reply.to_vec()));
        Run::kv(&server.address(), &[BATCH, &["--verify", verify]].concat())
    };
    wrong(b"$12\r\nxxxxxxxxxxxy\r\n", "length").assert_errors(&[]);
    wrong(b"$13\r\nxxxxxxxxxxxxx\r\n", "length").assert_errors(&[("length", 1)]);
    wrong(b"$13\r\nxxxxxxxxxxxxx\r\n", "status").assert_errors(&[]);
    wrong(b"-ERR no\r\n", "status").assert_errors(&[("status", 1)]);
    wrong(b"-ERR no\r\n", "none").assert_errors(&[]);
    wrong(b"what?\r\n", "none").assert_errors(&[("protocol", 7)]);
}

#[test]
fn garbage_fails_all_requests_of_its_connection() {
    let server = all_but_one(|| Act::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    Run::kv(&server.address(), ONE).assert_errors(&[("protocol", 1)]);
    let server = all_but_one(|| Act::Say(b"$12\r\nxxxxxxxxxxxxxxxxxxxxx\r\n".to_vec()));
    let run = Run::kv(&server.address(), BATCH);
    run.assert_errors(&[("protocol", 7)]);
    assert_eq!((run.result.ok, server.connections()), (3, 2));
}

#[test]
fn a_surplus_reply_is_a_protocol_error_of_the_last_one() {
    for options in [ONE, BATCH] {
        let server = Server::of(resp_request, |n| Act::Say(if n == 9 { VALUE.repeat(2) } else { VALUE.to_vec() }));
        let run = Run::kv(&server.address(), options);
        run.assert_errors(&[("protocol", 1)]);
        assert_eq!(run.result.requests, 10);
    }
}

#[test]
fn a_connection_with_a_surplus_reply_is_closed() {
    let server = Server::of(resp_request, |n| Act::Say(if n == 2 { VALUE.repeat(2) } else { VALUE.to_vec() }));
    let run = Run::kv(&server.address(), &["-c", "1", "-n", "10", "--constant-values"]);
    run.assert_errors(&[("protocol", 1)]);
    // The probe, the connection that said too much, and the one after it.
    assert_eq!((run.result.ok, server.connections()), (9, 3));
}

#[test]
fn a_close_fails_unanswered_requests() {
    let server =
        Server::of(resp_request, |n| if n == 2 { Act::SayAndClose(VALUE.to_vec()) } else { Act::Say(VALUE.to_vec()) });
    let run = Run::kv(&server.address(), BATCH);
    run.assert_errors(&[("eof_early", 7)]);
    assert_eq!(run.result.ok, 3);
    let server = Server::of(resp_request, |n| {
        if n == 2 { Act::SayAndClose(b"$12\r\nxxx".to_vec()) } else { Act::Say(VALUE.to_vec()) }
    });
    Run::kv(&server.address(), BATCH).assert_errors(&[("eof_early", 7), ("short_body", 1)]);
    let server =
        Server::of(resp_request, |n| if n == 2 { Act::SayAndClose(b"$1".to_vec()) } else { Act::Say(VALUE.to_vec()) });
    Run::kv(&server.address(), BATCH).assert_errors(&[("eof_early", 8)]);
}

#[test]
fn a_reset_is_a_reset() {
    let server = all_but_one(|| Act::SayAndReset(VALUE.to_vec()));
    let run = Run::kv(&server.address(), BATCH);
    run.assert_errors(&[("reset", 6)]);
    assert_eq!(run.result.ok, 4);
}

#[test]
fn silence_is_a_timeout() {
    let server = all_but_one(|| Act::FallSilent);
    let run = Run::kv(&server.address(), &[BATCH, &["--timeout", "200ms"]].concat());
    run.assert_errors(&[("timeout", 7)]);
    assert_eq!(run.result.ok, 3);
}

#[test]
fn the_unit_separator_protocol_is_classed_alike() {
    let run = |reply: &'static [u8]| {
        let server = Server::of(us_request, move |n| {
            Act::Say(if n % 10 == 3 { reply.to_vec() } else { b"xxxxxxxxxxxx\x1f".to_vec() })
        });
        Run::kv(&server.address(), &[BATCH, &["--protocol", "us"]].concat())
    };
    run(b"xxxxxxxxxxxx\x1f").assert_errors(&[]);
    run(b"xxxxxxxxxxxy\x1f").assert_errors(&[("content", 1)]);
    run(b"xxxx\x1f").assert_errors(&[("length", 1)]);
    run(b"(nil)\x1f").assert_errors(&[("miss", 1)]);
    run(b"ERROR: Unknown command\x1f").assert_errors(&[("status", 1)]);
}

#[test]
fn a_workflow_sets_gets_and_misses() {
    let replies: [&[u8]; 3] = [b"OK\x1f", b"xxxxxxxxxxxx\x1f", b"(nil)\x1f"];
    let server = Server::of(us_request, move |n| Act::Say(replies[n as usize % 3].to_vec()));
    let run = Run::kv(
        &server.address(),
        &["-c", "1", "-n", "30", "-P", "6", "--protocol", "us", "--constant-values", "--workload", "workflow"],
    );
    run.assert_errors(&[]);
    assert_eq!((run.result.stores, run.result.hits, run.result.misses), (Some(10), Some(10), Some(10)));
}

#[test]
fn memcached_is_classed_alike() {
    let run = |protocol: &str, right: &'static [u8], other: &'static [u8]| {
        let server =
            Server::of(line_request, move |n| Act::Say(if n % 10 == 3 { other.to_vec() } else { right.to_vec() }));
        Run::kv(&server.address(), &[BATCH, &["--protocol", protocol]].concat())
    };
    let right = b"VA 12\r\nxxxxxxxxxxxx\r\n";
    run("memcached-meta", right, right).assert_errors(&[]);
    run("memcached-meta", right, b"EN\r\n").assert_errors(&[("miss", 1)]);
    run("memcached-meta", right, b"SERVER_ERROR no\r\n").assert_errors(&[("status", 1)]);
    run("memcached-meta", right, b"VA 12\r\nxxxxxxxxxxxy\r\n").assert_errors(&[("content", 1)]);
    run("memcached-meta", right, b"VA 1\r\nx\r\n").assert_errors(&[("length", 1)]);
    run("memcached-meta", right, b"STORED\r\n").assert_errors(&[("protocol", 1)]);
    // A text reply names the key, and that of another key is no reply to this one.
    let wrong_key = b"VALUE other 0 12\r\nxxxxxxxxxxxx\r\nEND\r\n";
    run("memcached", wrong_key, wrong_key).assert_errors(&[("protocol", 10)]);
}

#[test]
fn a_server_without_hello_is_a_status_error() {
    let server = Server::of(resp_request, |_| Act::Say(b"-ERR unknown command 'HELLO'\r\n".to_vec()));
    let run = Run::kv(&server.address(), &["-c", "1", "-n", "3", "--protocol", "resp3", "--constant-values"]);
    run.assert_errors(&[("status", 3)]);
    assert!(
        run.stderr.contains("error reply `ERR unknown command 'HELLO'` for every request, 3 in all"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_connection_per_request_is_closed_by_the_client() {
    let server = Server::of(resp_request, |_| Act::Say(VALUE.to_vec()));
    let options = ["-c", "2", "-n", "20", "--workload", "connection-per-request", "--constant-values"];
    let run = Run::kv(&server.address(), &options);
    run.assert_errors(&[]);
    // The probe is one more.
    assert_eq!((run.result.ok, run.result.reconnects, server.connections()), (20, 0, 21));
}

#[test]
fn keys_that_cannot_be_stored_end_the_run() {
    let server = Server::of(resp_request, |n| {
        Act::Say(if n == 7 { b"-OOM command not allowed\r\n".to_vec() } else { b"+OK\r\n".to_vec() })
    });
    let output = loadgen(&["kv", "--preload", "--keys", "100", "-n", "1", &server.address()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let said = "error: 1 of 100 keys could not be stored: error reply `OOM command not allowed`: ";
    assert!(stderr.starts_with(said), "{stderr}");
}

#[test]
fn every_connection_begins_with_the_login_which_stays_secret() {
    for (protocol, login, greeting, welcome) in [
        ("resp", "secret", &b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"[..], &b"+OK\r\n"[..]),
        ("resp", "me:secret", b"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n", b"+OK\r\n"),
        (
            "resp3",
            "secret",
            b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n",
            b"%1\r\n$5\r\nproto\r\n:3\r\n",
        ),
    ] {
        let server = Server::answering(resp_request, move |_, request| {
            Act::Say(if request == greeting { welcome } else { VALUE }.to_vec())
        });
        let options = ["-c", "2", "-n", "10", "--constant-values", "--keys", "100", "--protocol", protocol];
        let run = Run::kv(&server.address(), &[&options[..], &["--auth", login]].concat());
        run.assert_errors(&[]);
        assert_eq!(run.result.hits, Some(10), "{protocol} {login}");
        assert!(!format!("{:?}", run.result).contains("secret"));
    }
    let server = Server::of(resp_request, |_| Act::Say(b"-WRONGPASS no\r\n".to_vec()));
    let run = Run::kv(&server.address(), &["-c", "1", "-n", "3", "--keys", "100", "--auth", "guess"]);
    assert_eq!((run.errors("status"), run.result.ok), (3, 0));
    assert!(run.stderr.contains("error reply `WRONGPASS no` for every request"), "{}", run.stderr);
    let refused = loadgen(&["kv", "--protocol", "us", "--auth", "x", "127.0.0.1:1"]);
    assert_eq!(refused.status.code(), Some(2));
}
