//! `loadgen file` against faulty servers: every outcome has its own class, and the sums are exact.

use super::support::{
    Run,
    documents::{Documents, framed},
    socket_server::{Act, Server, framed_request, original_request},
};

/// One connection and one document, so that the order of requests is known.
const ORIGINAL: &[&str] = &["--layout", "flat", "-c", "1", "-n", "10"];
const FRAMED: &[&str] = &["--layout", "flat", "--protocol", "framed", "-c", "1", "-n", "10"];

const BODY: &[u8] = b"the body of the document";
const WRONG: &[u8] = b"the body of a dokumentTT";
const LONGER: &[u8] = b"the body of the document, and more";
/// Behaviour of a server, once.
type Fault = fn() -> Act;

const SHORTER: &[u8] = b"the body";

fn one() -> Documents {
    Documents::with([BODY.to_vec()])
}

/// Runs ten requests of which the fourth is treated badly.
fn original(options: &[&str], fourth: Fault) -> Run {
    let server = Server::of(original_request, move |number| match number {
        3 => fourth(),
        _ => Act::SayAndClose(BODY.to_vec()),
    });
    Run::file(&server.address(), one().path(), &[ORIGINAL, options].concat())
}

fn framed_run(options: &[&str], fourth: Fault) -> Run {
    let server = Server::of(framed_request, move |number| match number {
        3 => fourth(),
        _ => Act::Say(framed(0, BODY)),
    });
    Run::file(&server.address(), one().path(), &[FRAMED, options].concat())
}

/// The one error at each level; no error is "".
type Classes = [(&'static str, &'static str); 4];

const fn levels(none: &'static str, status: &'static str, length: &'static str, sha256: &'static str) -> Classes {
    [("none", none), ("status", status), ("length", length), ("sha256", sha256)]
}

fn check(run: impl Fn(&[&str], Fault) -> Run, cases: &[(Fault, Classes)]) {
    for (place, (act, classes)) in cases.iter().enumerate() {
        for (verify, class) in classes {
            let run = run(&["--verify", verify], *act);
            let expected: Vec<_> = [(*class, 1)].into_iter().filter(|(class, _)| !class.is_empty()).collect();
            run.assert_errors(&expected);
            assert_eq!((run.result.requests, run.result.ok), (10, 10 - expected.len() as u64), "{place} {verify}");
        }
    }
}

#[test]
fn faults_in_the_original_protocol_are_classed() {
    check(
        original,
        &[
            (|| Act::SayAndClose(WRONG.to_vec()), levels("", "", "", "content")),
            (|| Act::SayAndClose(LONGER.to_vec()), levels("", "", "length", "length")),
            (|| Act::SayAndClose(SHORTER.to_vec()), levels("", "", "short_body", "short_body")),
            (|| Act::SayAndClose(b"\0".to_vec()), levels("", "miss", "miss", "miss")),
            (|| Act::SayAndClose(Vec::new()), levels("eof_early", "eof_early", "eof_early", "eof_early")),
            (|| Act::SayAndReset(SHORTER.to_vec()), levels("reset", "reset", "reset", "reset")),
        ],
    );
}

#[test]
fn faults_in_the_framed_protocol_are_classed() {
    check(
        framed_run,
        &[
            (|| Act::Say(framed(0, WRONG)), levels("", "", "", "content")),
            (|| Act::Say(framed(0, LONGER)), levels("", "", "length", "length")),
            (|| Act::Say(framed(0, SHORTER)), levels("", "", "length", "length")),
            (|| Act::Say(framed(0, b"")), levels("", "", "length", "length")),
            (|| Act::Say(framed(1, b"")), levels("", "miss", "miss", "miss")),
            (|| Act::Say(framed(2, b"")), levels("status", "status", "status", "status")),
            (|| Act::Say(framed(3, b"")), levels("status", "status", "status", "status")),
            (|| Act::Say(framed(4, b"")), levels("status", "status", "status", "status")),
            (|| Act::Say(framed(5, b"")), levels("protocol", "protocol", "protocol", "protocol")),
            (|| Act::Say(framed(1, b"body")), levels("protocol", "protocol", "protocol", "protocol")),
            (
                || Act::Say([framed(0, BODY), framed(0, BODY)].concat()),
                levels("protocol", "protocol", "protocol", "protocol"),
            ),
            (
                || Act::SayAndClose(framed(0, BODY)[..20].to_vec()),
                levels("short_body", "short_body", "short_body", "short_body"),
            ),
            (
                || Act::SayAndClose(framed(0, BODY)[..5].to_vec()),
                levels("eof_early", "eof_early", "eof_early", "eof_early"),
            ),
            (|| Act::SayAndClose(Vec::new()), levels("eof_early", "eof_early", "eof_early", "eof_early")),
            (|| Act::SayAndReset(framed(0, BODY)[..20].to_vec()), levels("reset", "reset", "reset", "reset")),
        ],
    );
}

