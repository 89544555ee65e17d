//! Certificates that are renewed, and the way to https, for clients of HTTP/2.

use std::{
    fs,
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{
    DriverKind, Server, check_each, eventually,
    http2::{Client, get, greeting, greeting_with, request, window_update},
    tls::Certificates,
};

use super::{CONCURRENCY, command, http2_layers::Both, write};

/// Length of a file that fits into no buffer between a server and its client.
const LARGE: usize = 3 << 20;
/// Requests that a client makes at once.
const STREAMS: u32 = 8;

/// Clients of HTTP/2 that go on until they are told to stop.
struct Load<'a> {
    address: SocketAddr,
    certificates: &'a Certificates,
    is_over: AtomicBool,
    answered: AtomicUsize,
}

impl Load<'_> {
    /// Asks and asks, on one connection or each time on a new one. Each response has to be whole.
    fn run(&self, reconnects: bool) -> anyhow::Result<()> {
        let connect = || Client::connect_secured(self.address, self.certificates, &greeting());
        let (mut client, mut first) = (connect()?, 1);
        while !self.is_over.load(Relaxed) {
            let streams = (0..STREAMS).map(|n| first + 2 * n);
            client.send(&streams.clone().map(|stream| get(stream, "/small.txt")).collect::<Vec<_>>().concat())?;
            for stream in streams {
                let response = client.response(stream)?;
                ensure!(response.is_whole && response.body == b"small", "{response:?}");
            }
            self.answered.fetch_add(STREAMS as usize, Relaxed);
            (client, first) = if reconnects { (connect()?, 1) } else { (client, first + 2 * STREAMS) };
        }
        Ok(())
    }

    /// Waits until some responses more have come.
    fn goes_on(&self) -> anyhow::Result<()> {
        let wanted = self.answered.load(Relaxed) + 6 * STREAMS as usize;
        eventually("clients go on", || Ok(self.answered.load(Relaxed) >= wanted))
    }
}

/// Three renewals, and a fourth that cannot be used: clients on old connections and on new ones lose nothing, and each handshake shows
/// the certificate that was read last.
#[test]
fn certificates_are_renewed_under_load_over_http2() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "small.txt", "small").unwrap();
    fs::write(tree.path().join("large.bin"), vec![b'l'; LARGE]).unwrap();
    check_each(&testkit::sample(DriverKind::ALL), CONCURRENCY, |&driver| {
        let certificates = Certificates::new()?;
        let mut command = command(driver, tree.path(), &[]);
        command.args(certificates.flags("server"));
        let mut server = Server::start_command(command, 2).with_context(|| driver.name())?;
        let Address::Tcp(address) = server.addresses()[1] else { anyhow::bail!("not TCP") };
        let mut transfer = Client::connect_secured(address, &certificates, &greeting_with(&[]))?;
        transfer.send(&get(1, "/large.bin"))?;
        transfer.read_until(|got| got.data.iter().map(|(_, length)| length).sum::<usize>() == 65_535)?;
        let (is_over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let load = &Load { address, certificates: &certificates, is_over, answered };
        thread::scope(|scope| {
            let clients = [false, true].map(|reconnects| scope.spawn(move || load.run(reconnects)));
            let renewed = renew(&server, load);
            load.is_over.store(true, Relaxed);
            clients.into_iter().try_for_each(|client| client.join().expect("a client"))?;
            renewed
        })
        .with_context(|| format!("{driver}: {}", server.stderr()))?;
        transfer.send(&[window_update(0, LARGE as u32), window_update(1, LARGE as u32)].concat())?;
        let transferred = transfer.response(1)?;
        ensure!(transferred.is_whole && transferred.body == vec![b'l'; LARGE], "{driver}: the transfer begun before");
        drop(transfer);
        let status = server.stop()?;
        ensure!(status.success(), "{driver}: {status}: {}", server.stderr());
        Ok(())
    });
}

fn renew(server: &Server, load: &Load<'_>) -> anyhow::Result<()> {
    let certificates = load.certificates;
    load.goes_on()?;
    let mut issued = Vec::new();
    for round in 0..3 {
        issued = certificates.issue("server", &["localhost"])?;
        server.process().hang_up()?;
        eventually("the new certificate is shown", || Ok(certificates.shown_to_http2(load.address)? == issued))?;
        load.goes_on().context(round)?;
    }
    fs::write(certificates.path("server.pem"), "nonsense")?;
    server.process().hang_up()?;
    let why = "the certificates in use stay";
    eventually("the log says so", || Ok(server.stderr().contains(why)))?;
    load.goes_on()?;
    ensure!(certificates.shown_to_http2(load.address)? == issued, "another certificate than the last that was good");
    Ok(())
}

/// Redirects are sent in the clear and HSTS over TLS only, as with HTTP/1; challenges are served in both.
#[test]
fn redirects_and_hsts_are_those_of_http1() {
    const CHALLENGE: &str = "/.well-known/acme-challenge/token";
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "small.txt", "small").unwrap();
    write(tree.path(), &CHALLENGE[1..], "proof").unwrap();
    Both::on_every_driver(tree.path(), &["--https-redirect", "--hsts=max-age=300"], |both, _| {
        let port = both.address(1)?.port();
        let [mut plain, mut secured] = both.connect(&greeting())?;
        for (stream, method, target, in_clear, over_tls) in [
            (1, "GET", "/small.txt", 301, 200),
            (3, "HEAD", "/a%20b?x=1", 301, 404),
            (5, "DELETE", "/small.txt", 308, 405),
            (7, "GET", CHALLENGE, 200, 200),
            (9, "GET", "/.well-known/acme-challenge/none", 404, 404),
        ] {
            for (client, status) in [(&mut plain, in_clear), (&mut secured, over_tls)] {
                client.send(&request(stream, method, target, &[], true))?;
                let got = client.response(stream)?;
                ensure!(got.status() == status, "{method} {target}: {} instead of {status}", got.status());
            }
            let (clear, secret) = (plain.received.response(stream)?, secured.received.response(stream)?);
            ensure!(clear.field("strict-transport-security").is_none(), "{target}: {clear:?}");
            // What authorities ask for is served in the clear, too, where the field must not be.
            let hsts = (!target.starts_with("/.well-known/acme-challenge/")).then_some("max-age=300");
            ensure!(secret.field("strict-transport-security") == hsts, "{target}: {secret:?}");
            let location = format!("https://h:{port}{target}");
            let is_sent_away = [301, 308].contains(&in_clear);
            ensure!(clear.field("location") == is_sent_away.then_some(&*location), "{target}: {clear:?}");
        }
        drop((plain, secured));
        both.server.drain()
    });
}
