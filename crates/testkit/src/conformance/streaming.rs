//! Replies that are made piece by piece, as the peer takes them, and the end of input that such a protocol is told.

use std::{thread, time::Duration};

use crate::{Client, ConnectionModel, Server, eventually};
use anyhow::ensure;

use super::case::{Driver, PLAIN, Setup, ask};

const LEN: usize = 6 << 20;
/// Less output than a streamed reply has may be held at a time.
const STREAMS: Setup = Setup { args: &["--streams", "--max-output-buffer", "600KiB"], ..PLAIN };

/// Returns the reply to `stream LEN`.
fn streamed(len: usize) -> Vec<u8> {
    let mut reply = format!("stream {len}\n").into_bytes();
    reply.extend((0..len).map(|at| b'a' + (at / 4096 % 26) as u8));
    reply
}

fn connect_slowly(server: &Server) -> anyhow::Result<Client> {
    Ok(Client::connect_with_buffer(server.address(), 16 << 10)?)
}

pub fn a_streamed_reply_is_made_as_there_is_room() {
    STREAMS.check_server(|server, _| {
        let mut client = server.connect()?;
        for len in [1, 4_096, 262_144, 300_000, LEN, 5] {
            client.send(format!("stream {len}\n").as_bytes())?;
            client.expect(&streamed(len))?;
        }
        Ok(())
    });
}

pub fn streamed_replies_keep_their_place_among_others() {
    // Deferred replies that are ready early are held, all of them.
    let setup = Setup { args: &["--streams"], ..PLAIN };
    setup.check_server(|server, _| {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for i in 0..40 {
            let len = i * 40_009 % 900_000;
            requests.extend(format!("a{i}\nb{i} 5\nstream {len}\nc{i} 3 big\nd{i} 2\n").bytes());
            replies.extend(format!("a{i}\nb{i}\n").bytes());
            replies.extend(streamed(len));
            replies.extend(format!("c{i}\n{}d{i}\n", "x".repeat(100_000)).bytes());
        }
        for buffer_bytes in [16 << 10, 1 << 20] {
            let mut client = Client::connect_with_buffer(server.address(), buffer_bytes)?;
            client.send(&requests)?;
            client.half_close()?;
            client.expect_all(&replies)?;
        }
        Ok(())
    });
}

pub fn a_slow_reader_gets_all_of_a_stream() {
    STREAMS.check_server(|server, _| {
        let mut client = connect_slowly(server)?;
        client.send(format!("stream {LEN}\n").as_bytes())?;
        for piece in streamed(LEN).chunks(64 << 10) {
            client.expect(piece)?;
            thread::sleep(Duration::from_millis(2));
        }
        ask(&mut client, "after")
    });
}

pub fn a_half_close_waits_for_the_whole_stream() {
    STREAMS.check_server(|server, _| {
        for pause in [0, 100] {
            let mut client = connect_slowly(server)?;
            client.send_and_half_close(format!("stream {LEN}\n").as_bytes())?;
            thread::sleep(Duration::from_millis(pause));
            client.expect_all(&streamed(LEN))?;
        }
        Ok(())
    });
}

pub fn a_drain_waits_for_the_whole_stream() {
    STREAMS.check(|case| {
        let mut server = case.start()?;
        let mut client = connect_slowly(&server)?;
        client.send(format!("stream {LEN}\n").as_bytes())?;
        client.expect(&streamed(LEN)[..100_000])?;
        server.terminate()?;
        thread::sleep(Duration::from_millis(50));
        client.expect_all(&streamed(LEN)[100_000..])?;
        let status = server.wait()?;
        ensure!(status.success(), "{status}: {}", server.stderr());
        Ok(())
    });
}

/// The reply that is under way at the greatest age is the last, and is complete.
pub fn a_stream_past_the_greatest_age_is_completed() {
    let setup = Setup { args: &["--streams", "--max-connection-age", "300ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = connect_slowly(server)?;
        client.send(format!("stream {LEN}\n").as_bytes())?;
        client.expect(&streamed(LEN)[..100_000])?;
        thread::sleep(Duration::from_millis(500));
        client.expect_all(&streamed(LEN)[100_000..])
    });
}

/// A peer that takes nothing of a stream is cut off like any other.
pub fn a_stream_that_nobody_takes_ends_the_connection() {
    let setup = Setup { args: &["--streams", "--stall-timeout", "700ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = connect_slowly(server)?;
        client.send(format!("stream {}\n", 100 * LEN).as_bytes())?;
        client.expect(b"stream")?;
        eventually("the connection is closed", || Ok(client.is_cut_off()?))?;
        let (got, _) = client.read_until_disconnect();
        ensure!(got.len() < 100 * LEN, "{} bytes", got.len());
        Ok(())
    });
}

/// The last word follows every reply, those that waited for room or for a promise included.
pub fn the_end_of_input_is_told_once_and_answered_last() {
    STREAMS.check_server(|server, _| {
        for (requests, replies) in [
            (String::new(), Vec::new()),
            ("a\n".to_owned(), b"a\n".to_vec()),
            ("a 60\n".to_owned(), b"a\n".to_vec()),
            ("torn".to_owned(), Vec::new()),
            (format!("stream {LEN}\n"), streamed(LEN)),
        ] {
            let mut client = connect_slowly(server)?;
            client.send(b"farewell\n")?;
            ask(&mut client, "in")?;
            client.send_and_half_close(requests.as_bytes())?;
            client.expect_all(&[&replies[..], b"farewell\n"].concat())?;
        }
        Ok(())
    });
}

pub fn a_drain_is_the_end_of_input_of_idle_connections() {
    STREAMS.check(|case| {
        let mut server = case.start()?;
        let mut client = server.connect()?;
        client.send(b"farewell\n")?;
        ask(&mut client, "in")?;
        server.terminate()?;
        client.expect_all(b"farewell\n")?;
        let status = server.wait()?;
        ensure!(status.success(), "{status}: {}", server.stderr());
        Ok(())
    });
}

/// A connection that has nothing to say gives its buffer to those that have: memory that each keeps would grow with them, and
/// have to be freed by a timer.
pub fn an_answered_connection_keeps_no_buffer() {
    const COUNT: u64 = 400;
    const BYTES: usize = 256 << 10;
    let lends = |driver: Driver| driver.descriptor().connection != ConnectionModel::Thread;
    let setup = Setup { args: &["--streams"], threads: &[1], drivers: lends, ..PLAIN };
    setup.check_server(|server, case| {
        let mut idle = Vec::new();
        let (mut first, mut most) = (None, 0);
        for _ in 0..COUNT {
            let mut client = server.connect()?;
            client.send(format!("stream {BYTES}\n").as_bytes())?;
            client.expect(&streamed(BYTES))?;
            idle.push(client);
            most = server.process().resident_bytes()?.max(most);
            first.get_or_insert(most);
        }
        let each = (most - first.unwrap_or_default()) / COUNT;
        eprintln!("{}: {each} bytes for each of {COUNT} connections", case.driver);
        ensure!(each < BYTES as u64 / 8, "{each} bytes are kept for each of {COUNT} connections");
        Ok(())
    });
}
