//! Foreign clients of https: curl, openssl, and the one of Go's library.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use sys::listen::Address;
use testkit::{DriverKind, Finished, Server, installed_program, run_to_end, tls::Certificates};

use crate::process::setup::{PLAIN, content};

/// Reads a file and a missing one, each five times on one connection, and again with a session that is resumed. Then it reads the
/// file and parts of it 32 times at once, by HTTP/2.
const GO_CLIENT: &str = include_str!("https_client.go");

struct Site {
    certificates: Certificates,
    content: testkit::Content,
}

impl Site {
    /// Certificates for `localhost` and for `other.test`, one for a client, and a file of 3 MiB.
    fn new() -> Self {
        let certificates = Certificates::new().unwrap();
        certificates.issue("other", &["other.test"]).unwrap();
        certificates.issue("client", &["client"]).unwrap();
        Self { certificates, content: content(3 << 20) }
    }

    fn path(&self, name: &str) -> String {
        self.certificates.path(name).display().to_string()
    }

    /// Tests the law on a server on every driver, which must then still drain.
    fn for_each_server(&self, args: &[&str], law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
        PLAIN.for_each_driver(|driver| {
            let mut command = PLAIN.command(driver, self.content.dir());
            command.args(self.certificates.flags("server"));
            command.args(["--tls-cert", &self.path("other.pem"), "--tls-key", &self.path("other.key")]).args(args);
            let mut server = Server::start_command(command, 2)?;
            law(&server, driver).with_context(|| format!("it said: {}", server.stderr()))?;
            server.drain()
        });
    }
}

fn port(server: &Server) -> String {
    match &server.addresses()[1] {
        Address::Tcp(address) => address.port().to_string(),
        Address::Unix(_) => String::new(),
    }
}

fn run(program: &Path, args: &[&str]) -> anyhow::Result<Finished> {
    let mut command = Command::new(program);
    command.args(args);
    run_to_end(command)
}

#[test]
fn curl_is_served_over_tls() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let site = Site::new();
    let authority = site.path("authority.pem");
    site.for_each_server(&[], |server, driver| {
        let port = port(server);
        let curl = |args: &[&str]| {
            let usual = ["-q", "-sS", "--noproxy", "*", "--max-time", "30", "--http1.1", "--cacert", &authority];
            run(&curl, &[&usual, args].concat())
        };
        let url = format!("https://localhost:{port}/content");
        let got = site.content.dir().join(format!("{driver}.got"));
        for version in ["1.2", "1.3"] {
            let (least, output) = (format!("--tlsv{version}"), got.display().to_string());
            let write = "%{http_code} %{http_version} %{num_connects} %{ssl_verify_result} ";
            let args = [&least, "--tls-max", version, "-w", write, "-o", &output, &url, "-o", &output, &url];
            let finished = curl(&args)?;
            ensure!(finished.stdout == "200 1.1 1 0 200 1.1 0 0 ", "{version}: {finished:?}");
            ensure!(fs::read(&got)? == site.content.bytes(), "wrong bytes");
        }
        let (other, here) = (format!("https://other.test:{port}/none"), format!("other.test:{port}:127.0.0.1"));
        let named = curl(&["--resolve", &here, "-w", "%{http_code}", "-o", "/dev/null", &other])?;
        ensure!(named.stdout == "404", "the certificate of the name that is asked for: {named:?}");
        let (stranger, here) = (format!("https://stranger.test:{port}/"), format!("stranger.test:{port}:127.0.0.1"));
        ensure!(curl(&["--resolve", &here, &stranger])?.code() == Some(60), "the first certificate has another name");
        ensure!(curl(&["--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", &url])?.code() == Some(35));
        Ok(())
    });
}

#[test]
fn curl_needs_a_certificate_where_clients_have_one() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let site = Site::new();
    let authority = site.path("authority.pem");
    site.for_each_server(&["--tls-client-ca", &authority], |server, _| {
        let url = format!("https://localhost:{}/none", port(server));
        for version in ["1.2", "1.3"] {
            let usual = ["-q", "-sS", "--noproxy", "*", "--max-time", "30", "--http1.1", "--cacert", &authority];
            let usual = [&usual[..], &["--tls-max", version, "-o", "/dev/null", "-w", "%{http_code}", &url]].concat();
            let stranger = run(&curl, &usual)?;
            ensure!(stranger.stdout == "000" && stranger.code() != Some(0), "{stranger:?}");
            let own = ["--cert", &site.path("client.pem"), "--key", &site.path("client.key")];
            let known = run(&curl, &[&usual[..], &own].concat())?;
            ensure!(known.stdout == "404", "{known:?}");
        }
        Ok(())
    });
}

