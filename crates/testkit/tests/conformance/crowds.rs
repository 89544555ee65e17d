//! Many connections: resets, idle ones, more than are allowed.

use std::{collections::HashSet, time::Duration};

use anyhow::{Context, ensure};
use testkit::{Client, DriverKind, Holdings, eventually};

use crate::bench::{PLAIN, Setup, ask, probe};

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
        let before = process.settled_holdings()?;
        round(500)?;
        // Scratch pipes are kept for reuse, up to a limit; a leak would be in the hundreds.
        process.is_back_at(before, Holdings { descriptors: 16, threads: 4 })
    });
}

/// Drivers that need no thread per connection hold thousands; a thread per connection holds them, too; `pool` makes
/// idle ones give way. All of them answer.
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
        probe(server).context("the probe")?;
        let holds = bench.driver != DriverKind::Pool;
        for (i, client) in idle.iter_mut().enumerate().filter(|(i, _)| holds || i % 500 == 0) {
            client.expect(b"here\n").with_context(|| format!("connection {i}"))?;
        }
        if holds {
            ensure!(server.process().descriptors()? >= COUNT, "not all connections are open");
            let each = server.process().resident_bytes()? / COUNT as u64;
            eprintln!("{}: {each} bytes of resident memory for each of {COUNT} idle connections", bench.driver);
            for (i, client) in idle.iter_mut().enumerate().step_by(97) {
                ask(client, "again").with_context(|| format!("connection {i}, again"))?;
            }
        }
        Ok(())
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
            eventually("there is room again", || {
                let mut client = server.connect()?;
                // Refused or not, this may be reset by a refusal that nobody reads.
                Ok(client.send(b"room\n").is_ok() && client.take(5).is_ok_and(|got| got == b"room\n"))
            })?;
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
        server.process().go_on()?;
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
            client.end()?;
            threads.insert(client.read_to_end().with_context(|| format!("connection {i}"))?);
        }
        let dealt_out = matches!(bench.driver, DriverKind::Epoll | DriverKind::TokioUring | DriverKind::Uring);
        ensure!(!dealt_out || threads.len() == 2, "{} threads served 50 connections", threads.len());
        Ok(())
    });
}
