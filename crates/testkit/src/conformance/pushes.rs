//! Output that no request asked for, pushed by another thread.

use crate::{Client, Server, eventually};
use anyhow::{Context, ensure};

use super::case::{PLAIN, Setup, ask, probe};

/// Limit of what a connection does not take that no law here comes near to.
const AMPLE: usize = 64 << 20;
/// More than the kernel holds for a client that does not read, together with an outbox.
const TOO_MUCH: usize = 10 << 20;
/// A client with a small buffer must not be taken for one that stalls, however busy the machine is.
const PATIENT: Setup = Setup { args: &["--stall-timeout", "10min"], ..PLAIN };

/// Returns the lines that `publish COUNT LEN` pushes.
pub(crate) fn lines(count: usize, len: usize) -> Vec<u8> {
    (0..count).flat_map(|number| line(number, len)).collect()
}

fn line(number: usize, len: usize) -> Vec<u8> {
    let mut line = format!("push {number} ").into_bytes();
    line.resize(line.len().max(len - 1), b'.');
    line.push(b'\n');
    line
}

/// Connects a client that takes pushes.
fn subscriber(server: &Server, bytes_max: usize) -> anyhow::Result<Client> {
    let mut client = server.connect()?;
    ask(&mut client, &format!("subscribe {bytes_max}"))?;
    Ok(client)
}

/// Has lines pushed, and waits until they have been.
fn publish(server: &Server, count: usize, len: usize) -> anyhow::Result<usize> {
    let mut client = server.connect()?;
    client.send(format!("publish {count} {len}\n").as_bytes())?;
    let said = client.read_line()?;
    let taken = said.strip_prefix("published ").with_context(|| format!("it said {said}"))?;
    Ok(taken.parse()?)
}

pub fn an_idle_connection_gets_pushes_in_their_order() {
    PATIENT.check_server(|server, _| {
        let mut clients = [subscriber(server, AMPLE)?, subscriber(server, AMPLE)?, subscriber(server, AMPLE)?];
        for (count, len) in [(1, 20), (1_000, 20), (200, 3_000), (5, 300_000)] {
            let taken = publish(server, count, len)?;
            ensure!(taken == 3 * count, "{taken} pushes of {count} lines");
            for client in &mut clients {
                client.expect(&lines(count, len)).with_context(|| format!("{count} lines of {len} bytes"))?;
            }
        }
        clients.iter_mut().try_for_each(|client| ask(client, "after"))
    });
}

/// A push comes between two replies, deferred ones included, and never inside one.
pub fn pushes_stand_between_pipelined_replies() {
    PATIENT.check_server(|server, _| {
        let mut client = subscriber(server, AMPLE)?;
        let big = "x".repeat(100_000);
        let requests: String = (0..30).map(|i| format!("a{i}\nb{i} 1 big\nc{i} 2\nd{i}\n")).collect();
        let replies: Vec<String> = (0..30)
            .flat_map(|i| [format!("a{i}\n"), format!("b{i}\n{big}"), format!("c{i}\n"), format!("d{i}\n")])
            .collect();
        let (mut sender, mut publisher) = (client.try_clone()?, server.connect()?);
        publisher.send(b"publish 500 700\n")?;
        let sent = std::thread::spawn(move || sender.send(requests.as_bytes()));
        let got = client.take(replies.concat().len() + lines(500, 700).len())?;
        sent.join().expect("the sender")?;
        let (mut rest, mut pushed) = (&got[..], Vec::<u8>::new());
        for reply in replies.iter().map(String::as_bytes) {
            while rest.starts_with(b"push ") {
                pushed.extend_from_slice(rest.split_off(..line(0, 700).len()).context("the line is whole")?);
            }
            rest = rest.strip_prefix(reply).context("the replies are whole and in order")?;
        }
        pushed.extend_from_slice(rest);
        ensure!(pushed == lines(500, 700), "the pushes are whole and in order");
        publisher.expect(b"published 500\n")
    });
}

/// Everything that is pushed before a request comes before its reply.
pub fn a_reply_does_not_overtake_what_was_pushed_before() {
    PATIENT.check_server(|server, _| {
        let mut client = subscriber(server, AMPLE)?;
        for round in 0..10 {
            publish(server, 3, 40_000)?;
            client.send(format!("r{round}\n").as_bytes())?;
            client.expect(&lines(3, 40_000))?;
            client.expect(format!("r{round}\n").as_bytes())?;
        }
        Ok(())
    });
}