#[test]
fn openssl_agrees_on_version_name_protocol_and_session() {
    let Some(openssl) = installed_program("openssl").unwrap() else { return };
    let site = Site::new();
    let authority = site.path("authority.pem");
    site.for_each_server(&[], |server, driver| {
        let address = server.addresses()[1].to_string();
        let session = site.content.dir().join(format!("{driver}.session")).display().to_string();
        let ask = |args: &[&str]| -> anyhow::Result<String> {
            let mut command = Command::new(&openssl);
            command.args(["s_client", "-connect", &address, "-CAfile", &authority, "-ign_eof"]).args(args);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut client = command.spawn()?;
            let mut input = client.stdin.take().context("no standard input")?;
            // It may have ended by itself.
            let _ = input.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let finished = client.wait_with_output()?;
            drop(input);
            Ok(String::from_utf8_lossy(&[finished.stdout, finished.stderr].concat()).into_owned())
        };
        for (version, line) in [("-tls1_2", "New, TLSv1.2"), ("-tls1_3", "New, TLSv1.3")] {
            let args = [version, "-servername", "localhost", "-alpn", "h3,http/1.1", "-sess_out", &session];
            let said = ask(&args)?;
            for wanted in
                [line, "ALPN protocol: http/1.1", "Verification: OK", "CN = server", "HTTP/1.1 404 ", "closed"]
            {
                ensure!(said.replace("CN=", "CN = ").contains(wanted), "{version}: no {wanted}: {said}");
            }
            let resumed = ask(&[version, "-servername", "localhost", "-sess_in", &session])?;
            ensure!(resumed.contains(&line.replace("New", "Reused")) && resumed.contains("HTTP/1.1 404 "), "{resumed}");
            let other = ask(&[version, "-servername", "other.test"])?.replace("CN=", "CN = ");
            ensure!(other.contains("CN = other") && other.contains("HTTP/1.1 404 "), "{other}");
        }
        let nothing_shared = ask(&["-alpn", "h3"])?;
        ensure!(nothing_shared.contains("alert no application protocol"), "{nothing_shared}");
        let old = ask(&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"])?;
        ensure!(old.contains("SSL alert number") && old.contains("no peer certificate"), "{old}");
        Ok(())
    });
}

#[test]
fn openssl_may_not_renegotiate() {
    let Some(openssl) = installed_program("openssl").unwrap() else { return };
    let site = Site::new();
    site.for_each_server(&[], |server, _| {
        let mut command = Command::new(&openssl);
        command.args(["s_client", "-tls1_2", "-connect", &server.addresses()[1].to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = command.spawn()?;
        let mut input = client.stdin.take().context("no standard input")?;
        let mut output = client.stdout.take().context("no standard output")?;
        input.write_all(b"HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n")?;
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !said.windows(9).any(|end| end == b" 404 Not ") {
            ensure!(output.read(&mut byte)? == 1, "it ended: {}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
        input.write_all(b"R\n")?;
        let errors = client.wait_with_output()?.stderr;
        ensure!(String::from_utf8_lossy(&errors).contains("no renegotiation"));
        Ok(())
    });
}

#[test]
fn the_client_of_go_is_served_over_tls() {
    let Some(go) = installed_program("go").unwrap() else { return };
    let site = Site::new();
    let (source, program) = (site.certificates.path("client.go"), site.certificates.path("client-of-go"));
    fs::write(&source, GO_CLIENT).unwrap();
    let mut build = Command::new(go);
    // The standard library is enough: nothing is downloaded.
    build.envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local")]).args(["build", "-o"]).arg(&program).arg(&source);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    site.for_each_server(&[], |server, _| {
        let url = format!("https://localhost:{}", port(server));
        let finished = run(&program, &[&site.path("authority.pem"), &url, &site.content.path().display().to_string()])?;
        ensure!(finished.stdout == "done\n", "{finished:?}");
        Ok(())
    });
}
