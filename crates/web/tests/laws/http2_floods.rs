//! Floods of HTTP/2, with prior knowledge and over TLS: what they cost is bounded, and other clients are answered meanwhile.

use std::{fs, thread};

use anyhow::{Context, ensure};
use testkit::{
    http::Http,
    http2::{
        Client, ClientSetting, ErrorCode, data, frame, get, greeting, greeting_with, headers, ping, request, reset,
        settings, window_update,
    },
};

use super::{http2_layers::Both, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Number of frames of a flood: more than any client needs, and fewer than a connection takes at once.
const FLOOD: u32 = 3000;
/// Number of them after which others ask for the first time: the connection still lives.
const FIRST_PART: u32 = 300;
/// Number of frames of 16 kB of a head without an end.
const ENDLESS: u32 = 4000;
/// Memory that floods may cost, whatever their length, in bytes.
const FLOOD_BYTES_MAX: u64 = 48 << 20;

/// Tree with a small and a large file.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "small.txt", "small").unwrap();
    fs::write(tree.path().join("large.bin"), vec![b'l'; LARGE]).unwrap();
    tree
}

/// Clients that are there before a flood and have to be answered in the middle of it: of HTTP/1, of HTTP/2 with prior knowledge, and
/// of HTTP/2 over TLS.
struct Others<'a> {
    both: &'a Both<'a>,
    http1: Http,
    http2: [Client; 2],
    stream: u32,
    /// Memory of the server when it had nothing else to do.
    resident_bytes: u64,
}

impl<'a> Others<'a> {
    fn connect(both: &'a Both<'a>) -> anyhow::Result<Self> {
        let (http1, http2) = (Http::connect(both.server.address())?, both.connect(&greeting())?);
        let mut others = Self { both, http1, http2, stream: 1, resident_bytes: u64::MAX };
        others.ask()?;
        others.resident_bytes = both.server.process().resident_bytes()?;
        Ok(others)
    }

    /// Has each of them ask for a file, on the connection that it has and on a new one, and looks at the server's memory.
    fn ask(&mut self) -> anyhow::Result<()> {
        for http1 in [&mut self.http1, &mut Http::connect(self.both.server.address())?] {
            ensure!(http1.get("/small.txt")?.body == b"small", "HTTP/1");
        }
        for client in &mut self.http2 {
            client.send(&get(self.stream, "/small.txt"))?;
            ensure!(client.response(self.stream)?.body == b"small", "an old connection of HTTP/2");
        }
        self.stream += 2;
        for mut client in self.both.connect(&greeting())? {
            client.send(&get(1, "/small.txt"))?;
            ensure!(client.response(1)?.body == b"small", "a new connection of HTTP/2");
        }
        let grown = self.both.server.process().resident_bytes()?.saturating_sub(self.resident_bytes);
        ensure!(grown < FLOOD_BYTES_MAX, "it costs {grown} bytes");
        Ok(())
    }
}

/// Tests the law on a server on every driver, with the others beside it.
fn on_every_driver(law: impl Fn(&Both<'_>, &mut Others<'_>) -> anyhow::Result<()> + Sync) {
    Both::on_every_driver(tree().path(), &[], |both, _| {
        let mut others = Others::connect(both)?;
        law(both, &mut others)?;
        others.ask().context("afterwards")?;
        drop(others);
        both.server.drain()
    });
}

