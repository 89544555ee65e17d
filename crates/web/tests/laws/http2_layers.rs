//! HTTP/2 with prior knowledge, and the same through TLS below it.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use anyhow::{Context, anyhow, ensure};
use sys::listen::Address;
use testkit::{
    DriverKind, Server, check_each, eventually,
    http2::{
        Client, ClientSetting, Tearing, data, frame, get, greeting, greeting_with, headers, ping, request, reset,
        window_update,
    },
    installed_program, run_to_end,
    tls::Certificates,
    write_program,
};

use super::{CONCURRENCY, command, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Frames torn at every byte, records torn at every byte, and both torn somewhere.
const TEARINGS: [Tearing; 3] = [
    Tearing { plain_bytes: 1, record_bytes: None, socket_bytes: usize::MAX },
    Tearing { plain_bytes: usize::MAX, record_bytes: Some(64), socket_bytes: 1 },
    Tearing { plain_bytes: 13, record_bytes: Some(32), socket_bytes: 17 },
];

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| (at % 241) as u8 ^ (at >> 13) as u8).collect()
}

/// Tree with a small and a large file.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "small.txt", "small").unwrap();
    fs::write(tree.path().join("large.bin"), large()).unwrap();
    tree
}

/// A server with a plain address and one for TLS.
pub(super) struct Both<'a> {
    pub(super) certificates: &'a Certificates,
    pub(super) server: Server,
}

impl Both<'_> {
    /// Tests the law on a server on every driver.
    pub(super) fn on_every_driver(
        root: &Path,
        args: &[&str],
        law: impl Fn(&mut Both<'_>, DriverKind) -> anyhow::Result<()> + Sync,
    ) {
        let certificates = Certificates::new().unwrap();
        check_each(DriverKind::ALL, CONCURRENCY, |&driver| {
            let mut command = command(driver, root, args);
            command.args(certificates.flags("server"));
            let server = Server::start_command(command, 2).with_context(|| driver.name())?;
            let mut both = Both { certificates: &certificates, server };
            law(&mut both, driver).map_err(|error| anyhow!("{driver}: {error:#}\n  it said: {}", both.server.stderr()))
        });
    }

    pub(super) fn address(&self, at: usize) -> anyhow::Result<SocketAddr> {
        let Address::Tcp(address) = &self.server.addresses()[at] else { anyhow::bail!("not TCP") };
        Ok(*address)
    }

    /// Connects to both addresses and says this first.
    pub(super) fn connect(&self, first: &[u8]) -> anyhow::Result<[Client; 2]> {
        let plain = Client::connect_with(self.address(0)?, first)?;
        Ok([plain, Client::connect_secured(self.address(1)?, self.certificates, first)?])
    }
}

#[test]
fn h2spec_finds_no_fault() {
    let Some(h2spec) = installed_program("h2spec").unwrap() else { return };
    Both::on_every_driver(tree().path(), &[], |both, _| {
        for (at, flags) in [(0, &[][..]), (1, &["-t", "-k"])] {
            let port = both.address(at)?.port().to_string();
            let mut command = Command::new(&h2spec);
            command.args(["-h", "127.0.0.1", "-p", &port, "--timeout", "10"]).args(flags);
            let finished = run_to_end(command)?;
            ensure!(finished.stdout.contains("145 tests, 145 passed, 0 skipped, 0 failed"), "{flags:?}: {finished:?}");
        }
        both.server.drain()
    });
}

/// Requests in frames of many kinds: heads in one frame and in several, a body that nobody wants, priorities, windows.
fn script() -> Vec<u8> {
    let head =
        headers(3, &[(":method", "GET"), (":scheme", "http"), (":path", "/small.txt"), (":authority", "h")], true);
    let (begin, rest) = head[9..].split_at(5);
    let (middle, end) = rest.split_at(4);
    let frames = [
        greeting_with(&[ClientSetting::InitialWindowSize(1000)]),
        get(1, "/small.txt"),
        frame(1, 0x1, 3, begin),
        frame(9, 0, 3, middle),
        frame(9, 0x4, 3, end),
        [request(5, "POST", "/small.txt", &[], false), data(5, b"a body", false), data(5, b"", true)].concat(),
        ping(*b"12345678"),
        request(7, "GET", "/large.bin", &[("range", "bytes=1000-300000"), ("priority", "u=1, i")], true),
        frame(0x10, 0, 0, b"\0\0\0\x07u=0"),
        window_update(7, 1 << 20),
        window_update(0, 1 << 20),
        request(9, "HEAD", "/large.bin", &[], true),
        get(11, "/missing"),
    ];
    frames.concat()
}

/// Bytes that come one by one, in records of one byte or cut across frames, get the responses that the same bytes get at
/// once, though their client has room for few of them at a time.
#[test]
fn torn_records_and_frames_get_the_same_responses() {
    Both::on_every_driver(tree().path(), &[], |both, _| {
        let is_over = |got: &testkit::http2::Received| {
            got.responses.len() == 6 && got.responses.values().all(|one| one.is_over()) && got.pongs == 1
        };
        let [mut plain, mut secured] = both.connect(&script())?;
        let wanted = plain.read_until(is_over)?.responses.clone();
        let statuses: Vec<_> = wanted.values().map(|response| response.status()).collect();
        ensure!(statuses == [200, 200, 405, 206, 200, 404], "{statuses:?}");
        let part = &wanted[&7];
        ensure!(part.body == large()[1000..=300_000], "{} bytes, or others: {:?}", part.body.len(), part.fields);
        ensure!(secured.read_until(is_over)?.responses == wanted, "whole, over TLS");
        for tearing in TEARINGS {
            let mut client = Client::connect_torn(both.address(1)?, both.certificates, tearing, &script())?;
            ensure!(client.read_until(is_over)?.responses == wanted, "{tearing:?}: {:?}", client.received);
        }
        drop((plain, secured));
        both.server.drain()
    });
}

