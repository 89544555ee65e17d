//! Many connections: resets, idle ones, more than are allowed.

use std::{collections::HashSet, io::ErrorKind, time::Duration};

use anyhow::{Context, ensure};
use testkit::{Client, ConnectionModel, DefaultWorkers, ResourceCounts, eventually};

use crate::case::{Counts, PLAIN, Setup, ask, finds_room, probe};

/// What `pool` has when nothing is said, and how many connections may wait for them.
const POOL_WORKERS: usize = 64;
const POOL_QUEUE: usize = 1_024;

#[test]
fn resets_in_mid_transfer_leave_nothing_behind() {
    let setup = Setup { content_bytes: 8 << 20, at_once: 2, ..PLAIN };
    setup.serve(|server, _| {
        let process = server.process();
        let lines: Vec<_> = [("file", 8 << 20), ("shared", 8 << 20), ("mapped", 8 << 20), ("pipe", 64 << 10)]
            .map(|(kind, len)| format!("{kind} {len}\n"))
            .into();
        let round = |count: usize| -> anyhow::Result<()> {
            for line in lines.iter().cycle().take(count) {
                let mut client = server.connect()?;
                client.send(line.repeat(3).as_bytes())?;
                client.expect(line.as_bytes())?;
                client.reset()?;
            }
            probe(server)
        };
        round(40)?; // Scratch pipes and worker threads exist now.
        let before = process.settled_resources()?;
        round(500)?;
        // Scratch pipes are kept for reuse, up to a limit; a leak would be in the hundreds.
        process.wait_until_released(before, ResourceCounts { descriptors: 16, threads: 4 })
    });
}

/// Drivers that need no thread per connection hold thousands; a thread per connection holds them, too; `pool` makes
/// idle ones give way, and turns away whom its queue has no room for. All of them answer.
#[test]
fn thousands_of_idle_connections_keep_nobody_from_being_served() {
    const COUNT: usize = 5_000;
    let setup = Setup { threads: &[2], at_once: 1, ..PLAIN };
    setup.serve(|server, bench| {
        let mut idle = Vec::new();
        for i in 0..COUNT {
            let mut client = server.connect().with_context(|| format!("connection {i}"))?;
            client.send(b"here\n")?;
            idle.push(client);
        }
        if bench.driver.descriptor().connection == ConnectionModel::Worker {
            for (i, client) in idle.iter_mut().enumerate() {
                is_answered_or_turned_away(client).with_context(|| format!("connection {i}"))?;
            }
            return eventually("the probe is answered", || finds_room(server));
        }
        probe(server).context("the probe")?;
        for (i, client) in idle.iter_mut().enumerate() {
            client.expect(b"here\n").with_context(|| format!("connection {i}"))?;
        }
        ensure!(server.process().descriptors()? >= COUNT, "not all connections are open");
        let each = server.process().resident_bytes()? / COUNT as u64;
        eprintln!("{}: {each} bytes of resident memory for each of {COUNT} idle connections", bench.driver);
        for (i, client) in idle.iter_mut().enumerate().step_by(97) {
            ask(client, "again").with_context(|| format!("connection {i}, again"))?;
        }
        Ok(())
    });
}

/// The reply; or, instead of it, the refusal, which a reset may overtake since the request was not read.
fn is_answered_or_turned_away(client: &mut Client) -> anyhow::Result<()> {
    let mut said = [0; 64];
    match client.read(&mut said) {
        Ok(n) => {
            ensure!([&b"here\n"[..], b"full\n"].contains(&&said[..n]), "got {:?}", said[..n].escape_ascii().to_string())
        }
        Err(error) => ensure!(error.kind() == ErrorKind::ConnectionReset, "{error}"),
    }
    Ok(())
}

/// Peers who never say anything are held, or turned away and told so, or closed once others need their place. Nobody
/// hangs, whoever does speak is answered, and every connection is counted once.
#[test]
fn thousands_of_silent_connections_keep_nobody_from_being_served() {
    const COUNT: usize = 5_000;
    let setup = Setup { threads: &[2], at_once: 1, metrics: true, ..PLAIN };
    setup.serve(|server, bench| {
        let connect = |i| server.connect().with_context(|| format!("connection {i}"));
        let mut held = (0..COUNT).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut probes, mut refused) = (0, 0);
        eventually("the probe is answered", || {
            probes += 1;
            let answered = finds_room(server)?;
            refused += usize::from(!answered);
            Ok(answered)
        })?;
        refused += leave_only_the_held(&mut held)?;
        if bench.driver.descriptor().connection == ConnectionModel::Worker {
            ensure!(held.len() <= POOL_WORKERS + POOL_QUEUE, "{} are held", held.len());
        } else {
            ensure!((held.len(), refused) == (COUNT, 0), "{} of {COUNT} are held, {refused} refused", held.len());
        }
        let accepted = COUNT + probes - refused;
        eventually("connections are counted right", || {
            // Those that are held may be on the move: `pool` goes on making them give way to each other.
            ensure!(leave_only_the_held(&mut held)? == 0, "turned away late");
            let wanted = Counts { accepted, refused, open: held.len() };
            Ok(bench.counts().is_ok_and(|counts| counts == wanted))
        })
        .with_context(|| format!("{:?}; {accepted} let in, {refused} refused, {} held", bench.counts(), held.len()))?;
        drop(held);
        eventually("they have left", || Ok(bench.counts()?.open == 0))
    });
}

