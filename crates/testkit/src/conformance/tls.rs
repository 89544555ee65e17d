//! The layer of TLS on every driver: bytes, promises and ends of the protocol inside, to a client of rustls.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    Client, Server, installed_program,
    tls::{Certificates, SupportedProtocolVersion, TLS12, TLS13, TlsClient},
};
use anyhow::{Context, ensure};

use super::{
    case::{Case, PLAIN, Setup},
    pushes::lines,
};

const LEN: usize = 8 << 20;
const WITH_CONTENT: Setup = Setup { content_bytes: LEN, ..PLAIN };

/// A server with a plain address and a TLS address.
struct Secured<'a> {
    certificates: &'a Certificates,
    server: Server,
}

impl Secured<'_> {
    fn connect(&self, version: &'static SupportedProtocolVersion) -> anyhow::Result<TlsClient> {
        self.certificates.connect(&self.server.addresses()[1], version)
    }
}

impl Setup {
    /// Checks the law on a server that must then still answer at both of its addresses.
    fn check_tls(self, law: impl Fn(&mut Secured<'_>, &Case<'_>) -> anyhow::Result<()> + Sync) {
        let certificates = Certificates::new().expect("a certificate");
        self.check(|case| {
            let mut command = case.command();
            command.args(["--listen", "127.0.0.1:0"]).args(certificates.flags("server"));
            let mut secured = Secured { certificates: &certificates, server: Server::start_command(command, 2)? };
            law(&mut secured, case)?;
            if secured.server.is_running()? {
                let (mut client, mut plain) = (secured.connect(&TLS13)?, secured.server.connect()?);
                client.send(b"probe\n")?;
                client.expect(b"probe\n").context("the next good request")?;
                plain.send(b"probe\n")?;
                plain.expect(b"probe\n").context("the next good plain request")?;
                drop((client, plain));
                secured.server.stop()?;
            }
            Ok(())
        });
    }
}

