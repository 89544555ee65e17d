//! HTTP/2 with prior knowledge.

use std::{fs, net::SocketAddr};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{
    DriverKind, Server, check_each,
    http2::{
        Client, ClientSetting, ErrorCode, data, frame, get, greeting, greeting_with, headers, ping, request, reset,
        settings, window_update,
    },
};

use super::{CONCURRENCY, expect_status, on_every_driver, serve, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Number of frames of a flood: more than any client needs, and fewer than a connection takes at once.
const FLOOD: u32 = 3000;
/// Memory that a flood may cost, whatever its length, in bytes.
const FLOOD_BYTES_MAX: u64 = 48 << 20;

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

/// Windows of one byte, and none at all: little is held for such a client, and others are served meanwhile.
#[test]
fn a_client_without_windows_costs_little() {
    on_every_driver(tree().path(), &[], |server| {
        expect_status(server, "/large.bin", 200)?;
        let before = server.process().resident_bytes()?;
        let mut clients = Vec::new();
        for _ in 0..8 {
            let greeting = greeting_with(&[ClientSetting::InitialWindowSize(1)]);
            let mut client = Client::connect_with(address(server)?, &greeting)?;
            client.send(&(0..100).map(|n| get(2 * n + 1, "/large.bin")).collect::<Vec<_>>().concat())?;
            client.read_until(|got| got.data.len() == 100)?;
            ensure!(client.received.data.iter().all(|&(_, length)| length == 1));
            clients.push(client);
        }
        let grown = server.process().resident_bytes()?.saturating_sub(before);
        ensure!(grown < 32 << 20, "800 transfers of 3 MiB cost {grown} bytes");
        for client in &mut clients {
            client.send(&[window_update(1, 1), window_update(0, 1000)].concat())?;
            client.read_until(|got| got.data.len() == 101)?;
        }
        expect_status(server, "/small.txt", 200)
    });
}

/// Floods of what costs a server work and takes nothing from it end the connection that they come on, and nothing else.
#[test]
fn floods_end_their_connection() {
    on_every_driver(tree().path(), &[], |server| {
        let before = server.process().resident_bytes()?;
        let begun = headers(1, &[(":method", "GET")], false);
        let torn = [&begun[..4], &[0], &begun[5..]].concat();
        type Flood<'a> = &'a dyn Fn(u32) -> Vec<u8>;
        let floods: [(&str, Vec<u8>, Flood<'_>); 7] = [
            ("resets", vec![], &|n| [get(2 * n + 1, "/large.bin"), reset(2 * n + 1)].concat()),
            ("pings", vec![], &|n| ping(u64::from(n).to_be_bytes())),
            ("settings", vec![], &|_| settings(&[ClientSetting::InitialWindowSize(1)])),
            ("empty data", request(1, "POST", "/", &[], false), &|_| data(1, b"", false)),
            ("continuations", torn, &|_| frame(9, 0, 1, b"")),
            ("windows", vec![], &|_| window_update(0, 1)),
            ("priorities", vec![], &|_| frame(0x10, 0, 0, b"\0\0\0\x01u=1")),
        ];
        for (name, first, flood) in floods {
            let mut client = Client::connect_with(address(server)?, &greeting_with(&[]))?;
            client.send(&first)?;
            for n in 0..FLOOD {
                if client.send(&flood(n)).is_err() {
                    break; // The server has had enough.
                }
            }
            let code = client.end();
            // What the server has said last may be lost with the connection.
            ensure!(
                code.as_ref().is_ok_and(|&code| code == ErrorCode::EnhanceYourCalm as u32) || client.is_closed,
                "{name}: {code:?}"
            );
            ensure!(client.is_closed, "{name} went on");
            expect_status(server, "/small.txt", 200).context(name)?;
        }
        let grown = server.process().resident_bytes()?.saturating_sub(before);
        ensure!(grown < FLOOD_BYTES_MAX, "floods cost {grown} bytes");
        Ok(())
    });
}

/// A small block that means a large head, and one that never ends.
#[test]
fn header_bombs_are_not_unpacked() {
    on_every_driver(tree().path(), &[], |server| {
        let before = server.process().resident_bytes()?;
        let mut client = connect(server)?;
        // One entry of the table, as large as it may be, and then thousands of references to it.
        let mut block = vec![0x40, 1, b'x', 0x7f, 0xb1, 0x1e];
        block.resize(block.len() + 4016, b'v');
        let head = headers(1, &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")], true);
        let bomb = [&head[9..], &block, &[0xbe; 12_000]].concat();
        client.send(&frame(1, 0x5, 1, &bomb))?;
        ensure!(client.response(1)?.status() == 431, "{:?}", client.received);
        let endless = frame(1, 0x1, 3, &head[9..]);
        client.send(&endless)?;
        for _ in 0..10 {
            if client.send(&frame(9, 0, 3, &[0x82; 16_000])).is_err() {
                break;
            }
        }
        let code = client.end();
        ensure!(client.is_closed, "{code:?}");
        let grown = server.process().resident_bytes()?.saturating_sub(before);
        ensure!(grown < FLOOD_BYTES_MAX, "bombs cost {grown} bytes");
        expect_status(server, "/small.txt", 200)
    });
}

/// A client that asks and never reads is held to what one connection may queue.
#[test]
fn responses_that_nobody_reads_are_bounded() {
    on_every_driver(tree().path(), &[], |server| {
        let before = server.process().resident_bytes()?;
        let mut idle = Vec::new();
        for _ in 0..4 {
            let mut client = connect(server)?;
            client.send(&(0..120).map(|n| get(2 * n + 1, "/large.bin")).collect::<Vec<_>>().concat())?;
            idle.push(client);
        }
        for _ in 0..3 {
            expect_status(server, "/large.bin", 200)?;
        }
        let grown = server.process().resident_bytes()?.saturating_sub(before);
        ensure!(grown < 40 << 20, "480 transfers of 3 MiB cost {grown} bytes");
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
    check_each(DriverKind::ALL, CONCURRENCY, |&driver| {
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