/// Drops the connections that have ended; how many of them had been told that the server is full.
fn leave_only_the_held(clients: &mut Vec<Client>) -> anyhow::Result<usize> {
    let (mut held, mut refused) = (Vec::new(), 0);
    for (i, mut client) in clients.drain(..).enumerate() {
        let mut said = [0; 64];
        match client.try_read(&mut said).with_context(|| format!("connection {i}"))? {
            None => held.push(client),
            Some(0) => {}
            Some(n) => {
                ensure!(&said[..n] == b"full\n", "connection {i} got {:?}", said[..n].escape_ascii().to_string());
                client.expect_end().with_context(|| format!("connection {i}, turned away"))?;
                refused += 1;
            }
        }
    }
    *clients = held;
    Ok(refused)
}

/// Whoever finds the queue full is told so at once; who waits in it has a place, and is served in turn.
#[test]
fn a_full_queue_turns_newcomers_away_and_keeps_those_who_wait() {
    const NEWCOMERS: usize = 50;
    let args = &["--workers", "1", "--request-timeout", "300s"];
    let setup = Setup {
        args,
        threads: &[1],
        drivers: |driver| driver.descriptor().connection == ConnectionModel::Worker,
        metrics: true,
        ..PLAIN
    };
    setup.serve(|server, bench| {
        let mut busy = server.connect()?;
        ask(&mut busy, "in")?;
        busy.send(b"ha")?; // Holds the only worker: a request has begun.
        let mut waiting = (0..POOL_QUEUE).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        for i in 0..NEWCOMERS {
            server.connect()?.expect_all(b"full\n").with_context(|| format!("newcomer {i}"))?;
        }
        bench.comes_to_count(Counts { accepted: 1 + POOL_QUEUE, refused: NEWCOMERS, open: 1 + POOL_QUEUE })?;
        for client in [0, 1, POOL_QUEUE - 1] {
            waiting[client].send(b"here\n")?;
        }
        busy.send(b"lf\n")?;
        busy.expect(b"half\n")?;
        let (mut last, mut first) = (waiting.pop().context("the last")?, waiting.drain(..2).collect::<Vec<_>>());
        first.iter_mut().try_for_each(|client| client.expect(b"here\n")).context("the first in the queue")?;
        drop(waiting);
        last.expect(b"here\n").context("the last in the queue")?;
        drop((busy, first, last));
        bench.comes_to_count(Counts { accepted: 1 + POOL_QUEUE, refused: NEWCOMERS, open: 0 })
    });
}

/// Clients that are slow to speak are not taken for silent, though many wait: `pool` with one worker serves them all.
#[test]
fn a_client_that_hesitates_in_a_crowd_is_served() {
    let setup = Setup { args: &["--workers", "1"], at_once: 7, ..PLAIN };
    setup.serve(|server, _| {
        let mut crowd = (0..100).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        std::thread::sleep(Duration::from_millis(200)); // A fifth of the patience that `pool` has.
        for client in &mut crowd {
            client.send_and_half_close(b"here\n")?;
        }
        let served =
            |(i, client): (usize, &mut Client)| client.expect_all(b"here\n").with_context(|| format!("client {i}"));
        crowd.iter_mut().enumerate().try_for_each(served)
    });
}

#[test]
fn connections_above_the_limit_are_turned_away_and_there_is_room_again_later() {
    let setup = Setup { args: &["--max-connections", "4"], ..PLAIN };
    setup.serve(|server, _| {
        for _ in 0..3 {
            let mut inside = (0..4).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
            for client in &mut inside {
                ask(client, "in")?;
            }
            for _ in 0..10 {
                let mut outside = server.connect()?;
                outside.expect_all(b"full\n")?;
            }
            for client in &mut inside {
                ask(client, "still-in")?;
            }
            drop(inside);
            eventually("there is room again", || finds_room(server))?;
            // The one that found room must be seen to be gone before all four places are asked for.
            eventually("the probe has left", || {
                let clients = (0..4).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
                Ok(clients.into_iter().all(|mut client| ask(&mut client, "in").is_ok()))
            })?;
            eventually("all have left", || Ok(quiet(server)))?;
        }
        Ok(())
    });
}

/// Four at once fit in, so nobody else is inside.
fn quiet(server: &testkit::Server) -> bool {
    std::thread::sleep(Duration::from_millis(50));
    let mut clients: Vec<_> = (0..4).filter_map(|_| server.connect().ok()).collect();
    let all = clients.iter_mut().all(|client| ask(client, "in").is_ok());
    drop(clients);
    std::thread::sleep(Duration::from_millis(300));
    all
}

/// A peer that leaves before it is accepted is no error of the listener.
#[test]
fn connections_reset_before_they_are_accepted_disturb_nobody() {
    PLAIN.serve(|server, _| {
        server.process().pause()?;
        for _ in 0..200 {
            Client::connect(server.address())?.reset()?;
        }
        server.process().resume()?;
        probe(server)
    });
}

/// Pitfall 17 and 20: with several loops the kernel deals connections out, and every one of them is served.
#[test]
fn several_threads_share_the_connections() {
    let setup = Setup { threads: &[2], ..PLAIN };
    setup.serve(|server, bench| {
        // Fewer than `pool` has workers, or it would make idle ones give way.
        let mut clients = (0..50).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        let mut threads = HashSet::new();
        for (i, client) in clients.iter_mut().enumerate() {
            client.send(b"thread\n")?;
            client.half_close()?;
            threads.insert(client.read_to_end().with_context(|| format!("connection {i}"))?);
        }
        let facts = bench.driver.descriptor();
        let dealt_out = facts.listener_per_thread && facts.default_workers == DefaultWorkers::None;
        ensure!(!dealt_out || threads.len() == 2, "{} threads served 50 connections", threads.len());
        Ok(())
    });
}
