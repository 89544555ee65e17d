//! `--tls` and `https`: the same counts, and outcomes that only TLS has.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
};

use rustls::{ServerConfig, ServerConnection, Stream, pki_types::PrivateKeyDer};

use super::support::{
    Run, loadgen,
    socket_server::{Act, Server, http_request, ok, resp_request},
};

/// Behaviour of a server on its connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Answers every request.
    Good,
    /// Ends a body with the connection, and says so.
    Ends,
    /// Ends it without a word, as somebody on the way could.
    IsCutOff,
    /// Shakes hands with the first, which is the probe, and with nobody else.
    Refuses,
}

struct TlsServer {
    port: u16,
    /// The certificate, as a file.
    authority: PathBuf,
    _directory: tempfile::TempDir,
    /// The names that were asked for.
    names: Receiver<Option<String>>,
}

impl TlsServer {
    fn start(manner: Manner, framing: fn(&[u8]) -> Option<usize>, answer: Vec<u8>) -> Self {
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        Self::certified(params, manner, framing, answer)
    }

    fn certified(
        params: rcgen::CertificateParams,
        manner: Manner,
        framing: fn(&[u8]) -> Option<usize>,
        answer: Vec<u8>,
    ) -> Self {
        let signing_key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&signing_key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        let authority = directory.path().join("ca.pem");
        std::fs::write(&authority, certificate.pem()).expect("written");
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("they belong together");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (config, (say, names)) = (Arc::new(config), channel());
        std::thread::spawn(move || {
            for (number, socket) in listener.incoming().flatten().enumerate() {
                let (config, say, answer) = (Arc::clone(&config), say.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut session = ServerConnection::new(config).expect("a session");
                    if manner == Manner::Refuses && number > 0 {
                        return;
                    }
                    converse(&mut session, socket, manner, framing, &answer);
                    // Nobody may be listening any more.
                    let _ = say.send(session.server_name().map(str::to_owned));
                });
            }
        });
        Self { port, authority, _directory: directory, names }
    }

    fn http(manner: Manner) -> Self {
        let answer = match manner {
            Manner::Good | Manner::Refuses => ok("sealed"),
            Manner::Ends | Manner::IsCutOff => b"HTTP/1.0 200 OK\r\n\r\nuntil the end".to_vec(),
        };
        Self::start(manner, http_request, answer)
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.port)
    }

    fn authority(&self) -> &str {
        self.authority.to_str().expect("UTF-8")
    }
}

