//! Deadlines. No test asserts that anything happened soon: only that it happened, and not too early.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{Client, Server};
use anyhow::{Context, ensure};

use super::case::{Case, PLAIN, Setup, ask, probe};

const IDLE: Setup = Setup { args: &["--idle-timeout", "700ms"], content_bytes: 4 << 20, ..PLAIN };

pub fn an_idle_connection_is_closed_and_activity_postpones_that() {
    IDLE.check_server(|server, _| {
        let mut silent = server.connect()?;
        let mut client = server.connect()?;
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(300));
            ask(&mut client, "still-here")?;
        }
        let since = Instant::now();
        client.expect_end()?;
        ensure!(since.elapsed() >= Duration::from_millis(600), "closed early, after {:?}", since.elapsed());
        silent.expect_end()
    });
}

/// A pause interrupts whatever call a thread waits in: a call that is repeated with all of its timeout never ends where
/// pauses are more frequent than that.
pub fn frequent_pauses_postpone_no_deadline() {
    const PAUSES_MAX: usize = 1_500;
    let setup = Setup {
        args: &["--idle-timeout", "700ms", "--stall-timeout", "700ms"],
        content_bytes: 8 << 20,
        parallel: 7,
        ..PLAIN
    };
    setup.check_server(|server, _| {
        let process = server.process();
        let before = process.settled_resources()?.descriptors;
        let mut idle = server.connect()?;
        ask(&mut idle, "in")?;
        let mut stalled = Client::connect_with_buffer(server.address(), 16 << 10)?;
        let line = format!("shared {}\n", 8 << 20);
        stalled.send(line.as_bytes())?;
        stalled.expect(line.as_bytes())?;
        for _ in 0..PAUSES_MAX {
            process.pause()?;
            thread::sleep(Duration::from_millis(5));
            process.resume()?;
            thread::sleep(Duration::from_millis(15));
            if process.descriptors()? <= before {
                return idle.expect_end();
            }
        }
        anyhow::bail!("still open after {PAUSES_MAX} pauses")
    });
}

pub fn a_slow_reader_is_not_idle() {
    IDLE.check_server(|server, case| {
        for kind in ["shared", "file"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            let line = format!("{kind} {}\n", 4 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            let (first, rest) = case.content.bytes().split_at(8 * 64 * 1024);
            for chunk in first.chunks(64 * 1024) {
                thread::sleep(Duration::from_millis(150));
                client.expect(chunk)?;
            }
            client.expect(rest)?;
        }
        Ok(())
    });
}

/// A connection that waits for a promise is not idle either.
pub fn a_pending_promise_is_not_idle() {
    IDLE.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"late 1500\n")?;
        client.expect(b"late\n")
    });
}

/// A client does not stall while it waits for a reply.
pub fn a_promise_may_take_longer_than_the_stall_limit() {
    let setup = Setup { args: &["--stall-timeout", "500ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"late 1800\nnext\n")?;
        client.expect(b"late\nnext\n")?;
        client.send(b"h 1800 hold\nafter\n")?;
        client.expect(b"after\n")
    });
}

/// A client does not stall while the server itself is paused, past the promise and the limit.
pub fn a_promise_that_comes_due_during_a_pause_is_sent() {
    let setup = Setup { args: &["--stall-timeout", "400ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = server.connect()?;
        for _ in 0..4 {
            client.send(b"late 200\n")?;
            thread::sleep(Duration::from_millis(100));
            server.process().pause()?;
            thread::sleep(Duration::from_millis(700));
            server.process().resume()?;
            client.expect(b"late\n")?;
        }
        Ok(())
    });
}

pub fn a_request_that_does_not_end_in_time_is_told_so() {
    let setup = Setup { args: &["--request-timeout", "600ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = server.connect()?;
        let mut sender = client.try_clone()?;
        let since = Instant::now();
        thread::scope(|scope| {
            scope.spawn(move || {
                // Byte by byte, which never lets the connection become idle.
                while sender.send(b"t").is_ok() && since.elapsed() < Duration::from_secs(3) {
                    thread::sleep(Duration::from_millis(50));
                }
                sender.half_close()
            });
            client.expect_all(b"timeout\n")?;
            ensure!(since.elapsed() >= Duration::from_millis(600), "closed early, after {:?}", since.elapsed());
            Ok(())
        })
    });
}

