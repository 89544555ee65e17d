//! HTTP/2 with prior knowledge.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{
    DriverKind, Server, check_each,
    http2::{
        Client, ClientSetting, ErrorCode, data, frame, get, greeting, greeting_with, headers, ping, request, reset,
        settings, window_update,
    },
    installed_program, run_to_end,
    tls::Certificates,
};

use super::{CONCURRENCY, EXE, command, expect_status, on_every_driver, serve, write};

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

/// Runs a client to its successful end. Returns its output.
fn run(program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(args);
    let finished = run_to_end(command)?;
    ensure!(finished.code() == Some(0), "{} {args:?}: {finished:?}", program.display());
    Ok(finished.stdout)
}

#[test]
fn h2spec_finds_no_fault() {
    let Some(h2spec) = installed_program("h2spec").unwrap() else { return };
    on_every_driver(tree().path(), &[], |server| {
        let address = address(server)?;
        let port = address.port().to_string();
        let said = run(&h2spec, &["-h", &address.ip().to_string(), "-p", &port, "--timeout", "10"])?;
        ensure!(said.contains("145 tests, 145 passed, 0 skipped, 0 failed"), "{said}");
        Ok(())
    });
}

/// The same over TLS, where HTTP/2 is agreed by ALPN, on addresses without a plain one beside them.
#[test]
fn h2spec_finds_no_fault_over_tls() {
    let (h2spec, curl) = (installed_program("h2spec").unwrap(), installed_program("curl").unwrap());
    let (tree, certificates) = (tree(), Certificates::new().unwrap());
    check_each(DriverKind::ALL, CONCURRENCY, |&driver| {
        let mut command = Command::new(EXE);
        command.args(["--driver", driver.name(), "--threads", "1"]).args(certificates.flags("server")).arg(tree.path());
        let mut server = Server::start_command(command, 1)?;
        let port = address(&server)?.port().to_string();
        if let Some(h2spec) = &h2spec {
            let said = run(h2spec, &["-h", "127.0.0.1", "-p", &port, "-t", "-k", "--timeout", "10"])?;
            ensure!(said.contains("145 tests, 145 passed, 0 skipped, 0 failed"), "{driver}: {said}");
        }
        if let Some(curl) = &curl {
            let url = format!("https://127.0.0.1:{port}/large.bin");
            let format = "%{http_version} %{http_code} %{size_download}";
            let said = run(curl, &["-q", "-sSk", "--noproxy", "*", "-o", "/dev/null", "-w", format, &url])?;
            ensure!(said == format!("2 200 {LARGE}"), "{driver}: {said}");
        }
        server.drain().with_context(|| driver.name())
    });
}

#[test]
fn curl_and_h2load_are_served() {
    let curl = installed_program("curl").unwrap();
    let h2load = installed_program("h2load").unwrap();
    let tree = tree();
    let file = tree.path().join("small.txt").display().to_string();
    on_every_driver(tree.path(), &[], |server| {
        let url = |path: &str| format!("http://{}{path}", server.address());
        if let Some(curl) = &curl {
            let curl = |args: &[&str]| {
                run(
                    curl,
                    &[&["-q", "-sS", "--noproxy", "*", "--max-time", "30", "--http2-prior-knowledge"], args].concat(),
                )
            };
            for (path, status) in [("/small.txt", "[2 200]"), ("/missing.txt", "[2 404]")] {
                let said = curl(&["-w", "[%{http_version} %{http_code}]", "-o", "/dev/null", &url(path)])?;
                ensure!(said == status, "{said}");
            }
            ensure!(curl(&["-r", "0-1", "-w", " %{http_code}", &url("/small.txt")])? == "sm 206");
            ensure!(curl(&["-w", "%{size_download}", "-o", "/dev/null", &url("/large.bin")])? == LARGE.to_string());
            let said = curl(&["-T", &file, "-o", "/dev/null", "-w", "%{http_code}", &url("/small.txt")])?;
            ensure!(said == "405", "{said}");
        }
        if let Some(h2load) = &h2load {
            let said = run(h2load, &["-n", "600", "-c", "3", "-m", "32", &url("/small.txt"), &url("/index.html")])?;
            ensure!(said.contains("600 succeeded") && said.contains("600 2xx"), "{said}");
        }
        Ok(())
    });
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
        let mut client = Client::connect_with(address(server)?, &greeting())?;
        let refused = client.read_until(|_| false);
        ensure!(refused.is_err() || client.received.settings.is_empty(), "{:?}", client.received);
        expect_status(server, "/small.txt", 200)
    });
}

