//! HTTPS: plain and TLS addresses of one server, their ends, renewal, and the way from one to the other.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use sys::{ktls::Support, listen::Address};
use testkit::{
    Client, DriverKind, Server, eventually, expect_failure, run_to_end,
    tls::{Certificates, HandshakeKind, TLS12, TLS13, TlsClient},
};

use crate::process::setup::{EXE, Http, LARGE, PLAIN, content, get, get_and_close};

/// Directory with an index and a challenge of a certificate authority.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("index.html"), "home").unwrap();
    fs::create_dir_all(tree.path().join(".well-known/acme-challenge")).unwrap();
    fs::write(tree.path().join(".well-known/acme-challenge/token"), "proof").unwrap();
    tree
}

/// A server with a plain address, a TLS address and more flags.
fn start(
    driver: DriverKind,
    root: &std::path::Path,
    certificates: &Certificates,
    args: &[&str],
) -> anyhow::Result<Server> {
    let mut command = PLAIN.command(driver, root);
    command.args(certificates.flags("server")).args(args);
    Server::start_command(command, 2)
}

fn tls(server: &Server) -> &Address {
    &server.addresses()[1]
}

#[test]
fn one_server_answers_at_plain_and_tls_addresses() {
    let (certificates, content) = (Certificates::new().unwrap(), content(LARGE));
    PLAIN.for_each_driver(|driver| {
        let mut server = start(driver, content.dir(), &certificates, &[])?;
        for version in [&TLS12, &TLS13] {
            let mut secured = certificates.connect(tls(&server), version)?;
            let mut plain = Http::connect(server.address())?;
            for _ in 0..3 {
                let (one, other) = (secured.ask(&get("/content"))?, plain.get("/content")?);
                ensure!(one.status == 200 && one.body == content.bytes() && one.body == other.body);
                ensure!(secured.ask("HEAD /content HTTP/1.1\r\nHost: h\r\n\r\n")?.body.is_empty());
                ensure!(secured.ask(&get("/missing"))?.status == 404);
            }
            let last = secured.ask(&get_and_close("/content"))?;
            ensure!(last.field("connection") == Some("close"));
            secured.expect_all(b"").context("close_notify")?;
        }
        server.drain()
    });
}

#[test]
fn the_wrong_protocol_on_an_address_ends_cleanly() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    PLAIN.for_each_driver(|driver| {
        let mut server = start(driver, tree.path(), &certificates, &[])?;
        for text in ["GET / HTTP/1.1\r\nHost: h\r\n\r\n", "G", "nonsense"] {
            let mut client = Client::connect(tls(&server))?;
            client.send(text.as_bytes())?;
            let said = String::from_utf8(client.read_to_end()?)?;
            ensure!(said.starts_with("HTTP/1.1 400 ") && said.contains("This port speaks TLS"), "{text}: {said}");
        }
        let mut binary = Client::connect(tls(&server))?;
        binary.send(&[0, 1, 2, 3])?;
        ensure!(binary.read_to_end()?.first() == Some(&21), "an alert");
        let mut hello = certificates.connect(server.address(), &TLS13)?;
        ensure!(hello.send(b"GET").and_then(|()| hello.expect(b"x")).is_err());
        let mut hello = Client::connect(server.address())?;
        hello.send(&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc])?;
        ensure!(hello.read_to_end()?.starts_with(b"HTTP/1.1 400 "));
        ensure!(certificates.connect(tls(&server), &TLS13)?.ask(&get("/"))?.body == b"home");
        server.drain()
    });
}

#[test]
fn a_handshake_that_never_ends_is_cut_off() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    PLAIN.for_each_driver(|driver| {
        let mut server = start(driver, tree.path(), &certificates, &["--request-timeout", "200ms"])?;
        for begin in [&b""[..], &[22], &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]] {
            let mut client = Client::connect(tls(&server))?;
            client.send(begin)?;
            let got = client.read_to_end();
            ensure!(got.as_ref().is_ok_and(Vec::is_empty) || got.is_err(), "{got:?}");
        }
        // A peer that sends a byte now and then gains no time by it.
        let mut trickle = Client::connect(tls(&server))?;
        let sends = [22, 3, 1, 2, 0, 1].iter().cycle().take(500).take_while(|&&byte| {
            thread::sleep(Duration::from_millis(20));
            trickle.send(&[byte]).is_ok()
        });
        ensure!(sends.count() < 500, "it was never cut off");
        ensure!(certificates.connect(tls(&server), &TLS13)?.ask(&get("/"))?.body == b"home");
        server.drain()
    });
}