/// A connection may have itself pushed into, while it waits for that.
pub fn a_connection_can_publish_to_itself() {
    PATIENT.check_server(|server, _| {
        let mut client = subscriber(server, AMPLE)?;
        client.send(b"publish 500 100\nnext\n")?;
        let wanted = [&lines(500, 100)[..], b"published 500\nnext\n"].concat();
        let mut got = client.take(wanted.len())?;
        // Where the replies are among the lines depends on when the thread ran.
        for reply in [&b"published 500\n"[..], b"next\n"] {
            let at = got.windows(reply.len()).position(|window| window == reply).context("there is a reply")?;
            got.drain(at..at + reply.len());
        }
        ensure!(got == lines(500, 100), "the lines are whole and in order");
        Ok(())
    });
}

/// A peer that does not read is cut off once more than its limit waits for it. Others get everything.
pub fn a_subscriber_that_does_not_read_is_cut_off() {
    PATIENT.check_server(|server, _| {
        let mut idle = Client::connect_with_buffer(server.address(), 16 << 10)?;
        ask(&mut idle, "subscribe 1000000")?;
        let mut reader = subscriber(server, AMPLE)?;
        let count = TOO_MUCH / 50_000;
        let taken = publish(server, count, 50_000)?;
        ensure!((count..2 * count).contains(&taken), "{taken} of {count} lines were taken");
        eventually("it is cut off", || Ok(idle.is_cut_off()?))?;
        reader.expect(&lines(count, 50_000))?;
        ask(&mut reader, "after")?;
        ensure!(publish(server, 5, 10)? == 5, "nothing is pushed to it any more");
        reader.expect(&lines(5, 10))
    });
}

pub fn a_push_to_a_connection_that_has_gone_is_harmless() {
    PATIENT.check_server(|server, _| {
        for round in 0..10 {
            let client = subscriber(server, AMPLE)?;
            if round % 2 == 0 {
                client.reset()?
            } else {
                drop(client)
            }
            publish(server, 20, 1_000)?;
        }
        eventually("all are gone", || Ok(publish(server, 1, 10)? == 0))
    });
}

/// A peer that has closed its side is sent what was pushed before, and then the end.
pub fn a_half_close_ends_a_subscription() {
    PATIENT.check_server(|server, _| {
        let mut client = subscriber(server, AMPLE)?;
        publish(server, 20, 30_000)?;
        client.half_close()?;
        client.expect_all(&lines(20, 30_000))?;
        eventually("it is gone", || Ok(publish(server, 1, 10)? == 0))
    });
}

/// Everything that has been pushed by then is sent, even to a slow reader.
pub fn a_drain_sends_what_has_been_pushed() {
    PATIENT.check(|case| {
        let mut server = case.start()?;
        let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
        ask(&mut client, &format!("subscribe {AMPLE}"))?;
        publish(&server, 200, 40_000)?;
        server.terminate()?;
        client.expect_all(&lines(200, 40_000))?;
        let status = server.wait()?;
        ensure!(status.success(), "{status}: {}", server.stderr());
        Ok(())
    });
}

/// Waiting for pushes is no idleness, if the protocol says so.
pub fn an_idle_subscriber_is_not_closed() {
    let setup = Setup { args: &["--idle-timeout", "200ms"], ..PLAIN };
    setup.check_server(|server, _| {
        let mut client = subscriber(server, AMPLE)?;
        for _ in 0..3 {
            let mut other = server.connect()?;
            ask(&mut other, "here")?;
            other.expect_disconnect()?;
        }
        publish(server, 3, 10)?;
        client.expect(&lines(3, 10))?;
        client.half_close()?;
        client.expect_end()
    });
}

/// More subscribers than the workers of a pool take turns, and none of them is closed for it.
pub fn subscribers_beyond_the_workers_are_served() {
    let setup = Setup { args: &["--workers", "2"], drivers: |driver| driver.name() == "pool", ..PLAIN };
    setup.check_server(|server, _| {
        let mut clients = (0..8).map(|_| subscriber(server, AMPLE)).collect::<anyhow::Result<Vec<_>>>()?;
        for round in 0..3 {
            publish(server, 10, 100)?;
            clients.iter_mut().try_for_each(|client| client.expect(&lines(10, 100)))?;
            probe(server).with_context(|| format!("round {round}"))?;
        }
        Ok(())
    });
}

/// A connection that closes says its last word, and what is pushed then is dropped.
pub fn a_close_ends_a_subscription() {
    PATIENT.check_server(|server, _| {
        for word in ["close", "linger", "ack"] {
            let mut client = subscriber(server, AMPLE)?;
            client.send(format!("{word}\n").as_bytes())?;
            publish(server, 10, 10)?;
            let got = client.read_to_end()?;
            let replied = format!("{word}\n").into_bytes();
            ensure!(got.windows(replied.len()).any(|window| window == replied), "it is told");
            drop(client);
            eventually("it is gone", || Ok(publish(server, 1, 10)? == 0))?;
        }
        Ok(())
    });
}
