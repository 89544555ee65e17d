//! Many requests at once, requests in pieces, and the end of the connection.

use std::{thread, time::Duration};

use crate::{Client, Server};
use anyhow::Context;

use super::case::{Case, PLAIN, Setup, ask};

/// Returns requests of every kind, the same for the same count, and their replies.
fn script(count: usize, server: &Case<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut lines, mut replies) = (Vec::new(), Vec::new());
    for i in 0..count {
        let id = format!("request-{i}-{}", "y".repeat(i * i % 300));
        let body = i * 977 % 9_000;
        match i % 7 {
            0 => lines.extend(format!("{id} {}\n", i % 5).bytes()),
            kind @ 1..=4 if server.setup.content_bytes > 0 => {
                let verb = ["", "shared", "file", "pipe", "mapped"][kind];
                let line = format!("{verb} {body}\n");
                lines.extend(line.bytes());
                replies.extend(line.bytes());
                replies.extend(&server.content.bytes()[..body]);
                continue;
            }
            _ => lines.extend(format!("{id}\n").bytes()),
        }
        replies.extend(format!("{id}\n").bytes());
    }
    (lines, replies)
}

/// Buffered pipelined requests are still answered after a half-close.
pub fn pipelined_requests_are_all_answered_after_a_half_close() {
    PLAIN.check_server(|server, _| {
        let requests: Vec<u8> = (0..20_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        let mut client = server.connect()?;
        client.send(&requests)?;
        client.half_close()?;
        client.expect_all(&requests)
    });
}

/// A client that sends much without reading meets back-pressure, not a deadlock.
pub fn a_client_that_sends_much_before_reading_gets_all_replies() {
    PLAIN.check_server(|server, _| {
        let line = format!("{}\n", "z".repeat(5_000));
        let requests = line.repeat(1_600).into_bytes();
        let mut client = server.connect()?;
        let mut sender = client.try_clone()?;
        thread::scope(|scope| {
            let sending = scope.spawn(|| sender.send(&requests).and_then(|()| sender.half_close()));
            thread::sleep(Duration::from_millis(300)); // Long enough for every buffer on the way to be full.
            client.expect_all(&requests)?;
            sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
}

/// The stream of replies is the same however the input is torn and however slowly the output is read.
pub fn torn_requests_and_trickled_replies_are_the_same_stream() {
    let setup = Setup { content_bytes: 10_000, ..PLAIN };
    setup.check_server(|server, case| {
        let (requests, replies) = script(400, case);
        for (seed, cut_max, read_max) in [(1, 7, 100), (2, 60, 5_000), (3, 3_000, 11), (4, 40_000, 70_000)] {
            let requests = if cut_max < 10 { script(60, case) } else { (requests.clone(), replies.clone()) };
            tear(server, &requests.0, &requests.1, seed, cut_max, read_max)?;
        }
        Ok(())
    });
}

fn tear(
    server: &Server,
    requests: &[u8],
    replies: &[u8],
    seed: u64,
    cut_max: usize,
    read_max: usize,
) -> anyhow::Result<()> {
    let mut random = Random(seed);
    let mut client = server.connect()?;
    let mut sender = client.try_clone()?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let (mut rest, mut random) = (requests, Random(seed + 100));
            while !rest.is_empty() {
                let n = random.up_to(cut_max).min(rest.len());
                sender.send(&rest[..n])?;
                rest = &rest[n..];
                if random.up_to(8) == 1 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
            sender.half_close()
        });
        let mut got = Vec::new();
        let mut buffer = vec![0; read_max];
        loop {
            let n = client.read(&mut buffer[..random.up_to(read_max)])?;
            if n == 0 {
                break;
            }
            got.extend_from_slice(&buffer[..n]);
        }
        anyhow::ensure!(got == replies, "seed {seed}: got {} bytes of {}", got.len(), replies.len());
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct Random(u64);

impl Random {
    /// Returns a number from 1 to `max` (xorshift64).
    fn up_to(&mut self, max: usize) -> usize {
        self.0 = self.0.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + self.0 as usize % max
    }
}

/// The end of input that arrives with the last bytes is seen.
pub fn a_request_and_the_end_in_one_segment_are_both_seen() {
    PLAIN.check_server(|server, _| {
        for _ in 0..50 {
            let mut client = server.connect()?;
            client.send_and_half_close(b"last\n")?;
            client.expect_all(b"last\n")?;
        }
        Ok(())
    });
}

/// A half-close before a request and one within a request both end the connection.
pub fn a_half_close_without_a_whole_request_ends_the_connection() {
    PLAIN.check_server(|server, _| {
        for torn in [&b""[..], b"half a li"] {
            let mut client = server.connect()?;
            client.send_and_half_close(torn)?;
            client.expect_end()?;
        }
        Ok(())
    });
}

pub fn output_pending_at_a_half_close_is_still_sent() {
    let setup = Setup { content_bytes: 6_000_000, ..PLAIN };
    setup.check_server(|server, case| {
        for kind in ["shared", "file", "mapped"] {
            let mut client = server.connect()?;
            let line = format!("{kind} 6000000\n");
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?; // So it is on its way.
            client.half_close()?;
            client.expect_all(case.content.bytes())?;
        }
        Ok(())
    });
}

/// Bytes that arrive after a lingering close cause no reset, which would discard the last reply.
pub fn a_lingering_close_delivers_the_last_reply() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        let mut sender = client.try_clone()?;
        client.send(b"linger\n")?;
        for _ in 0..20 {
            let _ = sender.send(&[b'm'; 10_000]); // The server may have closed.
            thread::sleep(Duration::from_millis(2));
        }
        client.half_close()?;
        client.expect_all(b"linger\n")
    });
}

/// A client that goes on sending while the last reply is on its way gets all of it, and the end.
pub fn a_close_after_ack_is_not_overtaken_by_a_reset() {
    let setup = Setup { content_bytes: 2_000_000, ..PLAIN };
    setup.check_server(|server, case| {
        for len in [10, 50_000, 2_000_000] {
            for kind in ["shared", "file"] {
                let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
                let line = format!("{kind} {len}\n");
                client.send(format!("{line}ack\n").as_bytes())?;
                client.expect(line.as_bytes())?; // So it is on its way.
                for _ in 0..3 {
                    // The server may have closed once all was acknowledged.
                    let _ = client.send(&[b'm'; 1_000]);
                    thread::sleep(Duration::from_millis(2));
                }
                client.expect(&case.content.bytes()[..len]).with_context(|| line.clone())?;
                client.expect_all(b"ack\n").with_context(|| line)?;
            }
        }
        Ok(())
    });
}

/// A lingering close ends with the client's half-close, not with a timeout.
pub fn a_plain_close_and_a_lingering_one_end_the_connection() {
    PLAIN.check_server(|server, _| {
        let mut client = server.connect()?;
        client.send(b"one\nclose\nnever\n")?;
        client.expect_all(b"one\nclose\n")?;
        let mut client = server.connect()?;
        client.send(b"one\nlinger\nnever\n")?;
        client.expect_all(b"one\nlinger\n")
    });
}

pub fn a_request_that_never_ends_is_cut_off_at_the_limit() {
    let setup = Setup { args: &["--max-request-size", "100KB"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = server.connect()?;
        ask(&mut client, &"l".repeat(90_000))?;
        let mut sender = client.try_clone()?;
        thread::scope(|scope| {
            // The end may be an error of this send or of the read below; that depends on timing.
            scope.spawn(move || sender.send(&[b'n'; 3_000_000]).and_then(|()| sender.half_close()));
            client.expect_disconnect()
        })
    });
}

/// `on_ready` sees several connections where a driver can see them, and answers are the same everywhere.
pub fn batches_answer_every_connection() {
    let setup = Setup { args: &["--batch", "8"], content_bytes: 10_000, ..PLAIN };
    setup.check_server(|server, case| {
        let mut clients = (0..16).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        for client in &mut clients {
            ask(client, "here")?; // Now all are accepted.
        }
        let (requests, replies) = script(60, case);
        for _ in 0..5 {
            server.process().pause()?;
            for client in &mut clients {
                client.send(&requests)?;
            }
            server.process().resume()?;
            for client in &mut clients {
                client.expect(&replies)?;
            }
        }
        for client in &clients {
            client.half_close()?;
        }
        for client in &mut clients {
            client.expect_end()?;
        }
        let mut client = server.connect()?;
        client.send(b"largest-batch\n")?;
        client.half_close()?;
        let largest: usize = String::from_utf8(client.read_to_end()?)?.trim().parse()?;
        let batches = case.driver.descriptor().batches;
        anyhow::ensure!(largest <= 8, "a batch of {largest}");
        anyhow::ensure!(!batches || largest > 1, "the largest batch was {largest}");
        Ok(())
    });
}