pub fn every_kind_of_body_is_complete_over_tls() {
    WITH_CONTENT.check_tls(|secured, case| {
        for version in [&TLS12, &TLS13] {
            let mut client = secured.connect(version)?;
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

pub fn a_slow_reader_gets_all_of_a_body_over_tls() {
    WITH_CONTENT.check_tls(|secured, case| {
        for kind in ["shared", "file", "mapped"] {
            let mut client = secured.connect(&TLS13)?;
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

pub fn pipelined_and_deferred_replies_keep_their_order_over_tls() {
    PLAIN.check_tls(|secured, _| check_order(secured));
}

/// Connections of both kinds meet in one call of the protocol.
pub fn connections_of_a_batch_may_be_plain_and_tls() {
    let batches = Setup { args: &["--batch", "8"], ..PLAIN };
    batches.check_tls(|secured, _| {
        check_order(secured)?;
        let mut plain: Vec<_> = (0..8).map(|_| secured.server.connect()).collect::<Result<_, _>>()?;
        let mut tls: Vec<_> = (0..8).map(|_| secured.connect(&TLS13)).collect::<Result<_, _>>()?;
        for round in 0..20 {
            for (plain, tls) in plain.iter_mut().zip(&mut tls) {
                plain.send(format!("p{round}\n").as_bytes())?;
                tls.send(format!("t{round} 1\n").as_bytes())?;
            }
            for (plain, tls) in plain.iter_mut().zip(&mut tls) {
                plain.expect(format!("p{round}\n").as_bytes())?;
                tls.expect(format!("t{round}\n").as_bytes())?;
            }
        }
        Ok(())
    });
}

fn check_order(secured: &Secured<'_>) -> anyhow::Result<()> {
    let (mut requests, mut replies) = (String::new(), String::new());
    for i in 0..120 {
        requests += &format!("a{i}\nb{i} {}\nc{i} 3 hold\nd{i} {} big\ne{i}\n", i % 7, i % 3);
        replies += &format!("a{i}\nb{i}\nd{i}\n{}e{i}\n", "x".repeat(100_000));
    }
    let mut client = secured.connect(&TLS13)?;
    client.send(requests.as_bytes())?;
    client.half_close()?;
    client.expect_all(replies.as_bytes())?;
    let mut client = secured.connect(&TLS13)?;
    for _ in 0..5 {
        client.send(b"h 30 hold\nafter\n")?;
        client.expect(b"after\n")?;
    }
    Ok(())
}

pub fn every_end_over_tls_is_preceded_by_close_notify() {
    PLAIN.check_tls(|secured, _| {
        for version in [&TLS12, &TLS13] {
            for (request, reply) in [("close", "close\n"), ("linger", "linger\n"), ("ack", "ack\n"), (" ", "?  \n")] {
                let mut client = secured.connect(version)?;
                client.send(format!("{request}\n").as_bytes())?;
                client.expect_all(reply.as_bytes()).context(request)?;
            }
            let mut client = secured.connect(version)?;
            client.send(b"in\n")?;
            client.expect(b"in\n")?;
            client.half_close()?;
            client.expect_all(b"")?;
        }
        Ok(())
    });
}

pub fn a_drain_over_tls_completes_transfers_and_says_goodbye() {
    WITH_CONTENT.check_tls(|secured, case| {
        let mut idle = secured.connect(&TLS13)?;
        idle.send(b"in\n")?;
        idle.expect(b"in\n")?;
        let mut busy = secured.connect(&TLS13)?;
        let line = format!("file {LEN}\n");
        busy.send(line.as_bytes())?;
        busy.expect(line.as_bytes())?;
        secured.server.terminate()?;
        idle.expect_all(b"")?;
        busy.expect_all(&case.content.bytes()[..LEN])?;
        ensure!(secured.server.wait()?.success(), "{}", secured.server.stderr());
        Ok(())
    });
}

pub fn plain_bytes_on_a_tls_address_get_an_alert() {
    PLAIN.check_tls(|secured, _| {
        for request in ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "hello\n"] {
            let mut client = Client::connect(&secured.server.addresses()[1])?;
            client.send(request.as_bytes())?;
            let got = client.read_to_end()?;
            ensure!(got.len() == 7 && got[0] == 21, "no alert: {got:?}");
        }
        Ok(())
    });
}

/// Another implementation, which asks for new keys by a second handshake (RFC 5746).
pub fn openssl_is_answered_and_its_renegotiation_refused() {
    let Some(openssl) = installed_program("openssl").unwrap() else { return };
    PLAIN.check_tls(|secured, _| {
        let mut command = Command::new(&openssl);
        command.args(["s_client", "-tls1_2", "-connect", &secured.server.addresses()[1].to_string()]);
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

/// Everything that is pushed goes through the layer, in order, and so does the end of a client that does not read.
pub fn pushes_and_their_limit_hold_over_tls() {
    let setup = Setup { args: &["--stall-timeout", "10min"], ..PLAIN };
    setup.check_tls(|secured, _| {
        let (mut client, mut idle) = (secured.connect(&TLS13)?, secured.connect(&TLS13)?);
        for (client, line) in [(&mut client, "subscribe 67108864\n"), (&mut idle, "subscribe 1000000\n")] {
            client.send(line.as_bytes())?;
            client.expect(line.as_bytes())?;
        }
        let mut publisher = secured.server.connect()?;
        let pushed = lines(200, 50_000);
        publisher.send(b"publish 200 50000\n")?;
        client.expect(&pushed)?;
        let said = publisher.read_line()?;
        client.send(b"after\n")?;
        client.expect(b"after\n")?;
        let (got, _) = idle.read_until_disconnect();
        ensure!(got.len() < pushed.len() && pushed.starts_with(&got), "{} bytes; {said}", got.len());
        Ok(())
    });
}
