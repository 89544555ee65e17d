//! Bodies of every kind of segment, complete and unchanged, for fast and for slow readers.

use std::{io::ErrorKind, time::Duration};

use crate::{Client, Content, Server, digest};
use anyhow::{Context, ensure};

use super::case::{Case, PAGE_BYTES, PIPE_BYTES, PLAIN, Setup, probe};

const LEN: usize = 8 << 20;
const CHAIN_LEN: usize = 1_000_000;

const WITH_CONTENT: Setup = Setup { content_bytes: LEN, args: &["--registered"], ..PLAIN };

fn fetch(
    server: &Server,
    case: &Case<'_>,
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
    ensure!(got.sha256 == digest(&case.content.bytes()[..len]), "{kind} {len}: wrong bytes");
    Ok(())
}

pub fn every_kind_of_body_is_complete_for_a_fast_reader() {
    WITH_CONTENT.check_server(|server, case| {
        for kind in ["shared", "file", "mapped", "pages", "chain", "registered"] {
            for len in [1, 2_048, 2_049, 300_000, LEN] {
                if kind == "chain" && len > CHAIN_LEN {
                    continue;
                }
                fetch(server, case, (kind, len), (1 << 20, Duration::ZERO))?;
            }
        }
        for len in [1, 4_096, 26_510, PIPE_BYTES] {
            fetch(server, case, ("pipe", len), (1 << 20, Duration::ZERO))?;
            fetch(server, case, ("headed", len.min(PIPE_BYTES - PAGE_BYTES)), (1 << 20, Duration::ZERO))?;
        }
        Ok(())
    });
}

/// Only a slow reader fills the socket, so that the rest of a body is sent later.
pub fn every_kind_of_body_is_complete_for_a_slow_reader() {
    WITH_CONTENT.check_server(|server, case| {
        for kind in ["shared", "file", "mapped", "pages", "registered"] {
            fetch(server, case, (kind, LEN), (64 << 10, Duration::from_millis(1)))?;
        }
        fetch(server, case, ("chain", CHAIN_LEN), (64 << 10, Duration::from_millis(1)))?;
        fetch(server, case, ("headed", PIPE_BYTES - PAGE_BYTES), (2_000, Duration::from_millis(1)))?;
        fetch(server, case, ("pipe", PIPE_BYTES), (2_000, Duration::from_millis(1)))
    });
}

/// Tee has no offset, so pipelined replies from one cached pipe need scratch pipes of their own.
pub fn pipelined_bodies_of_every_kind_keep_their_order() {
    WITH_CONTENT.check_server(|server, case| {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for i in 0..60 {
            for (kind, len) in [
                ("file", 3_000 + i),
                ("pipe", PIPE_BYTES - 5),
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
                replies.extend(&case.content.bytes()[..len]);
            }
        }
        // In two pieces, too: requests that are held back before the end of input are answered as well.
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

/// A file that is as long as the share of a turn (256 KiB) uses it up as its last byte is sent. Where nothing else is queued then, requests
/// that were held back have not had their chance.
pub fn requests_held_until_a_turn_is_used_up_are_answered_after_a_half_close() {
    WITH_CONTENT.check_server(|server, case| {
        const SHARE: usize = 256 << 10;
        let line = format!("file {SHARE}\n");
        let reply = [line.as_bytes(), &case.content.bytes()[..SHARE]].concat();
        // More than are queued at once.
        for count in [1, 33, 100] {
            let mut client = Client::connect_with_buffer(server.address(), 4 << 20)?;
            client.send_and_half_close(line.repeat(count).as_bytes())?;
            client.expect_all(&reply.repeat(count))?;
        }
        Ok(())
    });
}

/// The cached bytes stay the same when some of several slow readers leave in the middle.
pub fn a_cached_pipe_survives_readers_that_disconnect() {
    WITH_CONTENT.check_server(|server, case| {
        let line = format!("pipe {PIPE_BYTES}\n");
        for _ in 0..40 {
            let mut leaver = Client::connect_with_buffer(server.address(), 4 << 10)?;
            leaver.send(line.repeat(20).as_bytes())?;
            leaver.expect(line.as_bytes())?;
            leaver.take(1_000)?;
            leaver.reset()?;
        }
        for _ in 0..3 {
            fetch(server, case, ("pipe", PIPE_BYTES), (1 << 20, Duration::ZERO))?;
        }
        Ok(())
    });
}

/// A file that shrinks during a transfer ends in a closed connection. The body is never complete with wrong bytes, and
/// the process never ends.
pub fn a_file_that_shrinks_during_a_transfer_closes_it() {
    PLAIN.check(|case| {
        let content = Content::new(LEN)?;
        let mut command = case.command();
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
            // Bytes sent before the kernel noticed may end in zeros of the page that was cut.
            let whole = got.len().min(100_000);
            ensure!(got[..whole] == content.bytes()[..whole], "{kind}: wrong bytes");
        }
        // The same holds for a new request.
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