/// A program that runs holds up none of the other streams, whether they ask before or after it, and is answered in the end.
#[test]
fn a_stream_that_waits_holds_up_no_other() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "www/small.txt", "small").unwrap();
    let program = "#!/bin/sh\nwhile [ ! -e \"$QUERY_STRING\" ]; do sleep 0.01; done\n\
        printf 'Content-Type: text/plain\\n\\n'; printf '%s ' $SERVER_PROTOCOL; cat\n";
    write(tree.path(), "programs/wait", program).unwrap();
    fs::set_permissions(tree.path().join("programs/wait"), PermissionsExt::from_mode(0o755)).unwrap();
    let programs = tree.path().join("programs").display().to_string();
    check_each(DriverKind::ALL, CONCURRENCY, |&driver| {
        let gate = tree.path().join(format!("{driver}.gate"));
        let wait = format!("/cgi-bin/wait?{}", gate.display());
        serve(driver, &tree.path().join("www"), &["--cgi-dir", &programs], |server: &Server| {
            let mut client = connect(server)?;
            client.send(&[request(1, "POST", &wait, &[], false), data(1, b"by ", false)].concat())?;
            client.send(&[data(1, b"post", true), get(3, &wait), get(5, "/small.txt")].concat())?;
            ensure!(client.response(5)?.body == b"small");
            for stream in [7, 9] {
                client.send(&get(stream, "/small.txt"))?;
                ensure!(client.response(stream)?.body == b"small");
            }
            client.send(&[get(11, &wait), reset(11)].concat())?;
            ensure!(client.received.responses.len() == 3, "{:?}", client.received);
            fs::write(&gate, "")?;
            ensure!(client.response(1)?.body == b"HTTP/2.0 by post", "{:?}", client.received);
            ensure!(client.response(3)?.body == b"HTTP/2.0 ", "{:?}", client.received);
            Ok(())
        })
    });
}

/// A client that has been told of the drain gets what it has asked for, however slowly it takes it, and can ask for nothing more
/// once it has heard.
#[test]
fn a_drain_completes_transfers() {
    let tree = tree();
    check_each(DriverKind::ALL, CONCURRENCY, |&driver| {
        let mut server = Server::start_command(command(driver, tree.path(), &[]), 1)?;
        let mut client = Client::connect_with(address(&server)?, &greeting_with(&[]))?;
        client.send(&[get(1, "/large.bin"), get(3, "/small.txt")].concat())?;
        client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
        server.terminate()?;
        client.read_until(|got| got.pings.len() == 1)?;
        ensure!(client.received.goaways == [(i32::MAX as u32, 0)], "{driver}: {:?}", client.received.goaways);
        // It has not heard yet when it sends this.
        client.send(&get(5, "/missing"))?;
        client.send(&frame(6, 1, 0, &client.received.pings[0].clone()))?;
        client.read_until(|got| got.goaways.len() == 2)?;
        ensure!(client.received.goaways[1] == (5, 0), "{driver}: {:?}", client.received.goaways);
        client.send(&get(7, "/small.txt"))?;
        while client.received.response(1)?.body.len() < LARGE {
            let before = client.received.response(1)?.body.len();
            client.send(&[window_update(0, 500_000), window_update(1, 500_000)].concat())?;
            client.read_until(|got| got.responses[&1].body.len() >= LARGE.min(before + 500_000))?;
        }
        client.read_until(|_| false)?;
        ensure!(client.received.response(1)?.body == large() && client.is_closed, "{driver}");
        ensure!(
            client.received.response(5)?.status() == 404 && !client.received.responses.contains_key(&7),
            "{driver}"
        );
        ensure!(server.wait()?.success(), "{driver}");
        Ok(())
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
