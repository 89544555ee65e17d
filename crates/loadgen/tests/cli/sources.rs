//! Where connections come from.

use super::server::{Act, Server, ok, reply};
use super::{Run, loadgen};

const FOUR: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

#[test]
fn the_server_sees_the_addresses_in_turn_on_both_engines() {
    for engine in ["epoll", "uring"] {
        let server = Server::start(|_| Act::SayAndClose(reply("200 OK", "Connection: close\r\n", 1, "x")));
        let options = ["-c", "1", "-n", "12", "--no-keep-alive", "--source-address", "127.0.0.1-127.0.0.4"];
        let run = Run::http(&server.url(), &[&options[..], &["--engine", engine]].concat());
        run.assert_errors(&[]);
        assert_eq!(run.result.config["source_addresses"], serde_json::json!(FOUR));
        let peers = server.peers();
        let expected: Vec<_> = FOUR.into_iter().cycle().take(12).map(str::to_owned).collect();
        assert_eq!((peers[0].as_str(), &peers[1..13]), ("127.0.0.1", &expected[..]), "{engine}");
    }
}

#[test]
fn connections_that_are_kept_are_spread_over_a_list_and_without_one_the_kernel_decides() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "4", "-n", "40", "--source-address", "127.0.0.7,127.0.0.5-127.0.0.6"]);
    run.assert_errors(&[]);
    let mut peers = server.peers();
    assert_eq!(peers.remove(0), "127.0.0.7", "the probe");
    peers.sort_unstable();
    assert_eq!(peers, ["127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.7"]);
    let server = Server::start(|_| Act::Say(ok("x")));
    let run = Run::http(&server.url(), &["-c", "2", "-n", "4"]);
    assert!(run.result.config["source_addresses"].is_null());
    assert!(server.peers().iter().all(|peer| peer == "127.0.0.1"));
}

#[test]
fn what_cannot_be_a_source_is_said_before_the_run() {
    let server = Server::start(|_| Act::Say(ok("x")));
    let url = server.url();
    for (source, target, code, why) in [
        ("127.0.0.1", "unix:/run/x.sock", 2, "is a unix socket"),
        ("::1", &url, 2, "one is IPv4 and the other IPv6"),
        ("127.0.0.2-127.0.0.1", &url, 2, "not an IP address"),
        // For documentation only (RFC 5737): no machine has it.
        ("127.0.0.1,192.0.2.1", &url, 1, "--source-address: cannot come from 192.0.2.1: "),
    ] {
        let output = loadgen(&["http", "-n", "1", "--source-address", source, target]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && stderr.contains(why), "{source} {target}: {stderr}");
    }
    assert_eq!(server.connections(), 0);
}