#[test]
fn challenges_in_the_clear_are_protected_like_their_path() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    // The password is "password": openssl passwd -6 -salt saltsalt password.
    let hash = "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/";
    let users = certificates.path("users");
    fs::write(&users, format!("ada:{hash}\n")).unwrap();
    let users = users.display().to_string();
    let mut server =
        start(DriverKind::DEFAULT, tree.path(), &certificates, &["--https-redirect", "--basic-auth", &users]).unwrap();
    let mut plain = Http::connect(server.address()).unwrap();
    assert_eq!(plain.get("/").unwrap().status, 301);
    assert_eq!(plain.get("/.well-known/acme-challenge/token").unwrap().status, 401);
    let mut client = certificates.connect(tls(&server), &TLS13).unwrap();
    assert_eq!(client.ask(&get("/")).unwrap().status, 401);
    let known = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YWRhOnBhc3N3b3Jk\r\n\r\n";
    assert_eq!(client.ask(known).unwrap().body, b"home");
    server.drain().unwrap();
}

/// Resumed sessions and long transfers go on while certificates are replaced.
#[test]
fn renewal_loses_no_connection_and_no_ticket() {
    let content = content(LARGE);
    PLAIN.for_each_driver(|driver| {
        let certificates = Certificates::new()?;
        let mut server = start(driver, content.dir(), &certificates, &[])?;
        let (address, is_over, asked) = (tls(&server).clone(), AtomicBool::new(false), AtomicUsize::new(0));
        let clients = || -> anyhow::Result<()> {
            let config = certificates.client(&TLS13, None)?;
            while !is_over.load(Relaxed) {
                let mut client = TlsClient::connect(&address, &config)?;
                for _ in 0..3 {
                    ensure!(client.ask("HEAD /content HTTP/1.1\r\nHost: h\r\n\r\n")?.status == 200);
                    asked.fetch_add(1, Relaxed);
                }
                drop(client);
            }
            let mut client = TlsClient::connect(&address, &config)?;
            ensure!(client.ask(&get("/content"))?.body == content.bytes());
            ensure!(client.handshake_kind() == Some(HandshakeKind::Resumed), "a ticket was lost");
            Ok(())
        };
        let mut old = certificates.connect(&address, &TLS13)?;
        old.send(get("/content").as_bytes())?;
        thread::scope(|scope| {
            let clients = [scope.spawn(clients), scope.spawn(clients)];
            let renew = || -> anyhow::Result<()> {
                for round in 0..3 {
                    let issued = certificates.issue("server", &["localhost"])?;
                    server.process().hang_up()?;
                    eventually("the new certificate is shown", || {
                        let mut client = certificates.connect(&address, &TLS13)?;
                        client.ask(&get("/missing"))?;
                        Ok(client.certificate() == Some(&issued[..]))
                    })?;
                    let before = asked.load(Relaxed);
                    eventually("clients go on", || Ok(asked.load(Relaxed) > before + 2)).context(round)?;
                }
                Ok(())
            };
            let renewed = renew();
            is_over.store(true, Relaxed);
            clients.into_iter().try_for_each(|client| client.join().expect("a client"))?;
            renewed
        })?;
        ensure!(old.ask("")?.body == content.bytes(), "the transfer that had begun before");
        server.drain()
    });
}

#[test]
fn a_certificate_that_cannot_be_used_leaves_the_old_one() {
    let tree = tree();
    PLAIN.for_each_driver(|driver| {
        let certificates = Certificates::new()?;
        let mut server = start(driver, tree.path(), &certificates, &[])?;
        let shown = || -> anyhow::Result<Vec<u8>> {
            let mut client = certificates.connect(tls(&server), &TLS13)?;
            ensure!(client.ask(&get("/"))?.body == b"home");
            Ok(client.certificate().context("no certificate")?.to_vec())
        };
        let before = shown()?;
        fs::write(certificates.path("server.key"), "nonsense")?;
        server.process().hang_up()?;
        eventually("the log says so", || {
            let said = server.stderr();
            Ok(said.contains("the certificates in use stay") && said.contains("no private key in PEM"))
        })?;
        ensure!(shown()? == before);
        ensure!(server.stop()?.success());
        Ok(())
    });
}

