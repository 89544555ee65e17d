//! Deadlines. Nothing here asserts that anything happened soon: only that it happened, and not before its time.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use testkit::Client;

use crate::case::{PLAIN, Setup, ask, probe};

const IDLE: Setup = Setup { args: &["--idle-timeout", "700ms"], content_bytes: 4 << 20, ..PLAIN };

#[test]
fn an_idle_connection_is_closed_and_activity_postpones_that() {
    IDLE.serve(|server, _| {
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

#[test]
fn a_slow_reader_is_not_idle() {
    IDLE.serve(|server, bench| {
        for kind in ["shared", "file"] {
            let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
            let line = format!("{kind} {}\n", 4 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            let (first, rest) = bench.content.bytes().split_at(8 * 64 * 1024);
            for chunk in first.chunks(64 * 1024) {
                thread::sleep(Duration::from_millis(150));
                client.expect(chunk)?;
            }
            client.expect(rest)?;
        }
        Ok(())
    });
}

/// A promise that is kept late is no idleness either.
#[test]
fn an_open_promise_is_not_idle() {
    IDLE.serve(|server, _| {
        let mut client = server.connect()?;
        client.send(b"late 1500\n")?;
        client.expect(b"late\n")
    });
}

/// Nor is it the peer that stalls while an answer is owed.
#[test]
fn a_promise_may_take_longer_than_the_stall_limit() {
    let setup = Setup { args: &["--stall-timeout", "500ms"], ..PLAIN };
    setup.serve(|server, _| {
        let mut client = server.connect()?;
        client.send(b"late 1800\nnext\n")?;
        client.expect(b"late\nnext\n")?;
        client.send(b"h 1800 hold\nafter\n")?;
        client.expect(b"after\n")
    });
}

/// Nor is a peer who could not be served because the server itself stood still, past the promise and the limit.
#[test]
fn a_promise_kept_while_the_server_stood_still_is_sent() {
    let setup = Setup { args: &["--stall-timeout", "400ms"], ..PLAIN };
    setup.serve(|server, _| {
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

#[test]
fn a_request_that_does_not_end_in_time_is_told_so() {
    let setup = Setup { args: &["--request-timeout", "600ms"], ..PLAIN };
    setup.serve(|server, _| {
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

/// Pitfall 16: progress is seen even where one send is large, and its absence ends the connection.
#[test]
fn a_reader_that_stalls_is_cut_off() {
    let setup = Setup { args: &["--stall-timeout", "700ms"], content_bytes: 8 << 20, ..PLAIN };
    setup.serve(|server, _| {
        let process = server.process();
        probe(server)?; // Now it has opened all that it needs for itself.
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
        testkit::eventually("their descriptors are closed", || Ok(process.descriptors()? <= before))?;
        for mut client in stalled {
            let (got, _) = client.read_until_disconnect();
            ensure!(got.len() < 8 << 20, "got it all without reading");
        }
        Ok(())
    });
}

/// One that reads a little now and then is not: that is what the limit is for.
#[test]
fn a_reader_that_is_only_slow_is_not_cut_off() {
    let setup = Setup { args: &["--stall-timeout", "1500ms"], content_bytes: 2 << 20, ..PLAIN };
    setup.serve(|server, bench| {
        for kind in ["shared", "file", "mapped"] {
            let mut client = Client::connect_with_buffer(server.address(), 64 << 10)?;
            let line = format!("{kind} {}\n", 2 << 20);
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            for chunk in bench.content.bytes().chunks(256 << 10) {
                thread::sleep(Duration::from_millis(400));
                client.expect(chunk)?;
            }
        }
        probe(server)
    });
}
