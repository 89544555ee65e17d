//! The programs of the repository on a driver from outside.

use std::path::Path;

use testkit::Server;

fn start(exe: &str, args: &[&str]) -> Server {
    let usual = ["--listen", "127.0.0.1:0", "--threads", "2"];
    Server::start(Path::new(exe), usual.iter().chain(args)).unwrap()
}

#[test]
fn http_server_sends_a_file() {
    let directory = env!("CARGO_MANIFEST_DIR");
    let mut server = start(env!("CARGO_BIN_EXE_poll-http-server"), &[directory]);
    let mut client = server.connect().unwrap();
    client.send(b"GET /src/lib.rs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let got = client.read_to_end().unwrap();
    assert!(got.starts_with(b"HTTP/1.1 200 OK\r\n") && got.ends_with(include_bytes!("../src/lib.rs")));
    server.drain().unwrap();
}

#[test]
fn kvcache_keeps_a_key() {
    let mut server = start(env!("CARGO_BIN_EXE_poll-kvcache"), &["--driver", "poll"]);
    let mut client = server.connect().unwrap();
    client.send(b"SET key value\r\nGET key\r\n").unwrap();
    client.expect(b"+OK\r\n$5\r\nvalue\r\n").unwrap();
    server.drain().unwrap();
}

/// The driver counts as nothing else is there: `auto` takes it, and others are unknown.
#[test]
fn the_program_has_this_driver_only() {
    let exe = env!("CARGO_BIN_EXE_poll-http-server");
    let mut server = start(exe, &["--driver", "auto"]);
    assert!(server.stderr().contains("driver poll"), "{}", server.stderr());
    server.drain().unwrap();
    let mut other = std::process::Command::new(exe);
    other.args(["--driver", "epoll"]);
    let refused = testkit::run_to_end(other).unwrap();
    assert_eq!(refused.code(), Some(2));
    assert!(refused.stderr.contains("one of poll"), "{}", refused.stderr);
}
