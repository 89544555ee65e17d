//! Thousands of silent clients, and clients that take nothing.

use anyhow::{Context, ensure};
use testkit::{
    Client, ConnectionModel, ReadBuffer, Server, eventually,
    open_files::{Exchange, connections_come_first, many_files},
};

use crate::process::setup::{EVENT_LOOPS, Http, LARGE, PLAIN, Setup, TWO_THREADS, content, get};

/// Limit of the memory for one silent connection, in bytes.
const RESIDENT_BYTES_MAX: u64 = 2 << 10;

/// Each has been answered once, as browsers are before they fall silent.
#[test]
fn five_thousand_idle_connections_cost_little_memory() {
    const COUNT: usize = 5_000;
    let _turn = many_files();
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
        let facts = driver.descriptor();
        // Where each read owns a buffer, the kernel holds it while a connection is idle; a coroutine has a stack.
        if facts.reads_into != ReadBuffer::Owned && facts.connection != ConnectionModel::Coroutine {
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

/// Files in the cache and files that are being sent hold descriptors, and connections come first.
#[test]
fn connections_come_first_with_few_open_files() {
    let tree = tempfile::tempdir().unwrap();
    for i in 0..300 {
        std::fs::write(tree.path().join(i.to_string()), vec![b'x'; 100_000]).unwrap();
    }
    std::fs::write(tree.path().join("a.txt"), "0123456789").unwrap();
    let request = get("/a.txt");
    let exchange = Exchange { request: request.as_bytes(), answer: b"HTTP/1.1 200 OK\r\n" };
    let fill = |server: &Server| {
        let mut client = Http::connect(server.address())?;
        (0..300).try_for_each(|i| {
            let got = client.get(&format!("/{i}"))?;
            ensure!(got.status == 200 && got.body.len() == 100_000, "{i}: {}", got.status);
            Ok(())
        })
    };
    connections_come_first(|driver| TWO_THREADS.command(driver, tree.path()), exchange, fill);
}

/// A reader that takes nothing costs what its place in the file needs, and no buffer for what it might take.
#[test]
fn stalled_readers_cost_little_memory() {
    const COUNT: usize = 250;
    const EACH_MAX: u64 = 20 << 10;
    let content = content(LARGE);
    let root = content.dir();
    let request = get("/content");
    let setup = Setup { drivers: &EVENT_LOOPS, concurrency: 1, ..PLAIN };
    setup.for_each_server(root, |server, driver| {
        let stall = |_| {
            let mut client = Client::connect_with_buffer(server.address(), 4 << 10)?;
            client.send(request.as_bytes())?;
            client.expect(b"HTTP/1.1 200 OK\r\n")?;
            Ok(client)
        };
        let first = (0..50).map(stall).collect::<anyhow::Result<Vec<_>>>()?;
        let before = server.process().resident_bytes()?;
        let stalled = (0..COUNT).map(stall).collect::<anyhow::Result<Vec<_>>>()?;
        let each = || Ok::<_, anyhow::Error>(server.process().resident_bytes()?.saturating_sub(before) / COUNT as u64);
        eventually("a stalled reader is small", || Ok(each()? <= EACH_MAX)).with_context(|| format!("{:?}", each()))?;
        eprintln!("{driver}: {} bytes of resident memory for each of {COUNT} stalled readers", each()?);
        drop((first, stalled));
        Ok(())
    });
}
