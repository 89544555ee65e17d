//! Deferred replies, which another thread gives.

use std::{
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use crate::eventually;
use anyhow::ensure;

use super::case::{PLAIN, Setup, ask};

pub fn deferred_replies_keep_their_order() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"a 300\nb\nc 100\nd\ne 200 big\nf 0\ng\n")?;
        let big = "x".repeat(100_000);
        client.expect(format!("a\nb\nc\nd\ne\n{big}f\ng\n").as_bytes())
    });
}

/// 60 promises of 500 ms in a row would take 30 s.
pub fn waits_for_deferred_replies_overlap() {
    PLAIN.check_server(|server, _| {
        let begin = Instant::now();
        let mut client = server.connect()?;
        // One after the other they would take two minutes, and the client gives up long before.
        client.send(&b"w 2000\n".repeat(60))?;
        client.half_close()?;
        client.expect_all(&b"w\n".repeat(60))?;
        let took = begin.elapsed();
        ensure!(took >= Duration::from_secs(2), "a promise was kept early, after {took:?}");
        Ok(())
    });
}

pub fn a_request_after_a_pending_promise_waits_for_it() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        for _ in 0..5 {
            client.send(b"A 60\n")?;
            thread::sleep(Duration::from_millis(20));
            client.send(b"B 0\nC\n")?;
            client.expect(b"A\nB\nC\n")?;
        }
        Ok(())
    });
}

/// The first hold has output before it; the last one has none before or after it.
pub fn input_held_for_an_empty_reply_is_read_afterwards() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"a\nh 60 hold\nb\nh 0 hold\nc\n")?;
        client.expect(b"a\nb\nc\n")?;
        client.send(b"h 60 hold\nd\n")?;
        client.expect(b"d\n")?;
        client.send(b"h 60 hold\ne\n")?;
        client.half_close()?;
        client.expect_all(b"e\n")
    });
}

pub fn a_half_close_waits_for_pending_promises() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"h 100\ni 50\nj\n")?;
        client.half_close()?;
        client.expect_all(b"h\ni\nj\n")
    });
}

pub fn a_dropped_promise_closes_after_what_came_before_it() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"k\nl 80\nm 10 drop\nn\n")?;
        client.expect_all(b"k\nl\n")?;
        let mut client = server.connect()?;
        client.send(b"first 0 drop\n")?;
        client.expect_end()
    });
}

/// A reply for a connection that has closed never reaches the next connection in its slot.
pub fn disconnects_with_pending_promises_disturb_nobody() {
    // A worker for each connection, so that no idle one is closed for those that wait.
    let setup = Setup { args: &["--workers", "96"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut stayer = server.connect()?;
        for round in 0..30 {
            for reset in [false, true] {
                let mut leaver = server.connect()?;
                leaver.send(&b"z 20 big\n".repeat(3))?;
                if reset {
                    leaver.reset()?;
                }
            }
            let mut next = server.connect()?;
            next.send(b"q 5\nq 30\nr\n")?;
            ask(&mut stayer, &format!("stay-{round}"))?;
            next.expect(b"q\nq\nr\n")?;
        }
        Ok(())
    });
}

/// Descriptors are closed although the replies have no reader any more.
pub fn disconnects_with_pending_promises_leak_nothing() {
    PLAIN.check_server(|server, _| {
        let process = server.process();
        ask(&mut server.connect()?, "warm")?;
        for _ in 0..100 {
            let mut leaver = server.connect()?;
            leaver.send(b"z 300 big\n")?;
            leaver.reset()?;
        }
        eventually("few descriptors are open", || Ok(process.descriptors()? < 60))
    });
}

pub fn more_replies_than_the_outbox_holds_can_be_deferred() {
    PLAIN.check_server(|server, _| {
        let requests: String = (0..400).map(|i| format!("{i} {}\n", i * 7919 % 3)).collect();
        let replies: String = (0..400).map(|i| format!("{i}\n")).collect();
        let mut client = server.connect()?;
        client.send(requests.as_bytes())?;
        client.half_close()?;
        client.expect_all(replies.as_bytes())
    });
}

/// Replies after a pending promise count as output: reading pauses, and all of them are sent in the end. With several
/// such connections the kernel gives up waiting for their sockets (EAGAIN from a ring).
pub fn large_replies_after_a_pending_promise_are_all_sent() {
    PLAIN.check_server(|server, _| {
        let reply = format!("b\n{}", "x".repeat(100_000));
        let replies = format!("slow\n{}", reply.repeat(50));
        let one = || -> anyhow::Result<()> {
            let mut client = server.connect()?;
            client.send(b"slow 200\n")?;
            client.send(&b"b 0 big\n".repeat(50))?;
            client.half_close()?;
            client.expect_all(replies.as_bytes())
        };
        for _ in 0..3 {
            thread::scope(|scope| {
                let peers: Vec<_> = (0..5).map(|_| scope.spawn(one)).collect();
                peers.into_iter().try_for_each(|peer| peer.join().unwrap_or_else(|panic| resume_unwind(panic)))
            })?;
        }
        Ok(())
    });
}
