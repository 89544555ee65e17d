//! `--source-address`, `--fast-open` and `--linger-zero`.

use std::collections::HashSet;

use super::support::{
    Run,
    documents::{Documents, framed},
    loadgen,
    socket_server::{Act, Server, framed_request, ok, reply, resp_request},
};

const FOUR: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

#[test]
fn source_addresses_are_used_in_turn_on_both_engines() {
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
fn kept_connections_are_spread_over_the_source_addresses() {
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
fn an_impossible_source_is_refused_before_the_run() {
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

/// Script for a network namespace of its own, in which every listener takes part in a fast open: two runs that open fast and one that
/// does not, each followed by the kernel's count of clients' fast opens.
const FAST_OPENS: &str = r#"
ip link set lo up && echo 1027 > /proc/sys/net/ipv4/tcp_fastopen || exit 77
"$LOADGEN" null --protocol http --listen 127.0.0.1:8080 > "$READY" & server=$!
trap 'kill $server' EXIT
until grep -q listening "$READY"; do sleep 0.05; done
for options in "--fast-open --engine epoll" "--fast-open --engine uring" "--engine epoll"; do
    "$LOADGEN" http -c 1 -n 30 --threads 1 --no-keep-alive $options --format json http://127.0.0.1:8080/ | sed -n 's/^  "ok": \(.*\),$/\1 are right/p'
    cat /proc/net/netstat
done
"#;

/// Returns the values of the kernel's `TCPFastOpenActive`, one after the other.
fn fast_opens(netstat: &str) -> Vec<u64> {
    let rows: Vec<Vec<&str>> = netstat
        .lines()
        .filter(|line| line.starts_with("TcpExt:"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let value = |pair: &[Vec<&str>]| {
        let place = pair[0].iter().position(|name| *name == "TCPFastOpenActive").expect("a counter of the kernel");
        pair[1][place].parse().expect("a number")
    };
    rows.chunks(2).map(value).collect()
}

#[test]
fn a_fast_open_sends_requests_with_the_syn_on_both_engines() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = std::process::Command::new("unshare")
        .args(["--net", "--map-root-user", "sh", "-c", FAST_OPENS])
        .env("LOADGEN", env!("CARGO_BIN_EXE_loadgen"))
        .env("READY", directory.path().join("ready"))
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("skipped: unshare(1), ip(8) or a network namespace with TCP Fast Open is not to be had here");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().filter(|line| *line == "30 are right").count(), 3, "{text}");
    let counts = fast_opens(&text);
    assert_eq!(counts.len(), 3, "{text}");
    // The first connection asks for the cookie, and the kernel keeps it for the others; a few may be opened before it has come.
    assert!(counts[0] >= 25 && counts[1] >= counts[0] + 25, "{counts:?}");
    assert_eq!(counts[2], counts[1], "nobody asked for it");
}

#[test]
fn a_fast_open_needs_tcp() {
    let output = loadgen(&["http", "-n", "1", "--fast-open", "unix:/run/x.sock"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && stderr.contains("--fast-open to unix:/run/x.sock"), "{stderr}");
}

/// Finds the connections to this server of which the generator's side is in TIME_WAIT, by the generator's address. Before the first
/// of them these are connections to another test's server, which had the same port not long ago.
fn left_behind(server: &Server) -> HashSet<String> {
    let port = server.address().rsplit_once(':').map(|(_, port)| port.parse::<u16>().expect("a port"));
    let peer = format!(":{:04X}", port.expect("an address"));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let in_time_wait = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        (columns[2].ends_with(&peer) && columns[3] == "06").then(|| columns[1].to_owned())
    };
    table.lines().skip(1).filter_map(in_time_wait).collect()
}

#[test]
fn a_linger_of_zero_leaves_no_time_wait_on_both_engines() {
    let key = ["--workload", "connection-per-request", "--mix", "get=1", "--constant-values", "--keys", "9"];
    for engine in ["epoll", "uring"] {
        for (option, expected) in [(&["--linger-zero"][..], 0..=5), (&[], 200..=310)] {
            let server = Server::of(resp_request, |_| Act::Say(b"$12\r\nxxxxxxxxxxxx\r\n".to_vec()));
            let options = ["-c", "4", "-n", "300", "--engine", engine];
            let others = left_behind(&server);
            let run = Run::kv(&server.address(), &[&options[..], &key, option].concat());
            run.assert_errors(&[]);
            assert_eq!((run.result.ok, run.result.hits), (300, Some(300)));
            assert_eq!(run.result.config["linger_zero"] == true, !option.is_empty());
            let left = left_behind(&server).difference(&others).count();
            assert!(expected.contains(&left), "{engine} {option:?}: {left}");
        }
    }
}

/// Every command closes its last connections itself, at the end of the run.
#[test]
fn the_last_connections_of_a_run_linger_as_asked() {
    let http = |option: &[&str]| {
        let server = Server::start(|_| Act::Say(ok("x")));
        let others = left_behind(&server);
        let run = Run::http(&server.url(), &[&["-c", "50", "-n", "200"], option].concat());
        (run, left_behind(&server).difference(&others).count())
    };
    let file = |option: &[&str]| {
        let documents = Documents::of(&[10]);
        let body = documents.bodies.values().next().expect("one").clone();
        let server = Server::of(framed_request, move |_| Act::Say(framed(0, &body)));
        let options = ["-c", "50", "-n", "200", "--layout", "flat", "--protocol", "framed"];
        let others = left_behind(&server);
        let run = Run::file(&server.address(), documents.path(), &[&options, option].concat());
        (run, left_behind(&server).difference(&others).count())
    };
    for (option, expected) in [(&["--linger-zero"][..], 0..=5), (&[], 40..=60)] {
        for (run, left) in [http(option), file(option)] {
            run.assert_errors(&[]);
            assert_eq!((run.result.ok, run.result.reconnects), (200, 0));
            assert!(expected.contains(&left), "{option:?}: {left}");
        }
    }
    for arguments in [&["http"][..], &["kv"], &["file", "--content", "/", "--layout", "flat"]] {
        let output = loadgen(&[arguments, &["-n", "1", "--linger-zero", "unix:/run/x.sock"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(2) && stderr.contains("which has no TIME_WAIT"),
            "{arguments:?}: {stderr}"
        );
    }
    let output = loadgen(&["mq", "--fifo-dir", "/", "--linger-zero", "/q", "x"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && stderr.contains("unexpected argument '--linger-zero'"), "{stderr}");
}