#[test]
fn plain_requests_are_sent_to_https_except_for_challenges() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    PLAIN.for_each_driver(|driver| {
        let flags = ["--https-redirect", "--hsts=max-age=300; includeSubDomains"];
        let mut server = start(driver, tree.path(), &certificates, &flags)?;
        let Address::Tcp(secured) = tls(&server) else { anyhow::bail!("not TCP") };
        let mut plain = Http::connect(server.address())?;
        for (request, status, location) in [
            (
                "GET /a%20b?x=1 HTTP/1.1\r\nHost: example.org:80",
                301,
                format!("https://example.org:{}/a%20b?x=1", secured.port()),
            ),
            ("HEAD / HTTP/1.1\r\nHost: [::1]", 301, format!("https://[::1]:{}/", secured.port())),
            ("GET http://other.org/x HTTP/1.1\r\nHost: h", 301, format!("https://other.org:{}/x", secured.port())),
            ("DELETE /a HTTP/1.1\r\nHost: h", 308, format!("https://h:{}/a", secured.port())),
            ("GET /.well-known/acme-challenge/../../a HTTP/1.1\r\nHost: h", 301, String::new()),
        ] {
            let got = plain.ask(&format!("{request}\r\n\r\n"))?;
            ensure!(got.status == status, "{request}: {}", got.status);
            ensure!(location.is_empty() || got.field("location") == Some(&location), "{:?}", got.fields);
            ensure!(got.field("strict-transport-security").is_none(), "{:?}", got.fields);
        }
        for (target, status) in [("/.well-known/acme-challenge/token", 200), ("/.well-known/acme-challenge/none", 404)]
        {
            let got = plain.get(target)?;
            ensure!(got.status == status && got.field("strict-transport-security").is_none(), "{target}: {got:?}");
        }
        ensure!(plain.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")?.status == 308);
        plain.expect_end()?;
        ensure!(Http::connect(server.address())?.ask("GET / HTTP/1.0\r\n\r\n")?.status == 400, "it does not say where");
        let mut client = certificates.connect(tls(&server), &TLS13)?;
        for (target, status) in [("/", 200), ("/none", 404), ("/.well-known", 301)] {
            let got = client.ask(&get(target))?;
            let hsts = got.field("strict-transport-security");
            ensure!(got.status == status && hsts == Some("max-age=300; includeSubDomains"), "{target}: {got:?}");
        }
        server.drain()
    });
}

#[test]
fn handshakes_are_counted_by_version_and_kind() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    PLAIN.for_each_driver(|driver| {
        let socket = Address::Unix(certificates.path(&format!("{driver}.metrics")));
        let mut server = start(driver, tree.path(), &certificates, &["--metrics", &socket.to_string()])?;
        for (version, connections) in [(&TLS12, 2), (&TLS13, 3)] {
            let config = certificates.client(version, None)?;
            for _ in 0..connections {
                ensure!(TlsClient::connect(tls(&server), &config)?.ask(&get("/"))?.status == 200);
            }
        }
        let mut plain = Client::connect(tls(&server))?;
        plain.send(b"GET / HTTP/1.0\r\n\r\n")?;
        plain.read_to_end()?;
        let open = certificates.connect(tls(&server), &TLS13)?;
        eventually("the counts are right", || {
            let text = {
                let mut scraper = Client::connect(&socket)?;
                scraper.send(get_and_close("/metrics").as_bytes())?;
                String::from_utf8(scraper.read_to_end()?)?
            };
            Ok([
                r#"tls_handshakes_total{version="1.2",kind="full"} 1"#,
                r#"tls_handshakes_total{version="1.2",kind="resumed"} 1"#,
                r#"tls_handshakes_total{version="1.3",kind="full"} 1"#,
                r#"tls_handshakes_total{version="1.3",kind="resumed"} 2"#,
                "tls_failures_total 1",
                "tls_plain_connections_total 1",
                "tls_connections_open 1",
            ]
            .iter()
            .all(|line| text.contains(&format!("http_server_{line}\n"))))
        })?;
        drop(open);
        ensure!(server.stop()?.success());
        Ok(())
    });
}