/// Progress is noticed within one large send, and the lack of it ends the connection: with a reset, since what the kernel
/// had of it is not the whole.
pub fn a_reader_that_stalls_is_cut_off() {
    let setup = Setup { args: &["--stall-timeout", "700ms"], content_bytes: 8 << 20, ..PLAIN };
    setup.check_server(|server, _| {
        let process = server.process();
        probe(server)?; // Now it has opened its own descriptors.
        thread::sleep(Duration::from_millis(200));
        let before = process.descriptors()?;
        let mut stalled = Vec::new();
        for kind in ["shared", "file", "mapped"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            let line = format!("{kind} {}\n", 8 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            stalled.push(client);
        }
        for client in &stalled {
            crate::eventually("it is cut off", || Ok(client.is_cut_off()?))?;
        }
        crate::eventually("their descriptors are closed", || Ok(process.descriptors()? <= before))?;
        for mut client in stalled {
            let (got, end) = client.read_until_disconnect();
            ensure!(got.len() < 8 << 20, "got it all without reading");
            ensure!(end.is_err(), "a clean end after {} bytes", got.len());
        }
        Ok(())
    });
}

/// Buffers are so large that the kernel takes nothing more for longer than the limit, while the client reads all the time.
/// The rate is averaged over the limit; a client that reads more slowly is cut off.
pub fn a_steady_reader_above_the_least_rate_is_not_cut_off() {
    const STALL: Duration = Duration::from_secs(1);
    const PACE: Duration = Duration::from_millis(80);
    for (rate, is_cut_off) in [("500B/s", false), ("10MiB/s", true)] {
        // Slow enough that a sendfile that blocks comes back without having sent it all.
        let pace = if is_cut_off { PACE * 5 } else { PACE };
        let args = Vec::leak(vec!["--stall-timeout", "1s", "--socket-buffer", "208KiB", "--min-send-rate", rate]);
        let setup = Setup { args, content_bytes: 1 << 20, ..PLAIN };
        setup.check_server(|server, case| {
            thread::scope(|scope| {
                let slow = |kind| scope.spawn(move || steady_reader(server, case, kind, pace, STALL * 3, is_cut_off));
                ["shared", "file", "mapped", "pages"]
                    .map(|kind| (kind, slow(kind)))
                    .into_iter()
                    .try_for_each(|(kind, reader)| reader.join().map_err(|_| anyhow::anyhow!("a panic"))?.context(kind))
            })
        });
    }
}

/// Reads 4 KiB at a time for so long, and then the rest at once.
fn steady_reader(
    server: &Server,
    case: &Case<'_>,
    kind: &str,
    pace: Duration,
    time: Duration,
    is_cut_off: bool,
) -> anyhow::Result<()> {
    let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
    let line = format!("{kind} {}\n", 1 << 20);
    client.send(line.as_bytes())?;
    client.half_close()?;
    client.expect(line.as_bytes())?;
    let (mut got, mut buffer, begin) = (Vec::new(), [0; 4 << 10], Instant::now());
    let mut end = Ok(1);
    while begin.elapsed() < time && matches!(end, Ok(1..)) {
        end = client.read(&mut buffer);
        got.extend_from_slice(&buffer[..*end.as_ref().unwrap_or(&0)]);
        thread::sleep(pace);
    }
    let end = end.and_then(|_| {
        let (rest, end) = client.read_until_disconnect();
        got.extend(rest);
        end
    });
    ensure!(case.content.bytes().starts_with(&got), "other bytes");
    ensure!((got.len() < 1 << 20) == is_cut_off && end.is_err() == is_cut_off, "{} bytes, then {end:?}", got.len());
    Ok(())
}

/// The limit is on a pause between reads, not on their speed.
pub fn a_reader_that_is_only_slow_is_not_cut_off() {
    let setup = Setup { args: &["--stall-timeout", "1500ms"], content_bytes: 2 << 20, ..PLAIN };
    setup.check_server(|server, case| {
        for kind in ["shared", "file", "mapped"] {
            let mut client = Client::connect_with_buffer(server.address(), 64 << 10)?;
            let line = format!("{kind} {}\n", 2 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            for chunk in case.content.bytes().chunks(256 << 10) {
                thread::sleep(Duration::from_millis(400));
                client.expect(chunk)?;
            }
        }
        probe(server)
    });
}

/// At its greatest age a connection is closed after a reply, or between two requests: nothing that was asked stays without
/// its answer.
pub fn an_old_connection_is_closed_between_requests() {
    const AGE: Duration = Duration::from_millis(600);
    let setup = Setup { args: &["--max-connection-age", "600ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let begin = Instant::now();
        let (mut idle, mut torn, mut promised) = (server.connect()?, server.connect()?, server.connect()?);
        ask(&mut idle, "in")?;
        torn.send(b"ha")?;
        promised.send(b"late 1500\n")?;
        let mut busy = server.connect()?;
        loop {
            ask(&mut busy, "busy").context("a request before the end")?;
            thread::sleep(Duration::from_millis(20));
            match busy.try_read(&mut [0; 8])? {
                None => {}
                Some(n) => break ensure!(n == 0, "more than was asked for"),
            }
        }
        ensure!(begin.elapsed() >= AGE, "closed early, after {:?}", begin.elapsed());
        idle.expect_end().context("the idle connection")?;
        torn.send(b"lf\n")?;
        torn.expect_all(b"half\n").context("half a request")?;
        promised.expect_all(b"late\n").context("a promise")
    });
}

/// A client that never waits for its replies is told by the end of the stream.
pub fn a_pipelining_connection_grows_no_older() {
    let setup = Setup { args: &["--max-connection-age", "300ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let client = server.connect()?;
        let mut sender = client.try_clone()?;
        thread::scope(|scope| {
            let sent = scope.spawn(move || (0..).take_while(|_| sender.send(b"line\n").is_ok()).count());
            let mut client = client;
            let (got, _) = client.read_until_disconnect();
            ensure!(got.chunks(5).all(|line| line == b"line\n"), "a torn reply");
            let sent = sent.join().map_err(|_| anyhow::anyhow!("a panic"))?;
            ensure!(got.len() / 5 <= sent, "{} replies to {sent} lines", got.len() / 5);
            Ok(())
        })
    });
}
