//! Proxies and files that are cut, over TLS.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use testkit::{
    DriverKind, Server, check_each, http,
    http2::{self, greeting_with, window_update},
    tls::{Certificates, TLS12, TLS13, TlsClient},
};

use super::{
    CONCURRENCY, command, http2 as cleartext,
    limits::{V1, tree, v2},
};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 24 << 20;

/// Starts a server with a plain and a TLS address.
fn start(driver: DriverKind, certificates: &Certificates, root: &Path, args: &[&str]) -> anyhow::Result<Server> {
    let mut command = command(driver, root, args);
    command.args(certificates.flags("server"));
    Server::start_command(command, 2)
}

#[test]
fn a_proxy_header_comes_before_tls() {
    let (certificates, tree, logs) = (Certificates::new().unwrap(), tree(), tempfile::tempdir().unwrap());
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let log = logs.path().join(driver.name());
        let args = ["--proxy-protocol", "127.0.0.1", "--access-log", log.to_str().context("UTF-8")?];
        let mut server = start(driver, &certificates, tree.path(), &args)?;
        let address = server.addresses()[1].clone();
        for version in [&TLS12, &TLS13] {
            let config = certificates.client(version, None)?;
            for header in [V1, &v2(1), b"PROXY UNKNOWN\r\n"] {
                let mut client = TlsClient::connect_behind(header, &address, &config)?;
                let got = client.ask(&http::get("/a.txt"))?;
                ensure!(got.status == 200 && got.body == b"a", "{driver}: {got:?}");
            }
            let mut direct = TlsClient::connect(&address, &config)?;
            ensure!(direct.ask(&http::get("/a.txt")).is_err(), "{driver}: served without a header");
            // Behind its own header, what comes through TLS is a request and no header.
            let mut twice = TlsClient::connect_behind(V1, &address, &config)?;
            twice.send(V1)?;
            ensure!(twice.ask(&http::get("/a.txt"))?.status == 400, "{driver}: a header is taken from a client");
        }
        ensure!(server.stop()?.success(), "{driver}: {}", server.stderr());
        let text = fs::read_to_string(&log)?;
        let of = |client: &str| text.lines().filter(|line| line.starts_with(client) && line.contains(" 200 ")).count();
        let named = [of("192.0.2.1 "), of("2001:db8:0:1::1 "), of("127.0.0.1 ")];
        ensure!(named == [2; 3] && of("") == 6, "{driver}: {text}");
        Ok(())
    });
}

#[test]
fn limits_count_the_clients_of_a_proxy_over_tls() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    let args =
        ["--proxy-protocol", "127.0.0.1", "--max-connections-per-client", "1", "--max-requests-per-client", "2/h"];
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let mut server = start(driver, &certificates, tree.path(), &args)?;
        let (address, config) = (server.addresses()[1].clone(), certificates.client(&TLS13, None)?);
        let connect = |client| TlsClient::connect_behind(&v2(client), &address, &config);
        let mut first = connect(1)?;
        ensure!(first.ask(&http::get("/a.txt"))?.status == 200);
        ensure!(connect(1)?.ask(&http::get("/a.txt")).is_err(), "{driver}: a second connection is served");
        let mut other = connect(2)?;
        for status in [200, 200, 429] {
            ensure!(other.ask(&http::get("/a.txt"))?.status == status, "{driver}: another client");
        }
        let rest = [first.ask(&http::get("/a.txt"))?.status, first.ask(&http::get("/a.txt"))?.status];
        ensure!(rest == [200, 429], "{driver}: {rest:?}");
        ensure!(server.stop()?.success(), "{driver}: {}", server.stderr());
        Ok(())
    });
}

/// Returns bytes, none of which is zero.
fn contents() -> Vec<u8> {
    (0..LARGE).map(|at| (at % 249) as u8 ^ (at >> 13) as u8 | 1).collect()
}

/// The client has the head and what there was; then the connection ends so that it can tell, and never with zeros in place of what
/// was cut off.
#[test]
fn a_file_that_is_cut_is_never_whole_over_tls() {
    let (certificates, contents) = (Certificates::new().unwrap(), contents());
    check_each(&testkit::sample(DriverKind::ALL), 2, |&driver| {
        let tree = tempfile::tempdir()?;
        let path = tree.path().join("large");
        let mut server = start(driver, &certificates, tree.path(), &["--revalidate", "0s"])?;
        let config = certificates.client(&TLS13, None)?;
        for round in ["opened", "cached"] {
            fs::write(&path, &contents)?;
            let mut client = TlsClient::connect(&server.addresses()[1], &config)?;
            client.send(http::get("/large").as_bytes())?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.extend(client.take(1)?);
            }
            ensure!(head.starts_with(b"HTTP/1.1 200 "), "{}", head.escape_ascii());
            fs::File::options().write(true).open(&path)?.set_len(LARGE as u64 / 3)?;
            let (got, outcome) = client.read_until_disconnect();
            ensure!(outcome.is_err(), "{driver}, {round}: {} bytes and close_notify", got.len());
            ensure!(got.len() < LARGE && contents.starts_with(&got), "{driver}, {round}: {} bytes", got.len());
            let mut client = TlsClient::connect(&server.addresses()[1], &config)?;
            let again = client.ask(&http::get("/large"))?;
            ensure!(again.body == contents[..LARGE / 3], "{driver}, {round}: {}", again.body.len());
        }
        server.drain().with_context(|| driver.name())
    });
}

/// The same on a stream: it is reset, or its connection ends, and the other streams of a connection that lives are whole.
#[test]
fn a_stream_of_a_file_that_is_cut_is_never_whole() {
    let contents = contents();
    check_each(&testkit::sample(DriverKind::ALL), 2, |&driver| {
        let tree = tempfile::tempdir()?;
        let path = tree.path().join("large");
        let mut server = Server::start_command(command(driver, tree.path(), &["--revalidate", "0s"]), 1)?;
        for round in ["opened", "cached"] {
            fs::write(&path, &contents)?;
            let mut client = http2::Client::connect_with(cleartext::address(&server)?, &greeting_with(&[]))?;
            client.send(&http2::get(1, "/large"))?;
            client.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
            fs::File::options().write(true).open(&path)?.set_len(LARGE as u64 / 3)?;
            let windows = [window_update(0, 1 << 30), window_update(1, 1 << 30)].concat();
            client.send(&windows)?;
            let got = client.response(1)?;
            ensure!(!got.is_whole, "{driver}, {round}: {} bytes and the end of the stream", got.body.len());
            ensure!(got.body.len() < LARGE && contents.starts_with(&got.body), "{driver}, {round}: {}", got.body.len());
            let mut client = http2::Client::connect(cleartext::address(&server)?)?;
            client.send(&http2::get(1, "/large"))?;
            let again = client.response(1)?;
            ensure!(again.is_whole && again.body == contents[..LARGE / 3], "{driver}, {round}: {}", again.body.len());
        }
        server.drain().with_context(|| driver.name())
    });
}