fn converse(
    session: &mut ServerConnection,
    mut socket: TcpStream,
    manner: Manner,
    framing: fn(&[u8]) -> Option<usize>,
    answer: &[u8],
) {
    let (mut inbox, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let mut stream = Stream::new(session, &mut socket);
        while let Some(end) = framing(&inbox) {
            inbox.drain(..end);
            if stream.write_all(answer).is_err() {
                return;
            }
            if manner != Manner::Good {
                if manner == Manner::Ends {
                    session.send_close_notify();
                    // The client may have seen enough.
                    let _ = session.write_tls(&mut socket);
                }
                let _ = socket.shutdown(std::net::Shutdown::Write);
                while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(length) => inbox.extend_from_slice(&buffer[..length]),
        }
    }
}

#[test]
fn requests_are_verified_through_tls_on_both_engines() {
    let server = TlsServer::http(Manner::Good);
    for engine in ["epoll", "uring"] {
        for load in [&["-n", "200", "-P", "4"][..], &["-n", "50", "-R", "1000"], &["-n", "20", "--no-keep-alive"]] {
            let options = [&["-c", "3", "--tls-ca", server.authority(), "--engine", engine], load].concat();
            let run = Run::http(&server.url(), &options);
            run.assert_errors(&[]);
            assert_eq!((run.result.requests, &run.result.config["tls"]), (run.result.ok, &true.into()));
        }
    }
    assert_eq!(server.names.recv().expect("the probe's"), Some("localhost".to_owned()));
}

#[test]
fn a_cache_is_driven_through_tls() {
    let value = format!("$5000\r\n{}\r\n", "x".repeat(5_000)).into_bytes();
    let server = TlsServer::start(Manner::Good, resp_request, value);
    let address = format!("127.0.0.1:{}", server.port);
    // The certificate is not for this address.
    let named = ["--tls", "--tls-ca", server.authority(), "--tls-server-name", "localhost"];
    let options = [
        &["-c", "2", "-n", "1000", "-P", "50", "--constant-values", "--value-size", "5000", "--keys", "100"],
        &named[..],
    ];
    let run = Run::kv(&address, &options.concat());
    run.assert_errors(&[]);
    assert_eq!(run.result.hits, Some(1_000));
    let refused = loadgen(&["kv", "-n", "1", "--tls", "--tls-ca", server.authority(), &address]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn an_unknown_certificate_is_refused_unless_insecure() {
    let (server, other) = (TlsServer::http(Manner::Good), TlsServer::http(Manner::Good));
    let output = loadgen(&["http", "-n", "1", "--tls-ca", other.authority(), &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("--tls-insecure") && stderr.contains("certificate"), "{stderr}");
    Run::http(&server.url(), &["-c", "1", "-n", "5", "--tls-insecure"]).assert_errors(&[]);
    let output =
        loadgen(&["http", "-n", "1", "--tls-ca", server.authority(), "--tls-server-name", "other", &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && stderr.contains("--tls-server-name NAME"), "{stderr}");
    let output = loadgen(&["http", "-n", "1", "--tls-ca", "/nonexistent.pem", &server.url()]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_certificate_of_an_authority_is_refused_with_advice() {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let server = TlsServer::certified(params, Manner::Good, http_request, ok("sealed"));
    let output = loadgen(&["http", "-n", "1", "--format", "json", "--tls-ca", server.authority(), &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("CA:FALSE") && stderr.contains("--tls-insecure"), "{stderr}");
    let result: loadgen::result::RunResult = serde_json::from_slice(&output.stdout).expect("a result");
    assert_eq!(result.errors, [("tls".to_owned(), 1)].into());
    Run::http(&server.url(), &["-c", "1", "-n", "5", "--tls-insecure"]).assert_errors(&[]);
}

#[test]
fn an_end_without_close_notify_is_a_short_body() {
    for engine in ["epoll", "uring"] {
        let options = |server: &TlsServer| {
            ["-c", "1", "-n", "10", "--engine", engine, "--tls-ca", server.authority()].map(str::to_owned)
        };
        let run = |server: &TlsServer| {
            let options = options(server);
            Run::http(&server.url(), &options.iter().map(String::as_str).collect::<Vec<_>>())
        };
        run(&TlsServer::http(Manner::Ends)).assert_errors(&[]);
        run(&TlsServer::http(Manner::IsCutOff)).assert_errors(&[("short_body", 10)]);
    }
}

#[test]
fn a_failed_handshake_has_its_own_class() {
    for engine in ["epoll", "uring"] {
        let server = TlsServer::http(Manner::Refuses);
        let options = ["-c", "1", "-n", "5", "--engine", engine, "--tls-ca", server.authority()];
        Run::http(&server.url(), &options).assert_errors(&[("tls", 5)]);
        // Somebody who speaks something else.
        let server = Server::of(
            |input| (!input.is_empty()).then_some(input.len()),
            |_| Act::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        );
        let output = loadgen(&["http", "-n", "1", &server.url().replace("http:", "https:"), "--tls-insecure"]);
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn sessions_are_resumed_unless_that_is_turned_off() {
    let server = TlsServer::http(Manner::Good);
    for engine in ["epoll", "uring"] {
        let figures = |options: &[&str]| {
            let common = ["-c", "2", "-n", "40", "--tls-ca", server.authority(), "--engine", engine];
            let run = Run::http(&server.url(), &[&common, options].concat());
            run.assert_errors(&[]);
            let handshakes = run.result.handshakes.expect("TLS was spoken");
            assert_eq!(handshakes.latency_us.is_some(), run.result.handshake_histogram.is_some());
            (handshakes.full, handshakes.resumed)
        };
        assert_eq!(figures(&["--no-keep-alive", "--tls-resume", "off"]), (40, 0));
        // Those that begin before there is a ticket are full.
        let (full, resumed) = figures(&["--no-keep-alive"]);
        assert!((1..=2).contains(&full) && resumed >= 38, "{full} full, {resumed} resumed");
        // One may have done everything before the other is open.
        let (full, resumed) = figures(&["--tls-resume", "off"]);
        assert!((1..=2).contains(&full) && resumed == 0, "{full} full, {resumed} resumed");
    }
    let plain = Server::of(http_request, |_| Act::Say(ok("plain")));
    let run = Run::http(&plain.url(), &["-c", "1", "-n", "2"]);
    assert!(run.result.handshakes.is_none() && run.result.config["tls_resume"].is_null());
}

#[test]
fn the_result_says_what_the_handshakes_ended_in() {
    let server = TlsServer::http(Manner::Good);
    for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    {
        for group in ["X25519", "secp256r1"] {
            let options = ["--tls-ca", server.authority(), "--tls-cipher", cipher, "--tls-group", group];
            let run = Run::http(&server.url(), &[&["-c", "2", "-n", "10"], &options[..]].concat());
            run.assert_errors(&[]);
            let [session] = &run.result.tls_sessions[..] else { panic!("{:?}", run.result.tls_sessions) };
            let version = if cipher.contains("ECDHE") { "1.2" } else { "1.3" };
            assert_eq!((session.version.as_str(), session.cipher.as_str()), (version, cipher));
            assert_eq!((session.group.as_deref(), session.protocol.as_deref()), (Some(group), None));
        }
    }
    for unknown in [["--tls-cipher", "RC4"], ["--tls-group", "x25519"]] {
        let output = loadgen(&[&["http", "-n", "1", "--tls-insecure", &server.url()], &unknown[..]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains(unknown[0]) && stderr.contains("is none of"), "{stderr}");
    }
}

#[test]
fn http2_is_not_taken_for_granted() {
    let server = TlsServer::http(Manner::Good);
    let output = loadgen(&["http", "--http2", "-n", "1", "--tls-ca", server.authority(), &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("does not choose HTTP/2") && stderr.contains("without --http2"), "{stderr}");
}
