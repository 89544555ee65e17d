//! Every kind of segment, whole and true, to fast and to slow readers.

use std::{io::ErrorKind, time::Duration};

use anyhow::{Context, ensure};
use testkit::{Client, Content, Server, digest};

use crate::case::{Bench, PLAIN, Setup, probe};

const LEN: usize = 8 << 20;
/// What a new pipe holds (pipe(7)).
const PIPE_LEN: usize = 64 << 10;
/// What the head of a cached pipe takes.
const PAGE: usize = 4 << 10;
const CHAIN_LEN: usize = 1_000_000;

const WITH_CONTENT: Setup = Setup { content_bytes: LEN, args: &["--registered"], ..PLAIN };

fn fetch(
    server: &Server,
    bench: &Bench<'_>,
    (kind, len): (&str, usize),
    (step, pause): (usize, Duration),
) -> anyhow::Result<()> {
    let line = format!("{kind} {len}\n");
    let mut client = Client::connect_with_buffer(server.address(), if pause.is_zero() { 1 << 20 } else { 16 << 10 })?;
    client.send(line.as_bytes())?;
    client.half_close()?;
    client.expect(line.as_bytes())?;
    let got = client.digest(step, pause).context(line)?;
    ensure!(got.len == len as u64, "{kind}: {} bytes instead of {len}", got.len);
    ensure!(got.sha256 == digest(&bench.content.bytes()[..len]), "{kind} {len}: wrong bytes");
    Ok(())
}

#[test]
fn every_kind_of_body_is_whole_for_a_fast_reader() {
    WITH_CONTENT.serve(|server, bench| {
        for kind in ["shared", "file", "mapped", "pages", "chain", "registered"] {
            for len in [1, 2_048, 2_049, 300_000, LEN] {
                if kind == "chain" && len > CHAIN_LEN {
                    continue;
                }
                fetch(server, bench, (kind, len), (1 << 20, Duration::ZERO))?;
            }
        }
        for len in [1, 4_096, 26_510, PIPE_LEN] {
            fetch(server, bench, ("pipe", len), (1 << 20, Duration::ZERO))?;
            fetch(server, bench, ("headed", len.min(PIPE_LEN - PAGE)), (1 << 20, Duration::ZERO))?;
        }
        Ok(())
    });
}

/// Pitfalls 2 and 3: only a reader that makes the socket full shows what happens to the rest.
#[test]
fn every_kind_of_body_is_whole_for_a_slow_reader() {
    WITH_CONTENT.serve(|server, bench| {
        for kind in ["shared", "file", "mapped", "pages", "registered"] {
            fetch(server, bench, (kind, LEN), (64 << 10, Duration::from_millis(1)))?;
        }
        fetch(server, bench, ("chain", CHAIN_LEN), (64 << 10, Duration::from_millis(1)))?;
        fetch(server, bench, ("headed", PIPE_LEN - PAGE), (2_000, Duration::from_millis(1)))?;
        fetch(server, bench, ("pipe", PIPE_LEN), (2_000, Duration::from_millis(1)))
    });
}

/// Pitfall 15: tee has no offset, so pipelined replies from one cached pipe need scratch pipes of their own.
#[test]
fn pipelined_bodies_of_every_kind_keep_their_order() {
    WITH_CONTENT.serve(|server, bench| {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for i in 0..60 {
            for (kind, len) in [
                ("file", 3_000 + i),
                ("pipe", PIPE_LEN - 5),
                ("shared", 9_000),
                ("mapped", 5_000 + i),
                ("headed", 26_510),
                ("pages", 70_000 + i),
                ("chain", 150_000),
                ("registered", 1_000),
                ("registered", 300_000 + i),
                ("registered", 40_000),
            ] {
                let line = format!("{kind} {len}\n");
                requests.extend(line.bytes());
                replies.extend(line.bytes());
                replies.extend(&bench.content.bytes()[..len]);
            }
        }
        // In two pieces, too: what has to be held, and is followed by the end of input, is answered all the same.
        for cut in [requests.len(), 4 << 10] {
            let mut client = Client::connect_with_buffer(server.address(), 32 << 10)?;
            client.send(&requests[..cut])?;
            std::thread::sleep(Duration::from_millis(20));
            client.send(&requests[cut..])?;
            client.half_close()?;
            client.expect_all(&replies)?;
        }
        Ok(())
    });
}

/// Several slow readers of one cached pipe, some of whom leave in the middle: the cached bytes stay what they are.
#[test]
fn a_cached_pipe_survives_readers_that_leave_in_the_middle() {
    WITH_CONTENT.serve(|server, bench| {
        let line = format!("pipe {PIPE_LEN}\n");
        for _ in 0..40 {
            let mut leaver = Client::connect_with_buffer(server.address(), 4 << 10)?;
            leaver.send(line.repeat(20).as_bytes())?;
            leaver.expect(line.as_bytes())?;
            leaver.take(1_000)?;
            leaver.reset()?;
        }
        for _ in 0..3 {
            fetch(server, bench, ("pipe", PIPE_LEN), (1 << 20, Duration::ZERO))?;
        }
        Ok(())
    });
}

/// A file that shrinks under a transfer ends with a closed connection, never with wrong bytes in full length, and never
/// with the end of the process.
#[test]
fn a_file_that_shrinks_in_mid_transfer_closes_the_connection() {
    PLAIN.examine(|bench| {
        let content = Content::new(LEN)?;
        let mut command = bench.command();
        command.arg("--content").arg(content.path());
        let mut server = Server::start_command(command, 1)?;
        let line = |kind: &str| format!("{kind} {LEN}\n");
        let mut readers = Vec::new();
        for kind in ["file", "mapped", "pages"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            client.send(line(kind).as_bytes())?;
            client.expect(line(kind).as_bytes())?;
            readers.push((kind, client));
        }
        content.truncate(100_000)?;
        for (kind, mut client) in readers {
            let (got, outcome) = client.read_until_disconnect();
            let closed = outcome.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |()| true);
            ensure!(closed, "{kind}: {outcome:?} after {} bytes", got.len());
            ensure!(got.len() < LEN, "{kind}: a whole body from half a file");
            // What came before the kernel noticed may end in zeros of the page that was cut.
            let whole = got.len().min(100_000);
            ensure!(got[..whole] == content.bytes()[..whole], "{kind}: wrong bytes");
        }
        // Asked for once more, from the start: the same.
        for kind in ["file", "mapped", "pages"] {
            let mut client = server.connect()?;
            client.send(line(kind).as_bytes())?;
            let (got, _) = client.read_until_disconnect();
            ensure!(got.len() < LEN, "{kind}: a whole body from half a file");
        }
        probe(&server)?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}
