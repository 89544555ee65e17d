//! The layer of TLS on every driver: bytes, promises and ends of the protocol inside, to a client of rustls.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use sys::listen::Address;
use tempfile::TempDir;
use testkit::{HANG, Server, installed_program};

use crate::case::{Case, PLAIN, Setup};

const LEN: usize = 8 << 20;
const WITH_CONTENT: Setup = Setup { content_bytes: LEN, ..PLAIN };

/// A certificate for localhost, in files and as what clients trust.
struct Identity {
    directory: TempDir,
    roots: RootCertStore,
}

impl Identity {
    fn new() -> anyhow::Result<Self> {
        let (directory, key) = (tempfile::tempdir()?, KeyPair::generate()?);
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
        fs::write(directory.path().join("cert.pem"), certificate.pem())?;
        fs::write(directory.path().join("key.pem"), key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone())?;
        Ok(Self { directory, roots })
    }

    fn start(&self, case: &Case<'_>) -> anyhow::Result<Server> {
        let mut command = case.command();
        command.arg("--tls-cert").arg(self.directory.path().join("cert.pem"));
        command.arg("--tls-key").arg(self.directory.path().join("key.pem"));
        Server::start_command(command, 1)
    }

    fn connect(&self, server: &Server, version: &'static SupportedProtocolVersion) -> anyhow::Result<Client> {
        let Address::Tcp(address) = server.address() else { bail!("not TCP") };
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(HANG))?;
        socket.set_write_timeout(Some(HANG))?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])?
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let tls = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
        Ok(Client(StreamOwned::new(tls, socket)))
    }
}

/// A client whose reads fail at an end without close_notify.
struct Client(StreamOwned<ClientConnection, TcpStream>);

impl Client {
    fn send(&mut self, plain: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(plain)?;
        Ok(self.0.flush()?)
    }

    fn half_close(&mut self) -> anyhow::Result<()> {
        self.0.conn.send_close_notify();
        Ok(self.0.flush()?)
    }

    fn expect(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut got = vec![0; wanted.len()];
        self.0.read_exact(&mut got).with_context(|| format!("expecting {} bytes", wanted.len()))?;
        ensure!(got == wanted, "other bytes than expected");
        Ok(())
    }

    fn expect_all(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let mut got = Vec::new();
        self.0.read_to_end(&mut got).with_context(|| format!("after {} of {} bytes", got.len(), wanted.len()))?;
        ensure!(got == wanted, "{} bytes, or others, instead of {}", got.len(), wanted.len());
        Ok(())
    }
}