/// Floods of what costs a server work and takes nothing from it end the connection that they come on, and nothing else.
#[test]
fn floods_end_their_connection_and_hold_up_no_other() {
    let begun = headers(1, &[(":method", "GET")], false);
    let torn = [&begun[..4], &[0], &begun[5..]].concat();
    type Flood<'a> = &'a (dyn Fn(u32) -> Vec<u8> + Sync);
    let floods: [(&str, Vec<u8>, Flood<'_>); 9] = [
        ("resets", vec![], &|n| [get(2 * n + 1, "/large.bin"), reset(2 * n + 1)].concat()),
        ("pings", vec![], &|n| ping(u64::from(n).to_be_bytes())),
        ("settings", vec![], &|_| settings(&[ClientSetting::InitialWindowSize(1)])),
        ("empty data", request(1, "POST", "/", &[], false), &|_| data(1, b"", false)),
        ("padding", request(1, "POST", "/", &[], false), &|_| frame(0, 0x8, 1, &[0])),
        ("continuations", torn, &|_| frame(9, 0, 1, b"")),
        ("windows", vec![], &|_| window_update(0, 1)),
        ("priorities", vec![], &|_| frame(0x10, 0, 0, b"\0\0\0\x01u=1")),
        ("unknown frames", vec![], &|_| frame(0xbe, 0, 0, b"")),
    ];
    on_every_driver(|both, others| {
        for (name, first, flood) in &floods {
            for mut client in both.connect(&greeting_with(&[]))? {
                client.send(first)?;
                (0..FIRST_PART).try_for_each(|n| client.send(&flood(n)))?;
                // Within a head nothing else may come; elsewhere an answer says that the flood has been read so far.
                if *name != "continuations" {
                    client.send(&ping(*b"so far: "))?;
                    let pongs = if *name == "pings" { FIRST_PART as usize + 1 } else { 1 };
                    client.read_until(|got| got.pongs == pongs)?;
                    ensure!(!client.is_closed, "{name}: the end came soon");
                }
                others.ask().with_context(|| format!("after {FIRST_PART} of {name}"))?;
                thread::scope(|scope| {
                    let rest = scope.spawn(|| {
                        // The server has had enough when it takes no more.
                        (FIRST_PART..FLOOD).try_for_each(|n| client.send(&flood(n))).is_err()
                    });
                    loop {
                        let is_over = rest.is_finished();
                        others.ask().with_context(|| format!("during {name}"))?;
                        if is_over {
                            return anyhow::Ok(());
                        }
                    }
                })?;
                let code = client.end();
                // What the server has said last may be lost with the connection.
                ensure!(
                    code.as_ref().is_ok_and(|&code| code == ErrorCode::EnhanceYourCalm as u32) || client.is_closed,
                    "{name}: {code:?}"
                );
                ensure!(client.is_closed, "{name} went on");
            }
        }
        Ok(())
    });
}

/// A small block that means a large head, and one that never ends.
#[test]
fn header_bombs_are_not_unpacked() {
    on_every_driver(|both, others| {
        for mut client in both.connect(&greeting())? {
            // One entry of the table, as large as it may be, and then thousands of references to it: 96 MB.
            let mut block = vec![0x40, 1, b'x', 0x7f, 0xb1, 0x1e];
            block.resize(block.len() + 4016, b'v');
            let head =
                headers(1, &[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")], true);
            let bomb = [&head[9..], &block, &[0xbe; 12_000]].concat();
            client.send(&[frame(1, 0x1, 1, &bomb), frame(9, 0x4, 1, &[0xbe; 12_000])].concat())?;
            ensure!(client.response(1)?.status() == 431, "{:?}", client.received);
            others.ask().context("after a bomb")?;
            client.send(&frame(1, 0x1, 3, &head[9..]))?;
            others.ask().context("during an endless head")?;
            let mut parts = 0;
            while parts < ENDLESS && client.send(&frame(9, 0, 3, &[0x82; 16_000])).is_ok() {
                parts += 1;
            }
            others.ask().with_context(|| format!("after {parts} parts of an endless head"))?;
            let code = client.end();
            ensure!(client.is_closed, "{code:?}");
        }
        Ok(())
    });
}

/// Windows of one byte, and none at all: little is held for such clients, and others are served meanwhile.
#[test]
fn clients_without_windows_cost_little() {
    on_every_driver(|both, others| {
        let mut clients = Vec::new();
        for _ in 0..4 {
            for mut client in both.connect(&greeting_with(&[ClientSetting::InitialWindowSize(1)]))? {
                client.send(&(0..100).map(|n| get(2 * n + 1, "/large.bin")).collect::<Vec<_>>().concat())?;
                client.read_until(|got| got.data.len() == 100)?;
                ensure!(client.received.data.iter().all(|&(_, length)| length == 1));
                others.ask()?;
                clients.push(client);
            }
        }
        for client in &mut clients {
            client.send(&[window_update(1, 1), window_update(0, 1000)].concat())?;
            client.read_until(|got| got.data.len() == 101)?;
        }
        ensure!(clients.iter().all(|client| !client.is_closed), "one has been cut off");
        others.ask()
    });
}

/// Clients that ask and never read are held to what one connection may queue.
#[test]
fn responses_that_nobody_reads_are_bounded() {
    on_every_driver(|both, others| {
        let mut idle = Vec::new();
        for _ in 0..3 {
            for mut client in both.connect(&greeting())? {
                client.send(&(0..120).map(|n| get(2 * n + 1, "/large.bin")).collect::<Vec<_>>().concat())?;
                others.ask()?;
                idle.push(client);
            }
        }
        (0..3).try_for_each(|_| others.ask())
    });
}