#[test]
fn a_silent_server_is_a_timeout() {
    let options = ["--timeout", "200ms"];
    original(&options, || Act::FallSilent).assert_errors(&[("timeout", 1)]);
    framed_run(&options, || Act::FallSilent).assert_errors(&[("timeout", 1)]);
}

#[test]
fn requests_pipelined_behind_a_close_fail() {
    let run = framed_run(&["-P", "10"], || Act::SayAndClose(framed(0, BODY)[..12].to_vec()));
    run.assert_errors(&[("eof_early", 6), ("short_body", 1)]);
    assert_eq!(run.result.ok, 3);
}

#[test]
fn a_close_while_a_requestor_sleeps_is_no_error() {
    let server = Server::of(framed_request, |number| match number {
        3 => Act::SayAndClose(framed(0, BODY)),
        _ => Act::Say(framed(0, BODY)),
    });
    let knobs = ["--requestors", "1", "--reps", "10", "--sleep-avg", "50", "--sleep-stddev", "0"];
    let options = [&["--layout", "flat", "--protocol", "framed"], &knobs[..]].concat();
    let run = Run::file(&server.address(), one().path(), &options);
    run.assert_errors(&[]);
    assert_eq!((run.result.ok, run.result.reconnects), (10, 1));
}

#[test]
fn a_document_that_should_not_exist_is_wrong_content() {
    let documents = one();
    let invented = Server::of(framed_request, |_| Act::Say(framed(0, BODY)));
    let run = Run::file(&invented.address(), documents.path(), &[FRAMED, &["--miss-ratio", "1"]].concat());
    run.assert_errors(&[("content", 10)]);
    let invented = Server::of(original_request, |_| Act::SayAndClose(BODY.to_vec()));
    let run = Run::file(&invented.address(), documents.path(), &[ORIGINAL, &["--miss-ratio", "1"]].concat());
    run.assert_errors(&[("content", 10)]);
    // Nothing at all says nothing at all.
    let shy = Server::of(original_request, |_| Act::SayAndClose(Vec::new()));
    let run = Run::file(&shy.address(), documents.path(), &[ORIGINAL, &["--miss-ratio", "1"]].concat());
    run.assert_errors(&[("eof_early", 10)]);
}

#[test]
fn a_wrong_reply_in_a_pipeline_harms_no_other() {
    let server = Server::of(framed_request, |number| match number % 4 {
        0 => Act::Say(framed(0, BODY)),
        1 => Act::Say(framed(0, WRONG)),
        2 => Act::Say(framed(1, b"")),
        _ => Act::Say(framed(0, LONGER)),
    });
    let options = ["--layout", "flat", "--protocol", "framed", "-c", "1", "-n", "40", "-P", "8"];
    let run = Run::file(&server.address(), one().path(), &options);
    run.assert_errors(&[("content", 10), ("length", 10), ("miss", 10)]);
    assert_eq!((run.result.ok, server.connections()), (10, 2));
}

/// Runs against an address where somebody listens for the probe, and nobody after it.
fn deserted(options: &[&str]) -> Run {
    let attempt = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let acceptor = std::thread::spawn(move || drop(listener.accept()));
        let run = Run::file(&address, one().path(), &[&["--layout", "flat"], options].concat());
        acceptor.join().expect("the acceptor ends");
        run
    };
    // The probe is through before the listener has closed, and on a crowded machine a request can be, too: it is reset.
    let mut run = attempt();
    for _ in 0..5 {
        if !run.result.errors.contains_key("reset") {
            break;
        }
        run = attempt();
    }
    run
}

#[test]
fn a_refused_connection_counts_as_a_turn() {
    let knobs = ["--requestors", "2", "--reps", "3", "--sleep-avg", "1", "--sleep-stddev", "0"];
    deserted(&knobs).assert_errors(&[("connect_refused", 6)]);
    deserted(&[&["--protocol", "framed"], &knobs[..]].concat()).assert_errors(&[("connect_refused", 6)]);
}

#[test]
fn in_an_open_loop_each_due_request_is_refused() {
    deserted(&["-c", "4", "-n", "20", "-R", "1000"]).assert_errors(&[("connect_refused", 20)]);
}

#[test]
fn an_open_loop_charges_the_request_of_a_failed_connection() {
    let server = Server::of(original_request, |number| match number % 4 {
        0 => Act::SayAndClose(BODY.to_vec()),
        1 => Act::SayAndClose(SHORTER.to_vec()),
        2 => Act::SayAndClose(Vec::new()),
        _ => Act::SayAndReset(Vec::new()),
    });
    let run = Run::file(&server.address(), one().path(), &["--layout", "flat", "-c", "1", "-n", "40", "-R", "1000"]);
    run.assert_errors(&[("eof_early", 10), ("reset", 10), ("short_body", 10)]);
    assert_eq!((run.result.ok, server.connections()), (10, 41));
}
