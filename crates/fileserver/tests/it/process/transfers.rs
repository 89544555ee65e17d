//! Large documents: to slow readers, to readers that leave, and while the server drains.

use std::time::Duration;

use anyhow::{Context, ensure};
use fileserver::ProtocolKind;
use layouts::LayoutKind;
use testkit::{Client, Digest, ResourceCounts, Server, digest, eventually};

use crate::{
    common::{Collection, contents, frame, settle},
    process::setup::{ALL, FRAMED, ORIGINAL, Setup, head, metric, metrics_address},
};

/// Size of a file that exceeds the buffers of one connection, so that a transfer can be stopped in the middle.
const LARGE: usize = 8 << 20;
const ID: &str = "LARGE008";

/// One document, and what of it follows the first byte.
fn collection() -> (Collection, Digest) {
    let collection = Collection::empty(LayoutKind::Flat);
    let contents = contents(ID, LARGE);
    collection.write(ID, &contents);
    settle();
    (collection, Digest { sha256: digest(&contents[1..]), len: LARGE as u64 - 1 })
}

/// A reader with little room, to whom the document has begun to be sent: it has read the first byte of it.
fn begin(setup: Setup, server: &Server) -> anyhow::Result<Client> {
    let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
    match setup.protocol {
        ProtocolKind::Original => client.send(ID.as_bytes())?,
        ProtocolKind::Framed => {
            client.send(&frame(ID.as_bytes()))?;
            let (_, len) = head(&mut client)?;
            ensure!(len == LARGE, "{len} bytes announced");
            client.half_close()?;
        }
    }
    client.take(1)?;
    Ok(client)
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let (collection, whole) = collection();
    for setup in ALL {
        setup.for_each_server(&collection, |server| {
            let got = begin(setup, server)?.digest(64 << 10, Duration::from_millis(1))?;
            ensure!(got == whole, "{} bytes, or wrong ones", got.len);
            Ok(())
        });
    }
}

#[test]
fn resets_in_mid_transfer_leave_nothing_behind() {
    let (collection, _) = collection();
    for setup in [ORIGINAL, FRAMED] {
        let (content, setup) = (setup.content(&collection), Setup { concurrency: 2, ..setup });
        setup.for_each_driver(|driver| {
            let metrics = metrics_address(collection.outside());
            let mut command = setup.command(driver, &content);
            command.args(["--metrics", &metrics.to_string()]);
            let mut server = Server::start_command(command, 1)?;
            let round = |count: usize| -> anyhow::Result<()> {
                for _ in 0..count {
                    let mut client = Client::connect_with_buffer(server.address(), 16 << 10)?;
                    match setup.protocol {
                        ProtocolKind::Original => client.send(ID.as_bytes())?,
                        ProtocolKind::Framed => client.send(&frame(ID.as_bytes()).repeat(3))?,
                    }
                    client.take(100)?;
                    client.reset()?;
                }
                Ok(())
            };
            round(20)?; // Pipes and worker threads exist now.
            metric(&metrics, "request_map_entries")?;
            let before = server.process().settled_resources()?;
            round(300)?;
            // Pipes are kept for reuse, up to a limit; a leak would be in the hundreds.
            server.process().wait_until_released(before, ResourceCounts { descriptors: 16, threads: 4 })?;
            eventually("the request map is empty", || Ok(metric(&metrics, "request_map_entries")? == 0))?;
            server.drain()
        });
    }
}

/// Transfers are finished, idle connections closed, new ones refused, and the port is free again.
#[test]
fn a_drain_finishes_what_is_in_flight() {
    let (collection, whole) = collection();
    for setup in ALL {
        let content = setup.content(&collection);
        setup.for_each_driver(|driver| {
            let mut server = setup.start(driver, &content)?;
            let address = server.address().clone();
            let mut idle = Client::connect(&address)?;
            let transfers = (0..3).map(|_| begin(setup, &server)).collect::<anyhow::Result<Vec<_>>>()?;
            server
                .drain_with_transfers(transfers, whole, || idle.expect_disconnect().context("the idle connection"))?;
            let mut command = setup.command(driver, &content);
            command.args(["--listen", &address.to_string()]);
            Server::start_command(command, 2).context("on the same port")?.drain()
        });
    }
}
