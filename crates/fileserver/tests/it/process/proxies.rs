//! Proxies that speak for clients, and limits of each client.

use std::time::Duration;

use anyhow::{Context, ensure};
use layouts::LayoutKind;
use testkit::{Client, Server, eventually};
use wire::file::Status;

use crate::{
    common::{Collection, DOCUMENTS, contents, frame},
    process::setup::{FRAMED, ORIGINAL, metric, metrics_address, reply},
};

const ADA: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
const BOB: &[u8] = b"PROXY TCP6 2001:db8::2 2001:db8::1 56324 443\r\n";
/// The same as `ADA`, in version 2.
const ADA_AGAIN: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb";

fn connect(server: &Server, header: &[u8]) -> anyhow::Result<Client> {
    let mut client = server.connect()?;
    client.send(header)?;
    Ok(client)
}

/// Requests the third document; true if it comes.
fn gets(client: &mut Client) -> bool {
    let (id, size) = DOCUMENTS[2];
    client.send(&frame(id.as_bytes())).is_ok()
        && reply(client).is_ok_and(|got| got == (Status::Found, contents(id, size)))
}

#[test]
fn limits_count_the_clients_of_a_proxy() {
    let collection = Collection::new(LayoutKind::Flat);
    FRAMED.for_each_driver(|driver| {
        let metrics = metrics_address(collection.outside());
        let mut command = FRAMED.command(driver, &collection.root);
        command.args(["--proxy-protocol", "127.0.0.1", "--max-connections-per-client", "1"]);
        command.args(["--request-timeout", "300ms", "--metrics", &metrics.to_string()]);
        let mut server = Server::start_command(command, 1)?;
        let mut ada = connect(&server, ADA)?;
        ensure!(gets(&mut ada) && gets(&mut ada), "the first connection");
        ensure!(!gets(&mut connect(&server, ADA_AGAIN)?), "a second connection of the same client is served");
        let mut bob = connect(&server, BOB)?;
        ensure!(gets(&mut bob) && gets(&mut ada), "another client");
        for bad in [&b""[..], b"PROXY TCP4 1.2.3.4\r\n", &frame(b"SMALL002")] {
            ensure!(!gets(&mut connect(&server, bad)?), "served without a header: {}", bad.escape_ascii());
        }
        let counts = || -> anyhow::Result<[u64; 2]> {
            Ok([
                metric(&metrics, "connections_refused_by_client_limit_total")?,
                metric(&metrics, "proxy_headers_refused_total")?,
            ])
        };
        eventually("refusals are counted", || Ok(counts()? == [1, 3])).with_context(|| format!("{:?}", counts()))?;
        drop(ada);
        eventually("there is room again", || Ok(gets(&mut connect(&server, ADA)?)))?;
        ensure!(server.stop()?.success(), "{}", server.stderr());
        Ok(())
    });
}

/// The original's protocol has no head: a document is whatever comes, so nothing else may come with it.
#[test]
fn a_header_however_torn_is_no_part_of_a_request() {
    let collection = Collection::new(LayoutKind::Flat);
    let (id, size) = DOCUMENTS[3];
    ORIGINAL.for_each_driver(|driver| {
        let mut command = ORIGINAL.command(driver, &collection.root);
        command.args(["--proxy-protocol", "127.0.0.0/8"]);
        let mut server = Server::start_command(command, 1)?;
        for header in [ADA, BOB, ADA_AGAIN, b"PROXY UNKNOWN\r\n"] {
            for at in [0, 1, 8, 13, header.len() - 1, header.len()] {
                let mut client = connect(&server, &header[..at])?;
                std::thread::sleep(Duration::from_millis(2));
                client.send(&[&header[at..], id.as_bytes()].concat())?;
                let got = client.read_to_end()?;
                ensure!(got == contents(id, size), "torn at {at}: {} bytes", got.len());
            }
        }
        server.drain()
    });
}
