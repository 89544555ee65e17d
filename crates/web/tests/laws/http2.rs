//! HTTP/2 with prior knowledge.

use std::{fs, net::SocketAddr};

use anyhow::ensure;
use sys::listen::Address;
use testkit::{
    DriverKind, Server, check_each,
    http2::{Client, ClientSetting, frame, get, greeting, greeting_with, headers, request, reset, window_update},
};

use super::{CONCURRENCY, expect_status, on_every_driver, serve, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Tree with an index, a small and a large file.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "index.html", &"<p>".repeat(2000)).unwrap();
    write(tree.path(), "small.txt", "small").unwrap();
    fs::write(tree.path().join("large.bin"), large()).unwrap();
    tree
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

pub(super) fn address(server: &Server) -> anyhow::Result<SocketAddr> {
    let Address::Tcp(address) = server.address() else { anyhow::bail!("not TCP") };
    Ok(*address)
}

fn connect(server: &Server) -> anyhow::Result<Client> {
    Client::connect(address(server)?)
}

/// Large and small files share a connection; each arrives whole, and HTTP/1 is still spoken beside it.
#[test]
fn files_share_a_connection() {
    on_every_driver(tree().path(), &[], |server| {
        let mut client = connect(server)?;
        let frames = [
            get(1, "/large.bin"),
            get(3, "/small.txt"),
            request(5, "HEAD", "/large.bin", &[], true),
            request(7, "GET", "/large.bin", &[("range", "bytes=1000000-1999999")], true),
            get(9, "/missing"),
        ];
        client.send(&frames.concat())?;
        let received =
            client.read_until(|got| got.responses.len() == 5 && got.responses.values().all(|one| one.is_over()))?;
        let statuses: Vec<_> = received.responses.values().map(|response| response.status()).collect();
        ensure!(statuses == [200, 200, 200, 206, 404], "{statuses:?}");
        ensure!(received.response(1)?.body == large() && received.response(3)?.body == b"small");
        ensure!(received.response(5)?.field("content-length") == Some(&LARGE.to_string()[..]));
        ensure!(received.response(7)?.body == large()[1_000_000..2_000_000]);
        expect_status(server, "/small.txt", 200)
    });
}

/// RFC 9218: the more urgent response goes first, and one may become it while another is being sent.
#[test]
fn urgent_responses_go_first() {
    on_every_driver(tree().path(), &[], |server| {
        let mut client =
            Client::connect_with(address(server)?, &greeting_with(&[ClientSetting::InitialWindowSize(1 << 20)]))?;
        let frames = [
            request(1, "GET", "/large.bin", &[("priority", "u=6")], true),
            request(3, "GET", "/large.bin", &[("priority", "u=5")], true),
            request(5, "GET", "/large.bin", &[("priority", "u=4")], true),
        ];
        client.send(&frames.concat())?;
        client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
        // The connection's window is used up. Now the second becomes the most urgent.
        client.send(&[frame(0x10, 0, 0, b"\0\0\0\x03u=0"), window_update(0, 100_000)].concat())?;
        let received = client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 165_535)?;
        let sum_of =
            |stream| received.data.iter().filter(|(of, _)| *of == stream).map(|(_, length)| length).sum::<usize>();
        ensure!(sum_of(3) >= 100_000, "{:?}", received.data);
        Ok(())
    });
}

#[test]
fn hosts_are_told_apart_by_authority() {
    let tree = tempfile::tempdir().unwrap();
    for (name, text) in [("one/a.txt", "first"), ("two/a.txt", "second")] {
        write(tree.path(), name, text).unwrap();
    }
    let host = |name: &str, root: &str| {
        format!("[[host]]\nnames = [\"{name}\"]\nroot = \"{}\"\n", tree.path().join(root).display())
    };
    write(tree.path(), "hosts.toml", &[host("one.test", "one"), host("two.test", "two")].concat()).unwrap();
    let file = tree.path().join("hosts.toml").display().to_string();
    on_every_driver(&tree.path().join("one"), &["--config", &file], |server| {
        let mut client = connect(server)?;
        for (stream, host, body) in [(1, "two.test", "second"), (3, "one.test:80", "first"), (5, "TWO.test", "second")]
        {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/a.txt"), (":authority", host)];
            client.send(&headers(stream, &fields, true))?;
            ensure!(client.response(stream)?.body == body.as_bytes(), "{host}: {:?}", client.received);
        }
        Ok(())
    });
}

#[test]
fn http2_can_be_turned_off() {
    let tree = tree();
    on_every_driver(tree.path(), &["--http2", "off"], |server| {
        let mut client = server.connect()?;
        client.send(&greeting())?;
        let (answer, _) = client.read_until_disconnect();
        ensure!(answer.starts_with(b"HTTP/1.1 505 "), "{}", answer.escape_ascii());
        expect_status(server, "/small.txt", 200)
    });
}

/// Each stream has a record of its own, when its response has left or when it has been given up.
#[test]
fn streams_are_logged_with_their_version() {
    let (tree, logs) = (tree(), tempfile::tempdir().unwrap());
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let log = logs.path().join(format!("{driver}.log"));
        let flags = ["--access-log", &log.display().to_string(), "--access-log-format", "common"];
        serve(driver, tree.path(), &flags, |server: &Server| {
            let mut client = Client::connect_with(address(server)?, &greeting_with(&[]))?;
            client
                .send(&[get(1, "/small.txt"), request(3, "HEAD", "/large.bin", &[], true), get(5, "/none")].concat())?;
            client.send(&get(7, "/large.bin"))?;
            client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
            client.send(&[reset(7), get(9, "/small.txt")].concat())?;
            client.read_until(|got| got.responses.contains_key(&9))?;
            Ok(())
        })?;
        let said = fs::read_to_string(&log)?;
        for record in [
            "\"GET /small.txt HTTP/2.0\" 200 5",
            "\"HEAD /large.bin HTTP/2.0\" 200 0",
            "\"GET /none HTTP/2.0\" 404 ",
            "\"GET /large.bin HTTP/2.0\" 200 ",
        ] {
            ensure!(said.contains(record), "{driver}: no {record} in {said}");
        }
        ensure!(said.lines().count() == 5, "{driver}: {said}");
        Ok(())
    });
}
