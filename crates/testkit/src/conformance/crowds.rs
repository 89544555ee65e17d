//! Many connections: resets, idle connections, more than the limit.

use std::{collections::HashSet, time::Duration};

use crate::{Client, ConnectionModel, DefaultWorkers, ResourceCounts, eventually};
use anyhow::{Context, ensure};

use super::case::{Counts, PLAIN, Setup, ask, is_admitted, probe};

pub fn resets_during_transfers_leak_nothing() {
    let setup = Setup { content_bytes: 8 << 20, parallel: 2, ..PLAIN };
    setup.check_server(|server, _| {
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

/// Drivers hold thousands of connections, even with a thread for each; on `pool` they take turns. All of them are
/// answered. Only `pool` closes idle ones, while others wait.
pub fn thousands_of_idle_connections_block_nobody() {
    const COUNT: usize = 5_000;
    let setup = Setup { threads: &[2], parallel: 1, ..PLAIN };
    setup.check_server(|server, case| {
        let mut idle = Vec::new();
        for i in 0..COUNT {
            let mut client = server.connect().with_context(|| format!("connection {i}"))?;
            client.send(b"here\n")?;
            idle.push(client);
        }
        if case.driver.descriptor().connection == ConnectionModel::Worker {
            for (i, client) in idle.iter_mut().enumerate() {
                client.expect(b"here\n").with_context(|| format!("connection {i}"))?;
            }
            return probe(server).context("the probe");
        }
        probe(server).context("the probe")?;
        for (i, client) in idle.iter_mut().enumerate() {
            client.expect(b"here\n").with_context(|| format!("connection {i}"))?;
        }
        ensure!(server.process().descriptors()? >= COUNT, "not all connections are open");
        let each = server.process().resident_bytes()? / COUNT as u64;
        eprintln!("{}: {each} bytes of resident memory for each of {COUNT} idle connections", case.driver);
        for (i, client) in idle.iter_mut().enumerate().step_by(97) {
            ask(client, "again").with_context(|| format!("connection {i}, again"))?;
        }
        Ok(())
    });
}

/// Connections that never send anything are held, or closed once others need their place. Nobody hangs, every request is
/// answered, and every connection is counted once.
pub fn thousands_of_silent_connections_block_nobody() {
    const COUNT: usize = 5_000;
    let setup = Setup { threads: &[2], parallel: 1, has_metrics: true, ..PLAIN };
    setup.check_server(|server, case| {
        let connect = |i| server.connect().with_context(|| format!("connection {i}"));
        let mut held = (0..COUNT).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut probes, mut refused) = (0, 0);
        eventually("the probe is answered", || {
            probes += 1;
            let answered = is_admitted(server)?;
            refused += usize::from(!answered);
            Ok(answered)
        })?;
        refused += drop_closed(&mut held)?;
        let holds_all = case.driver.descriptor().connection != ConnectionModel::Worker;
        ensure!(!holds_all || held.len() == COUNT, "{} of {COUNT} are held", held.len());
        ensure!(refused == 0, "{refused} are refused");
        let accepted = COUNT + probes - refused;
        eventually("connections are counted right", || {
            // The held connections may change: `pool` goes on closing idle ones for those that wait.
            ensure!(drop_closed(&mut held)? == 0, "refused late");
            let wanted = Counts { accepted, refused, open: held.len() };
            Ok(case.counts().is_ok_and(|counts| counts == wanted))
        })
        .with_context(|| format!("{:?}; {accepted} accepted, {refused} refused, {} held", case.counts(), held.len()))?;
        drop(held);
        eventually("they have left", || Ok(case.counts()?.open == 0))
    });
}

/// Drops the connections that have ended, and returns the number of those that were refused.
fn drop_closed(clients: &mut Vec<Client>) -> anyhow::Result<usize> {
    let (mut held, mut refused) = (Vec::new(), 0);
    for (i, mut client) in clients.drain(..).enumerate() {
        let mut said = [0; 64];
        match client.try_read(&mut said).with_context(|| format!("connection {i}"))? {
            None => held.push(client),
            Some(0) => {}
            Some(n) => {
                ensure!(&said[..n] == b"full\n", "connection {i} got {:?}", said[..n].escape_ascii().to_string());
                client.expect_end().with_context(|| format!("connection {i}, refused"))?;
                refused += 1;
            }
        }
    }
    *clients = held;
    Ok(refused)
}

/// Many more connections than workers: all of them stay open and are answered again and again, and it is said how many
/// wait.
pub fn connections_take_turns_when_workers_are_few() {
    const COUNT: usize = 300;
    let setup = Setup { args: &["--workers", "2"], has_metrics: true, parallel: 7, ..PLAIN };
    setup.check_server(|server, case| {
        // Each asks at once: one that says nothing for a second gives its place up.
        let connect = |_| {
            let mut client = server.connect()?;
            client.send(b"first\n")?;
            anyhow::Ok(client)
        };
        let mut clients = (0..COUNT).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        clients.iter_mut().try_for_each(|client| client.expect(b"first\n"))?;
        for round in 0..20 {
            let line = format!("round-{round}\n");
            clients.iter_mut().try_for_each(|client| client.send(line.as_bytes()))?;
            for (i, client) in clients.iter_mut().enumerate() {
                client.expect(line.as_bytes()).with_context(|| format!("connection {i}, round {round}"))?;
            }
            if round == 10 {
                case.expect_counts(Counts { accepted: COUNT, refused: 0, open: COUNT })?;
                let waiting = case.metric("connections_waiting")?;
                let has_workers = case.driver.descriptor().connection == ConnectionModel::Worker;
                ensure!(waiting == if has_workers { COUNT - 2 } else { 0 }, "{waiting} wait");
                ensure!(!has_workers || server.stderr().contains("connections wait for one of 2 workers"));
            }
        }
        Ok(())
    });
}

/// Requests that arrive slowly take no worker from others, however many they are.
pub fn half_a_request_holds_nobody_up() {
    for (workers, count) in [("1", 1), ("8", 64), ("8", 500)] {
        let args = Vec::leak(vec!["--workers", workers, "--request-timeout", "300s"]);
        let setup = Setup { args, parallel: if count > 64 { 4 } else { 14 }, ..PLAIN };
        setup.check_server(|server, _| {
            let mut slow = (0..count).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
            slow.iter_mut().try_for_each(|client| client.send(b"ha"))?;
            for _ in 0..3 {
                probe(server).context("another connection")?;
                slow.iter_mut().try_for_each(|client| client.send(b"a"))?;
            }
            slow.iter_mut().try_for_each(|client| client.send(b"lf\n"))?;
            slow.iter_mut().try_for_each(|client| client.expect(b"haaaalf\n"))
        });
    }
}

/// Clients that are slow to send are not closed as silent although many wait: `pool` with one worker serves them all.
pub fn a_client_that_hesitates_in_a_crowd_is_served() {
    let setup = Setup { args: &["--workers", "1"], parallel: 7, ..PLAIN };
    setup.check_server(|server, _| {
        let mut crowd = (0..100).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        std::thread::sleep(Duration::from_millis(200)); // A fifth of the time that `pool` waits for a silent client.
        for client in &mut crowd {
            client.send_and_half_close(b"here\n")?;
        }
        let served =
            |(i, client): (usize, &mut Client)| client.expect_all(b"here\n").with_context(|| format!("client {i}"));
        crowd.iter_mut().enumerate().try_for_each(served)
    });
}

pub fn connections_above_the_limit_are_refused_until_some_leave() {
    let setup = Setup { args: &["--max-connections", "4"], ..PLAIN };
    setup.check_server(|server, _| {
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
            eventually("there is room again", || is_admitted(server))?;
            // The connection of that check must be gone before all four places are needed.
            eventually("the probe has left", || {
                let clients = (0..4).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
                Ok(clients.into_iter().all(|mut client| ask(&mut client, "in").is_ok()))
            })?;
            eventually("all have left", || Ok(has_four_places(server)))?;
        }
        // Not each of them, and with what would help.
        let said = server.stderr().matches("connections are refused: 4 are open; raise --max-connections").count();
        ensure!((1..=8).contains(&said), "it said so {said} times:\n{}", server.stderr());
        Ok(())
    });
}

/// Returns true if four connections fit in, so that no other is left.
fn has_four_places(server: &crate::Server) -> bool {
    std::thread::sleep(Duration::from_millis(50));
    let mut clients: Vec<_> = (0..4).filter_map(|_| server.connect().ok()).collect();
    let all = clients.iter_mut().all(|client| ask(client, "in").is_ok());
    drop(clients);
    std::thread::sleep(Duration::from_millis(300));
    all
}

/// A connection that is reset before it is accepted is no error of the listener.
pub fn resets_before_accept_disturb_nobody() {
    PLAIN.check_server(|server, _| {
        server.process().pause()?;
        for _ in 0..200 {
            Client::connect(server.address())?.reset()?;
        }
        server.process().resume()?;
        probe(server)
    });
}

/// With several loops the kernel distributes the connections, and each loop serves its own.
pub fn several_threads_share_the_connections() {
    let setup = Setup { threads: &[2], ..PLAIN };
    setup.check_server(|server, case| {
        // Fewer than the workers of `pool`, which would otherwise close idle connections.
        let mut clients = (0..50).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        let mut threads = HashSet::new();
        for (i, client) in clients.iter_mut().enumerate() {
            client.send(b"thread\n")?;
            client.half_close()?;
            threads.insert(client.read_to_end().with_context(|| format!("connection {i}"))?);
        }
        let facts = case.driver.descriptor();
        let is_distributed = facts.listener_per_thread && facts.default_workers == DefaultWorkers::None;
        ensure!(!is_distributed || threads.len() == 2, "{} threads served 50 connections", threads.len());
        Ok(())
    });
}
