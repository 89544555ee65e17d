//! Replies that another thread gives.

use std::{
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use testkit::eventually;

use crate::case::{PLAIN, Setup, ask};

#[test]
fn deferred_replies_keep_their_order() {
    PLAIN.serve(|server, _| {
        let mut client = server.connect()?;
        client.send(b"a 300\nb\nc 100\nd\ne 200 big\nf 0\ng\n")?;
        let big = "x".repeat(100_000);
        client.expect(format!("a\nb\nc\nd\ne\n{big}f\ng\n").as_bytes())
    });
}

/// 60 promises of 500 ms in a row would take 30 s.
#[test]
fn waits_for_deferred_replies_overlap() {
    PLAIN.serve(|server, _| {
        let begin = Instant::now();
        let mut client = server.connect()?;
        client.send(&b"w 500\n".repeat(60))?;
        client.half_close()?;
        client.expect_all(&b"w\n".repeat(60))?;
        let took = begin.elapsed();
        ensure!(took >= Duration::from_millis(500), "a promise was kept early, after {took:?}");
        ensure!(took < Duration::from_secs(20), "one after the other: {took:?}");
        Ok(())
    });
}

#[test]
fn a_request_behind_an_open_promise_waits_for_its_turn() {
    PLAIN.serve(|server, _| {
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

/// The first hold has output before it, the last one has nothing around it at all.
#[test]
fn input_held_for_an_empty_answer_is_looked_at_again() {
    PLAIN.serve(|server, _| {
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

#[test]
fn a_half_close_waits_for_open_promises() {
    PLAIN.serve(|server, _| {
        let mut client = server.connect()?;
        client.send(b"h 100\ni 50\nj\n")?;
        client.half_close()?;
        client.expect_all(b"h\ni\nj\n")
    });
}

#[test]
fn a_dropped_promise_closes_after_what_came_before_it() {
    PLAIN.serve(|server, _| {
        let mut client = server.connect()?;
        client.send(b"k\nl 80\nm 10 drop\nn\n")?;
        client.expect_all(b"k\nl\n")?;
        let mut client = server.connect()?;
        client.send(b"first 0 drop\n")?;
        client.expect_end()
    });
}

/// Pitfall 4: what was meant for a peer that has left never meets the next one in its slot.
#[test]
fn peers_that_left_while_promises_were_open_disturb_nobody() {
    // A worker for everybody: nobody idle has to make way for those who wait for one.
    let setup = Setup { args: &["--workers", "96"], ..PLAIN };
    setup.serve(|server, _| {
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

/// Descriptors come back although nobody waits for the answers any more.
#[test]
fn peers_that_left_while_promises_were_open_leave_nothing_behind() {
    PLAIN.serve(|server, _| {
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

#[test]
fn more_deferred_replies_than_the_outbox_holds() {
    PLAIN.serve(|server, _| {
        let requests: String = (0..400).map(|i| format!("{i} {}\n", i * 7919 % 3)).collect();
        let replies: String = (0..400).map(|i| format!("{i}\n")).collect();
        let mut client = server.connect()?;
        client.send(requests.as_bytes())?;
        client.half_close()?;
        client.expect_all(replies.as_bytes())
    });
}

/// Answers that wait behind an open promise count as output: the peer is held back, and served in the end. Several such
/// peers at once make the kernel tired of waiting for their sockets (EAGAIN from a ring).
#[test]
fn large_answers_behind_an_open_promise_are_all_sent() {
    PLAIN.serve(|server, _| {
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
