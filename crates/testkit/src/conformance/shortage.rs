//! Failing system calls: no descriptor left, no thread left, interruptions.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Client, ConnectionModel, Server, Wait, digest, eventually,
    strace::{strace, with_faults},
};
use anyhow::{Context, ensure};

use super::case::{Case, Counts, Driver, PLAIN, Setup, ask, probe};

const LIMIT: u32 = 64;

/// Sends requests until every thread has opened its own descriptors: the kernel distributes the connections.
fn warm_up(server: &Server) -> anyhow::Result<()> {
    (0..30).try_for_each(|_| probe(server))
}

/// A server that is out of descriptors uses no CPU time, and accepts again once there are some.
pub fn a_shortage_of_descriptors_neither_spins_nor_lasts() {
    let setup = Setup { args: &["--max-connections", "1000"], open_files: Some(LIMIT), parallel: 7, ..PLAIN };
    setup.check_server(|server, _| {
        let process = server.process();
        warm_up(server)?;
        let crowd: Vec<_> = (0..LIMIT * 2).map(|_| Client::connect(server.address())).collect::<Result<_, _>>()?;
        thread::sleep(Duration::from_millis(300));
        let (cpu, begin) = (process.cpu()?, Instant::now());
        thread::sleep(Duration::from_secs(1));
        let (cpu, span) = (process.cpu()? - cpu, begin.elapsed());
        ensure!(cpu < span / 10, "{cpu:?} of CPU time in {span:?} without anything to do");
        drop(crowd);
        eventually("it serves again", || Ok(Client::connect(server.address()).is_ok() && probe(server).is_ok()))?;
        let said = server.stderr().matches("connections are refused").count();
        ensure!(said >= 1, "it said nothing about the shortage");
        ensure!(said <= 4, "it said so {said} times:\n{}", server.stderr());
        Ok(())
    });
}

/// The last free descriptor serves a connection. Later ones are refused, and accepted ones are served.
pub fn open_connections_are_served_without_free_descriptors() {
    let setup = Setup { args: &["--max-connections", "1000"], open_files: Some(LIMIT), ..PLAIN };
    setup.check_server(|server, _| {
        warm_up(server)?;
        let mut inside = (0..10).map(|_| server.connect()).collect::<anyhow::Result<Vec<_>>>()?;
        for client in &mut inside {
            ask(client, "in")?;
        }
        let crowd: Vec<_> = (0..LIMIT * 2).map(|_| Client::connect(server.address())).collect::<Result<_, _>>()?;
        for client in &mut inside {
            ask(client, "still-in")?;
        }
        drop(crowd);
        eventually("there is room again", || Ok(probe(server).is_ok()))
    });
}

/// Most of the descriptors are for connections: three quarters of what is left once the process has its own.
pub fn a_low_limit_of_open_files_is_for_connections() {
    for (limit, connections) in [(256, 120), (512, 300), (1024, 600), (4096, 2400)] {
        let setup = Setup { open_files: Some(limit), threads: &[2], parallel: 2, ..PLAIN };
        setup.check_server(|server, case| {
            let mut crowd = Vec::new();
            for _ in 0..connections {
                let mut client = server.connect()?;
                client.send(b"in\n")?; // `pool` closes the silent ones while others wait.
                crowd.push(client);
            }
            for (i, client) in crowd.iter_mut().enumerate() {
                client.expect(b"in\n").with_context(|| format!("connection {i} with {limit} open files"))?;
            }
            let said = server.stderr();
            ensure!(said.contains(&format!("{limit} open files allow ")) && said.contains("ulimit -n"), "{said}");
            ensure!(!said.contains("refused"), "{said}");
            ensure!(
                case.driver.descriptor().connection == ConnectionModel::Worker || {
                    crowd.iter_mut().all(|client| ask(client, "still-in").is_ok())
                }
            );
            Ok(())
        });
    }
}

/// Clients do not notice interrupted calls.
pub fn interrupted_calls_are_invisible() {
    if strace().is_none() {
        return;
    }
    let setup = Setup { content_bytes: 1 << 20, threads: &[1], parallel: 2, ..PLAIN };
    setup.check_server(|server, case| {
        // tokio-uring forgets a submission that fails, and glommio ends. The kernel interrupts only waits: tokio-uring never waits in
        // it, and glommio's waits cannot be told from its submissions.
        let ring = (case.driver.descriptor().waits_in == Wait::Ring).then_some("io_uring_enter");
        for calls in ["recvfrom,sendto,sendmsg,sendfile,splice,accept4,epoll_wait"].into_iter().chain(ring) {
            let inject = format!("{calls}:error=EINTR:when=1+3");
            with_faults(server, &inject, || transfers(server, case)).with_context(|| format!("{calls} interrupted"))?;
        }
        Ok(())
    });
}

fn transfers(server: &Server, case: &Case<'_>) -> anyhow::Result<()> {
    for kind in ["shared", "file", "mapped"] {
        let mut client = Client::connect_with_buffer(server.address(), 32 << 10)?;
        let line = format!("{kind} {}\n", 1 << 20);
        client.send(b"before 10\n")?;
        client.send(line.as_bytes())?;
        client.send(b"after\n")?;
        client.half_close()?;
        client.expect(b"before\n")?;
        client.expect(line.as_bytes())?;
        let body = client.take(1 << 20)?;
        ensure!(digest(&body) == digest(case.content.bytes()), "{kind}: wrong bytes");
        client.expect_all(b"after\n")?;
    }
    Ok(())
}

/// A connection for which no thread can be started is refused and counted, and the server goes on.
pub fn a_connection_without_a_thread_is_refused_and_counted() {
    const COUNT: usize = 5;
    if strace().is_none() {
        return;
    }
    let drivers = |driver: Driver| driver.descriptor().connection == ConnectionModel::Thread;
    let setup = Setup { drivers, threads: &[1], has_metrics: true, ..PLAIN };
    setup.check_server(|server, case| {
        let mut inside = server.connect()?;
        ask(&mut inside, "in")?;
        with_faults(server, "clone,clone3:error=EAGAIN", || {
            (0..COUNT).try_for_each(|_| server.connect()?.expect_all(b"full\n"))?;
            ask(&mut inside, "still-in")
        })?;
        case.expect_counts(Counts { accepted: 1, refused: COUNT, open: 1 })?;
        probe(server)?;
        case.expect_counts(Counts { accepted: 2, refused: COUNT, open: 1 })
    });
}