/// A program that runs holds up none of the other streams, whether they ask before or after it, and is answered in the end.
#[test]
fn a_stream_that_waits_holds_up_no_other() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "www/small.txt", "small").unwrap();
    let program = "#!/bin/sh\n: > \"$QUERY_STRING.begun\"\nwhile [ ! -e \"$QUERY_STRING\" ]; do sleep 0.01; done\n\
        printf 'Content-Type: text/plain\\n\\n'; printf '%s ' $SERVER_PROTOCOL; cat\n";
    write_program(&tree.path().join("programs/wait"), program).unwrap();
    let programs = tree.path().join("programs").display().to_string();
    Both::on_every_driver(&tree.path().join("www"), &["--cgi-dir", &programs], |both, driver| {
        for (at, mut client) in both.connect(&greeting())?.into_iter().enumerate() {
            let gate = tree.path().join(format!("{driver}.{at}.gate"));
            let wait = format!("/cgi-bin/wait?{}", gate.display());
            client.send(&[request(1, "POST", &wait, &[], false), data(1, b"by ", false)].concat())?;
            client.send(&[data(1, b"post", true), get(3, &wait), get(5, "/small.txt")].concat())?;
            ensure!(client.response(5)?.body == b"small");
            for stream in [7, 9] {
                client.send(&get(stream, "/small.txt"))?;
                ensure!(client.response(stream)?.body == b"small");
            }
            // This program does not end by itself, and once it runs nobody waits for it any more.
            let never = format!("{}.never", gate.display());
            client.send(&get(11, &format!("/cgi-bin/wait?{never}")))?;
            eventually("the program runs", || Ok(Path::new(&format!("{never}.begun")).exists()))?;
            client.send(&reset(11))?;
            ensure!(client.received.responses.len() == 3, "{:?}", client.received);
            fs::write(&gate, "")?;
            ensure!(client.response(1)?.body == b"HTTP/2.0 by post", "{:?}", client.received);
            ensure!(client.response(3)?.body == b"HTTP/2.0 ", "{:?}", client.received);
        }
        // A client that goes is no reason for a warning.
        both.server.drain()
    });
}

/// Takes the rest of stream 1, a part at a time, and then waits for the end.
fn take_the_rest(client: &mut Client) -> anyhow::Result<()> {
    while client.received.response(1)?.body.len() < LARGE {
        let before = client.received.response(1)?.body.len();
        client.send(&[window_update(0, 500_000), window_update(1, 500_000)].concat())?;
        client.read_until(|got| got.responses[&1].body.len() >= LARGE.min(before + 500_000))?;
    }
    client.read_until(|_| false).map(drop)
}

/// Transfers of the old process go on while the new one serves. Whoever is connected to the old one is told to go elsewhere.
#[test]
fn an_upgrade_completes_transfers() {
    Both::on_every_driver(tree().path(), &["--drain-timeout", "5m"], |both, _| {
        let mut clients = both.connect(&greeting_with(&[]))?;
        for client in &mut clients {
            client.send(&get(1, "/large.bin"))?;
            client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
        }
        let successor = both.server.upgrade(both.server.process())?;
        for client in &mut both.connect(&greeting_with(&[]))? {
            client.send(&get(1, "/small.txt"))?;
            client.read_until(|got| !got.data.is_empty())?;
            ensure!(client.received.response(1)?.status() == 200);
        }
        for client in &mut clients {
            client.read_until(|got| got.pings.len() == 1)?;
            ensure!(!client.received.goaways.is_empty(), "it was not told");
            client.send(&frame(6, 1, 0, &client.received.pings[0].clone()))?;
            take_the_rest(client)?;
            ensure!(client.received.response(1)?.body == large() && client.is_closed);
        }
        ensure!(both.server.wait_for_exit()?.success(), "{}", both.server.stderr());
        successor.process().terminate()?;
        both.server.wait_for_successors()
    });
}

/// A client that has been told of the drain gets what it has asked for, however slowly it takes it, and can ask for nothing more
/// once it has heard.
#[test]
fn a_drain_completes_transfers() {
    Both::on_every_driver(tree().path(), &[], |both, _| {
        let mut clients = both.connect(&greeting_with(&[]))?;
        for client in &mut clients {
            client.send(&[get(1, "/large.bin"), get(3, "/small.txt")].concat())?;
            client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
        }
        both.server.terminate()?;
        for client in &mut clients {
            client.read_until(|got| got.pings.len() == 1)?;
            ensure!(client.received.goaways == [(i32::MAX as u32, 0)], "{:?}", client.received.goaways);
            // It has not heard yet when it sends this.
            client.send(&get(5, "/missing"))?;
            client.send(&frame(6, 1, 0, &client.received.pings[0].clone()))?;
            client.read_until(|got| got.goaways.len() == 2)?;
            ensure!(client.received.goaways[1] == (5, 0), "{:?}", client.received.goaways);
            client.send(&get(7, "/small.txt"))?;
        }
        for client in &mut clients {
            take_the_rest(client)?;
            ensure!(client.received.response(1)?.body == large() && client.is_closed);
            ensure!(client.received.response(5)?.status() == 404 && !client.received.responses.contains_key(&7));
        }
        ensure!(both.server.wait()?.success());
        Ok(())
    });
}