#[test]
fn a_drain_completes_transfers_over_tls() {
    let (certificates, content) = (Certificates::new().unwrap(), content(LARGE));
    PLAIN.for_each_driver(|driver| {
        let mut server = start(driver, content.dir(), &certificates, &[])?;
        let (mut busy, mut idle) =
            (certificates.connect(tls(&server), &TLS13)?, certificates.connect(tls(&server), &TLS12)?);
        ensure!(idle.ask(&get("/missing"))?.status == 404);
        busy.send(get("/content").as_bytes())?;
        busy.expect(b"HTTP/1.1 200 OK\r\n")?;
        server.terminate()?;
        idle.expect_all(b"")?;
        let rest = busy.read_to_end()?;
        ensure!(rest.ends_with(content.bytes()), "{} bytes", rest.len());
        ensure!(server.wait()?.success());
        Ok(())
    });
}

#[test]
fn flags_and_keys_of_tls_mean_the_same() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    certificates.issue("other", &["*.other.test"]).unwrap();
    let config = tree.path().join("site.toml");
    let path = |name: &str| certificates.path(name).display().to_string();
    let text = format!(
        "tls-listen = [\"127.0.0.1:0\"]\ntls-cert = [{:?}, {:?}]\ntls-key = [{:?}, {:?}]\nroot = {:?}\nhsts = \"max-age=9\"\n",
        path("server.pem"),
        path("other.pem"),
        path("server.key"),
        path("other.key"),
        tree.path(),
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(EXE);
    command.arg("--config").arg(&config);
    // Without --listen there is no plain address.
    let mut server = Server::start_command(command, 1).unwrap();
    let got = certificates.connect(server.address(), &TLS13).unwrap().ask(&get("/")).unwrap();
    assert_eq!((got.status, got.field("strict-transport-security")), (200, Some("max-age=9")));
    server.drain().unwrap();
}

#[test]
fn bad_certificates_are_one_line_and_status_2() {
    let (certificates, tree) = (Certificates::new().unwrap(), tree());
    certificates.issue("other", &["other.test"]).unwrap();
    fs::write(certificates.path("empty.pem"), "").unwrap();
    let path = |name: &str| certificates.path(name).display().to_string();
    let (pem, key) = (path("server.pem"), path("server.key"));
    for (certificate, key, ca, why) in [
        (path("none.pem"), key.clone(), None, "none.pem: No such file or directory"),
        (path("empty.pem"), key.clone(), None, "no certificate in PEM"),
        (pem.clone(), path("other.key"), None, "the key does not belong to the certificate"),
        (pem.clone(), pem.clone(), None, "no private key in PEM"),
        (tree.path().display().to_string(), key.clone(), None, "Is a directory"),
        (pem.clone(), key.clone(), Some(path("empty.pem")), "empty.pem: no certificate in PEM"),
    ] {
        for check in [false, true] {
            let mut command = Command::new(EXE);
            command.args(["--tls-listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key, "-d"]);
            command.arg(tree.path()).args(ca.iter().flat_map(|ca| ["--tls-client-ca", ca]));
            command.args(check.then_some("--check-config"));
            let said = expect_failure(command, 2).stderr;
            assert!(said.lines().count() == 1 && said.starts_with("error: ") && said.contains(why), "{said}");
        }
    }
    for (flags, why) in [
        (&["--tls-listen", "127.0.0.1:0"][..], "--tls-listen needs a certificate"),
        (&["--https-redirect"], "--https-redirect needs --tls-listen"),
        (&["--hsts"], "--hsts needs --tls-listen"),
        (
            &[
                "--tls-listen",
                "127.0.0.1:0",
                "--tls-cert",
                &pem,
                "--tls-key",
                &key,
                "--listen",
                "127.0.0.1:0",
                "--hsts",
            ],
            "needs --https-redirect",
        ),
    ] {
        let mut command = Command::new(EXE);
        command.args(flags);
        let said = expect_failure(command, 2).stderr;
        assert!(said.contains(why), "{said}");
    }
}

/// A server that must have the kernel's TLS does not start where there is none; where there is, it serves.
#[test]
fn kernel_tls_is_refused_at_the_start_where_the_kernel_has_none() {
    let certificates = Certificates::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(EXE);
    command.args(certificates.flags("server")).args(["--ktls", "on"]).arg(directory.path());
    match Support::probe() {
        Ok(_) => drop(Server::start_command(command, 1).unwrap()),
        Err(error) => {
            let ended = run_to_end(command).unwrap();
            assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
            let said = &ended.stderr;
            assert!(said.contains("--ktls on: this kernel has no TLS") && said.contains(&error.to_string()), "{said}");
        }
    }
}
