//! TLS: redis-cli and redis-py on every driver, both kinds of address, renewal.

use std::{fs, process::Command};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{
    Client, DriverKind, Server, eventually, installed_program,
    tls::{Certificates, TLS12, TLS13},
};

use crate::common::{EXE, exchange, on_every_driver, python, run};

fn start(driver: DriverKind, certificates: &Certificates, args: &[&str]) -> anyhow::Result<Server> {
    let mut command = Command::new(EXE);
    command.args(["--driver", driver.name(), "--threads", "2", "--listen", "127.0.0.1:0"]);
    command.args(certificates.flags("server")).args(args);
    Server::start_command(command, 2)
}

fn tls(server: &Server) -> &Address {
    &server.addresses()[1]
}

fn port(address: &Address) -> String {
    address.to_string().rsplit(':').next().unwrap_or_default().to_owned()
}

#[test]
fn redis_cli_works_over_tls() {
    let Some(program) = installed_program("redis-cli").unwrap() else { return };
    let certificates = Certificates::new().unwrap();
    certificates.issue("client", &["client"]).unwrap();
    let path = |name: &str| certificates.path(name).display().to_string();
    on_every_driver(|driver| {
        let authority = path("authority.pem");
        let mut open = start(driver, &certificates, &[])?;
        let mut closed = start(driver, &certificates, &["--tls-client-ca", &authority])?;
        let cli = |server: &Server, args: &[&str]| {
            let mut command = Command::new(&program);
            command.args(["--tls", "--cacert", &authority, "--sni", "localhost", "-p", &port(tls(server))]).args(args);
            testkit::run_to_end(command)
        };
        let large = "x".repeat(100_000);
        for (args, wanted) in [
            (&["set", "k", &large][..], "OK\n".to_owned()),
            (&["-3", "get", "k"], format!("{large}\n")),
            (&["-r", "50", "incr", "n"], (1..=50).map(|n| format!("{n}\n")).collect()),
            (&["nonsense"], "ERR unknown command 'nonsense', with args beginning with: \n\n".to_owned()),
        ] {
            let got = cli(&open, args)?;
            ensure!(got.stdout == wanted, "{args:?}: {} {}", got.stdout, got.stderr);
        }
        let stranger = cli(&closed, &["ping"])?;
        ensure!(!stranger.stdout.contains("PONG"), "it has no certificate: {}", stranger.stdout);
        let known = cli(&closed, &["--cert", &path("client.pem"), "--key", &path("client.key"), "ping"])?;
        ensure!(known.stdout == "PONG\n", "{}{}", known.stdout, known.stderr);
        open.drain()?;
        closed.drain()
    });
}

#[test]
fn redis_py_works_over_tls() {
    let Some(python) = python(&["redis"]).unwrap() else { return };
    let certificates = Certificates::new().unwrap();
    let script = format!("{}/tests/it/stock/redis_py.py", env!("CARGO_MANIFEST_DIR"));
    on_every_driver(|driver| {
        let mut server = start(driver, &certificates, &[])?;
        let mut command = Command::new(&python);
        command.args(["-B", &script, &port(tls(&server))]).arg(certificates.path("authority.pem"));
        let finished = run(command)?;
        ensure!(finished.stdout.lines().last() == Some("done"), "{}{}", finished.stdout, finished.stderr);
        ensure!(server.stop()?.success());
        Ok(())
    });
}

#[test]
fn plain_and_tls_clients_share_the_keys() {
    let certificates = Certificates::new().unwrap();
    on_every_driver(|driver| {
        let mut server = start(driver, &certificates, &[])?;
        let mut plain = server.connect()?;
        for (round, version) in [&TLS12, &TLS13].into_iter().enumerate() {
            let mut secured = certificates.connect(tls(&server), version)?;
            // Enough of a pipeline for several records, and for several turns.
            let (mut requests, mut replies) = (String::new(), String::new());
            for key in 0..20_000 {
                requests += &format!("SET k{key} {round}\r\nGET k{key}\r\n");
                replies += &format!("+OK\r\n$1\r\n{round}\r\n");
            }
            secured.send(requests.as_bytes())?;
            secured.expect(replies.as_bytes())?;
            exchange(&mut plain, b"GET k19999\r\n", format!("$1\r\n{round}\r\n").as_bytes())?;
            secured.half_close()?;
            secured.expect_all(b"").context("close_notify")?;
        }
        server.drain()
    });
}

#[test]
fn the_wrong_protocol_on_an_address_is_closed() {
    let certificates = Certificates::new().unwrap();
    on_every_driver(|driver| {
        let mut server = start(driver, &certificates, &["--request-timeout", "30s"])?;
        let mut plain = Client::connect(tls(&server))?;
        plain.send(b"PING\r\n")?;
        ensure!(plain.read_to_end()? == b"-ERR this port speaks TLS\r\n");
        let mut hello = server.connect()?;
        hello.send(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc])?;
        ensure!(hello.read_to_end().map_or(true, |got| got.is_empty()), "an answer in the clear");
        server.drain()
    });
}

#[test]
fn renewal_shows_new_certificates_and_keeps_good_ones() {
    on_every_driver(|driver| {
        let certificates = Certificates::new()?;
        let mut server = start(driver, &certificates, &[])?;
        let shown = || -> anyhow::Result<Vec<u8>> {
            let mut client = certificates.connect(tls(&server), &TLS13)?;
            client.send(b"PING\r\n")?;
            client.expect(b"+PONG\r\n")?;
            Ok(client.certificate().context("no certificate")?.to_vec())
        };
        let mut old = certificates.connect(tls(&server), &TLS13)?;
        old.send(b"SET k v\r\n")?;
        old.expect(b"+OK\r\n")?;
        let issued = certificates.issue("server", &["localhost"])?;
        server.process().hang_up()?;
        eventually("the new certificate is shown", || Ok(shown()? == issued))?;
        fs::write(certificates.path("server.pem"), "nonsense")?;
        server.process().hang_up()?;
        eventually("the log says so", || Ok(server.stderr().contains("the certificates in use stay")))?;
        ensure!(shown()? == issued);
        old.send(b"GET k\r\n")?;
        old.expect(b"$1\r\nv\r\n")?;
        ensure!(server.stop()?.success());
        Ok(())
    });
}
