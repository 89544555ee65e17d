//! Large files: to slow readers, to readers that leave, and while the server drains.

use std::time::Duration;

use anyhow::{Context, ensure};
use testkit::{Client, Digest, ResourceCounts, Server, digest};

use crate::process::setup::{Http, LARGE, PLAIN, Setup, TWO_THREADS, content, get, get_and_close};

/// Connects a client with a small receive buffer, which has read the head of the response and nothing of the file yet.
fn begin(server: &Server, request: &str) -> anyhow::Result<Client> {
    let mut client = Http::from_client(Client::connect_with_buffer(server.address(), 16 << 10)?)?;
    client.send(request)?;
    client.skip_head()
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let content = content(LARGE);
    let whole = Digest { sha256: digest(content.bytes()), len: LARGE as u64 };
    TWO_THREADS.for_each_server(content.dir(), |server, _| {
        let got = begin(server, &get_and_close("/content"))?.digest(64 << 10, Duration::from_millis(1))?;
        ensure!(got == whole, "{} bytes, or wrong ones", got.len);
        Ok(())
    });
}

#[test]
fn resets_in_mid_transfer_leave_nothing_behind() {
    let content = content(LARGE);
    let setup = Setup { concurrency: 2, ..PLAIN };
    setup.for_each_server(content.dir(), |server, _| {
        let round = |count: usize| -> anyhow::Result<()> {
            for _ in 0..count {
                begin(server, &get("/content").repeat(3))?.reset()?;
            }
            Ok(())
        };
        round(40)?; // Pipes and worker threads exist now.
        let before = server.process().settled_resources()?;
        round(500)?;
        // Pipes are kept for reuse, up to a limit; a leak would be in the hundreds.
        server.process().wait_until_released(before, ResourceCounts { descriptors: 16, threads: 4 })?;
        let head = Http::connect(server.address())?.ask("HEAD /content HTTP/1.1\r\nHost: h\r\n\r\n")?;
        ensure!(head.field("content-length") == Some(&*LARGE.to_string()), "{head:?}");
        Ok(())
    });
}

/// Transfers are finished, idle connections closed, new ones refused, and the port is free again.
#[test]
fn a_drain_finishes_what_is_in_flight() {
    let content = content(LARGE);
    let whole = Digest { sha256: digest(content.bytes()), len: LARGE as u64 };
    for setup in [PLAIN, TWO_THREADS] {
        setup.for_each_driver(|driver| {
            let mut server = setup.start(driver, content.dir())?;
            let address = server.address().clone();
            let mut idle = Http::connect(&address)?;
            ensure!(idle.get("/missing")?.status == 404, "before");
            let transfers = (0..3).map(|_| begin(&server, &get("/content"))).collect::<anyhow::Result<Vec<_>>>()?;
            server.drain_with_transfers(transfers, whole, || idle.expect_end().context("the idle connection"))?;
            let mut command = setup.command(driver, content.dir());
            command.args(["--listen", &address.to_string()]);
            Server::start_command(command, 2).context("on the same port")?.drain()
        });
    }
}