impl Setup {
    fn check_tls(self, law: impl Fn(&Identity, &mut Server, &Case<'_>) -> anyhow::Result<()> + Sync) {
        let identity = Identity::new().expect("a certificate");
        self.check(|case| {
            let mut server = identity.start(case)?;
            law(&identity, &mut server, case)?;
            if server.is_running()? {
                let mut client = identity.connect(&server, &TLS13)?;
                client.send(b"probe\n")?;
                client.expect(b"probe\n").context("the next good request")?;
                drop(client);
                server.stop()?;
            }
            Ok(())
        });
    }
}

#[test]
fn every_kind_of_body_is_complete_over_tls() {
    WITH_CONTENT.check_tls(|identity, server, case| {
        for version in [&TLS12, &TLS13] {
            let mut client = identity.connect(server, version)?;
            for kind in ["shared", "file", "mapped", "pages", "pipe"] {
                for len in [1, 2_049, 40_000, LEN] {
                    if kind == "pipe" && len == LEN {
                        continue;
                    }
                    let line = format!("{kind} {len}\n");
                    client.send(line.as_bytes())?;
                    client
                        .expect(line.as_bytes())
                        .and_then(|()| client.expect(&case.content.bytes()[..len]))
                        .context(line)?;
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_slow_reader_gets_all_of_a_body_over_tls() {
    WITH_CONTENT.check_tls(|identity, server, case| {
        for kind in ["shared", "file", "mapped"] {
            let mut client = identity.connect(server, &TLS13)?;
            let line = format!("{kind} {LEN}\n");
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
            for piece in case.content.bytes()[..LEN].chunks(100_000) {
                thread::sleep(Duration::from_millis(2));
                client.expect(piece).context(kind)?;
            }
        }
        Ok(())
    });
}

#[test]
fn pipelined_and_deferred_replies_keep_their_order_over_tls() {
    PLAIN.check_tls(|identity, server, _| {
        let (mut requests, mut replies) = (String::new(), String::new());
        for i in 0..120 {
            requests += &format!("a{i}\nb{i} {}\nc{i} 3 hold\nd{i} {} big\ne{i}\n", i % 7, i % 3);
            replies += &format!("a{i}\nb{i}\nd{i}\n{}e{i}\n", "x".repeat(100_000));
        }
        let mut client = identity.connect(server, &TLS13)?;
        client.send(requests.as_bytes())?;
        client.half_close()?;
        client.expect_all(replies.as_bytes())?;
        let mut client = identity.connect(server, &TLS13)?;
        for _ in 0..5 {
            client.send(b"h 30 hold\nafter\n")?;
            client.expect(b"after\n")?;
        }
        Ok(())
    });
}

#[test]
fn every_end_over_tls_is_preceded_by_close_notify() {
    PLAIN.check_tls(|identity, server, _| {
        for version in [&TLS12, &TLS13] {
            for (request, reply) in [("close", "close\n"), ("linger", "linger\n"), ("ack", "ack\n"), (" ", "?  \n")] {
                let mut client = identity.connect(server, version)?;
                client.send(format!("{request}\n").as_bytes())?;
                client.expect_all(reply.as_bytes()).context(request)?;
            }
            let mut client = identity.connect(server, version)?;
            client.send(b"in\n")?;
            client.expect(b"in\n")?;
            client.half_close()?;
            client.expect_all(b"")?;
        }
        Ok(())
    });
}

#[test]
fn a_drain_over_tls_completes_transfers_and_says_goodbye() {
    WITH_CONTENT.check_tls(|identity, server, case| {
        let mut idle = identity.connect(server, &TLS13)?;
        idle.send(b"in\n")?;
        idle.expect(b"in\n")?;
        let mut busy = identity.connect(server, &TLS13)?;
        let line = format!("file {LEN}\n");
        busy.send(line.as_bytes())?;
        busy.expect(line.as_bytes())?;
        server.terminate()?;
        idle.expect_all(b"")?;
        busy.expect_all(&case.content.bytes()[..LEN])?;
        ensure!(server.wait()?.success(), "{}", server.stderr());
        Ok(())
    });
}

#[test]
fn plain_bytes_on_a_tls_address_get_an_alert() {
    PLAIN.check_tls(|_, server, _| {
        for request in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello\n"] {
            let mut client = server.connect()?;
            client.send(request.as_bytes())?;
            let got = client.read_to_end()?;
            ensure!(got.len() == 7 && got[0] == 21, "no alert: {got:?}");
        }
        Ok(())
    });
}

/// Another implementation, which asks for new keys by a second handshake (RFC 5746).
#[test]
fn openssl_is_answered_and_its_renegotiation_refused() {
    let Some(openssl) = installed_program("openssl").unwrap() else { return };
    PLAIN.check_tls(|_, server, _| {
        let mut command = Command::new(&openssl);
        command.args(["s_client", "-tls1_2", "-connect", &server.address().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = command.spawn()?;
        let mut input = client.stdin.take().context("no standard input")?;
        let mut output = client.stdout.take().context("no standard output")?;
        input.write_all(b"question\n")?;
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.ends_with(b"question\n") {
            ensure!(output.read(&mut byte)? == 1, "it ended: {}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
        input.write_all(b"R\n")?;
        let finished = client.wait_with_output()?;
        let errors = String::from_utf8_lossy(&finished.stderr);
        ensure!(errors.contains("no renegotiation"), "{errors}");
        Ok(())
    });
}
