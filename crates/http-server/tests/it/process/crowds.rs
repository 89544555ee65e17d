//! Thousands of silent clients.

use anyhow::{Context, ensure};
use testkit::{ReadBuffer, eventually};

use crate::process::setup::{EVENT_LOOPS, Http, PLAIN, Setup};

/// Limit of the memory for one silent connection, in bytes.
const RESIDENT_BYTES_MAX: u64 = 2 << 10;

/// Each has been answered once, as browsers are before they fall silent.
#[test]
fn five_thousand_idle_connections_cost_little_memory() {
    const COUNT: usize = 5_000;
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    let setup = Setup { drivers: &EVENT_LOOPS, concurrency: 1, ..PLAIN };
    setup.for_each_server(tree.path(), |server, driver| {
        let process = server.process();
        let connect = |i: usize| -> anyhow::Result<Http> {
            let mut client = Http::connect(server.address())?;
            let got = client.get("/a.txt").with_context(|| format!("connection {i}"))?;
            ensure!(got.status == 200, "connection {i}: {}", got.status);
            Ok(client)
        };
        connect(0)?;
        let before = process.resident_bytes()?;
        let mut idle = (0..COUNT).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(process.descriptors()? >= COUNT, "not all connections are open");
        let each = || Ok::<_, anyhow::Error>(process.resident_bytes()?.saturating_sub(before) / COUNT as u64);
        // Where each read owns a buffer, the kernel holds it while a connection is idle.
        if driver.descriptor().reads_into != ReadBuffer::Owned {
            // Buffers are given back by connections that have been silent for a while.
            eventually("an idle connection is small", || Ok(each()? <= RESIDENT_BYTES_MAX))
                .with_context(|| format!("{:?} bytes each", each()))?;
        }
        eprintln!("{driver}: {} bytes of resident memory for each of {COUNT} idle connections", each()?);
        ensure!(connect(COUNT)?.get("/a.txt")?.body == b"0123456789", "the probe");
        for (i, client) in idle.iter_mut().enumerate().step_by(499) {
            ensure!(client.get("/a.txt")?.status == 200, "connection {i}, again");
        }
        Ok(())
    });
}
