//! `loadgen null`, driven by `loadgen`.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use super::support::{Run, documents::Documents, loadgen, null_server::NullServer};

/// CPU time that the server used for each request of a run of 2,000, in microseconds.
fn cpu_per_request_us(protocol: &str, options: &[&str]) -> f64 {
    let null = NullServer::start(protocol, "127.0.0.1:0", options);
    let (pid, resp) = (null.pid().as_raw_nonzero().to_string(), ["--constant-values", "--keys", "100"]);
    let load = ["-c", "4", "-n", "2000", "--server-pid", &pid];
    let run = match protocol {
        "resp" => Run::kv(&null.address, &[&load[..], &resp].concat()),
        _ => Run::http(&format!("http://{}/", null.address), &load),
    };
    run.assert_errors(&[]);
    run.result.server.expect("it was observed").cpu_s * 1e6 / 2_000.0
}

#[test]
fn a_burn_is_spent_on_every_request() {
    for protocol in ["http", "resp"] {
        // CPU time: that others use the machine does not matter, and a clock rate that changes does not halve it.
        let (none, each) = (cpu_per_request_us(protocol, &[]), cpu_per_request_us(protocol, &["--burn", "300us"]));
        assert!(each - none > 150.0, "{protocol}: {none} {each}");
        let rare = cpu_per_request_us(protocol, &["--burn", "300us/10"]);
        assert!(rare - none < (each - none) / 3.0, "{protocol}: {none} {rare} {each}");
    }
    let output =
        loadgen(&["null", "--protocol", "mq", "--listen", "mq:/q", "--root", ".", "--fifo-dir", ".", "--burn", "1us"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_request_is_answered_at_any_depth_and_size() {
    for (body, pipeline) in [("0", "1"), ("128", "16"), ("100000", "3"), ("1000000", "1")] {
        let null = NullServer::start("http", "127.0.0.1:0", &["--body-size", body]);
        let url = format!("http://{}/", null.address);
        let run = Run::http(&url, &["-c", "5", "-n", "500", "-P", pipeline]);
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 500);
        assert!(run.result.bytes_in >= 500 * body.parse::<u64>().expect("a number"));
        assert_eq!(null.stop(), Some(0));
    }
}

#[test]
fn many_connections_on_one_thread() {
    let null = NullServer::start("http", "127.0.0.1:0", &[]);
    let run = Run::http(&format!("http://{}/", null.address), &["-c", "2000", "-n", "6000"]);
    run.assert_errors(&[]);
    assert_eq!(null.stop(), Some(0));
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("null.sock");
    let path = path.to_str().expect("UTF-8");
    let null = NullServer::start("http", &format!("unix:{path}"), &[]);
    assert_eq!(null.address, format!("unix:{path}"));
    for url in [format!("unix:{path}"), format!("unix:{path}:/some/page")] {
        let run = Run::http(&url, &["-c", "200", "-n", "1000", "-P", "2"]);
        run.assert_errors(&[]);
        assert_eq!(run.result.ok, 1_000);
    }
    Run::http("/page", &["-c", "2", "-n", "10", "--unix", path]).assert_errors(&[]);
    assert_eq!(null.stop(), Some(0));
    assert!(!std::path::Path::new(path).exists());
}

#[test]
fn a_taken_address_has_exit_status_1() {
    let null = NullServer::start("http", "127.0.0.1:0", &[]);
    let output = loadgen(&["null", "--protocol", "http", "--listen", &null.address]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with(&format!("error: cannot listen on {}: ", null.address)), "{stderr}");
}

#[test]
fn requests_behind_a_half_close_are_answered() {
    let null = NullServer::start("http", "127.0.0.1:0", &["--body-size", "3"]);
    let mut socket = TcpStream::connect(&null.address).expect("it listens");
    socket.write_all(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5)).expect("sent");
    socket.shutdown(std::net::Shutdown::Write).expect("open");
    let mut replies = Vec::new();
    socket.read_to_end(&mut replies).expect("five replies and an end");
    assert_eq!(String::from_utf8(replies).expect("ASCII").matches("\r\n\r\nxxx").count(), 5);
}

#[test]
fn both_protocols_of_fileserver_are_served() {
    for length in [0, 1, 10_240, 1_000_000] {
        let null = NullServer::start("file", "127.0.0.1:0", &["--body-size", &length.to_string()]);
        let documents = Documents::with([vec![b'x'; length], vec![b'x'; length]]);
        for options in [
            &["--protocol", "original", "-c", "5", "-n", "100"][..],
            &["--protocol", "framed", "-c", "5", "-n", "100"],
            &["--protocol", "framed", "-c", "5", "-n", "100", "-P", "16"],
        ] {
            let run = Run::file(&null.address, documents.path(), &[&["--layout", "flat"], options].concat());
            run.assert_errors(&[]);
            assert_eq!(run.result.ok, 100);
            assert!(run.result.bytes_in >= 100 * length as u64);
        }
        assert_eq!(null.stop(), Some(0));
    }
}

#[test]
fn a_client_that_says_more_still_gets_the_whole_document() {
    const BYTES: usize = 300_000;
    let null = NullServer::start("file", "127.0.0.1:0", &["--body-size", &BYTES.to_string()]);
    for _ in 0..20 {
        let mut socket = TcpStream::connect(&null.address).expect("it listens");
        socket.write_all(b"AAAAAAAA").expect("it reads");
        let mut document = vec![0; BYTES];
        socket.read_exact(&mut document[..1]).expect("a document");
        // By now all of it may have been sent; a socket closed then would answer this with a reset.
        socket.write_all(b"\n").expect("it is open");
        socket.read_exact(&mut document[1..]).expect("all of it");
        assert_eq!(socket.read(&mut [0]).expect("an orderly end"), 0);
    }
}
