//! A session of the layer and a client of rustls, joined without a socket.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::fd::AsFd,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Limits, Now, Peer, Session};
use rcgen::{CertificateParams, CertifiedIssuer, Issuer, KeyPair as TestKey};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tls::{Config, KeyPair, Settings, Tls};

use crate::{kernel::Kernel, lines::Lines};

pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// An authority, and a directory with what it has signed.
pub(crate) struct Authority {
    pub(crate) directory: TempDir,
    pub(crate) issuer: CertifiedIssuer<'static, TestKey>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, TestKey::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("authority.pem"), issuer.pem()).unwrap();
        Self { directory, issuer }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn sign(&self, names: &[&str]) -> (rcgen::Certificate, TestKey) {
        let key = TestKey::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let issuer: &Issuer<'_, TestKey> = &self.issuer;
        (CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap(), key)
    }

    /// Writes a certificate for these names, and its key, to files of this name.
    pub(crate) fn issue(&self, name: &str, names: &[&str]) -> KeyPair {
        let (certificate, key) = self.sign(names);
        let pair = KeyPair { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) };
        fs::write(&pair.certificate, certificate.pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings { pairs: vec![self.issue("server", &["localhost"])], ..Settings::default() }
    }

    /// Returns a client that trusts this authority, with or without a certificate of its own.
    pub(crate) fn client(&self, version: &'static SupportedProtocolVersion, has_certificate: bool) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        if !has_certificate {
            return builder.with_no_client_auth();
        }
        let (certificate, key) = self.sign(&["client"]);
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
    }
}

pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::ZERO }
}

pub(crate) fn layer(config: &Arc<Config>, limits: Limits) -> Arc<Tls<Lines>> {
    Arc::new(Tls::new(Arc::new(Lines::new()), Arc::clone(config), limits, HANDSHAKE_MAX))
}

/// The server's side: a layer and a session of it.
pub(crate) struct Server {
    pub(crate) layer: Arc<Tls<Lines>>,
    pub(crate) session: Session<Tls<Lines>>,
    pub(crate) now: Now,
    /// The most that was queued.
    pub(crate) held_max: usize,
    /// Kernel that takes the steps of kernel TLS.
    pub(crate) kernel: Kernel,
}

impl Server {
    pub(crate) fn new(layer: &Arc<Tls<Lines>>, limits: Limits) -> Self {
        let (stdin, now) = (std::io::stdin(), now());
        let session = Session::new(&**layer, Peer::unknown(stdin.as_fd(), 0), limits, now);
        Self { layer: Arc::clone(layer), session, now, held_max: 0, kernel: Kernel::default() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.session.feed(&*self.layer, bytes, self.now);
    }

    /// Moves at most `max` bytes of output to `sink`, as a driver does.
    pub(crate) fn flush(&mut self, sink: &mut Vec<u8>, max: usize) -> usize {
        self.held_max = self.held_max.max(self.session.outbox().held_bytes());
        let n = self.kernel.flush(&mut self.session, sink, max);
        if n > 0 {
            self.session.sent(self.now);
        }
        if self.session.wants_turn(&*self.layer, true) {
            self.session.resume(&*self.layer, self.now);
        }
        n
    }
}

/// Both sides, and the bytes between them.
pub(crate) struct Link {
    pub(crate) client: ClientConnection,
    pub(crate) server: Server,
    /// Plaintext that the client has received.
    pub(crate) received: Vec<u8>,
    /// True once close_notify has come.
    pub(crate) is_closed: bool,
    /// The client's error.
    pub(crate) error: Option<rustls::Error>,
    to_server: Vec<u8>,
    pub(crate) to_client: Vec<u8>,
}

/// Sizes of the pieces in which bytes travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

pub(crate) const LARGE: Pieces = Pieces { input: usize::MAX, output: usize::MAX };

impl Link {
    pub(crate) fn new(server: Server, client: ClientConfig, name: &'static str) -> Self {
        let client = ClientConnection::new(Arc::new(client), ServerName::try_from(name).unwrap()).unwrap();
        let (to_server, to_client) = (Vec::new(), Vec::new());
        Self { client, server, received: Vec::new(), is_closed: false, error: None, to_server, to_client }
    }

    pub(crate) fn send(&mut self, plain: &[u8]) {
        self.client.set_buffer_limit(None);
        self.client.writer().write_all(plain).unwrap();
    }

    /// Moves bytes in both directions until nothing moves.
    pub(crate) fn run(&mut self, pieces: Pieces) {
        while self.step(pieces) {}
    }

    pub(crate) fn step(&mut self, pieces: Pieces) -> bool {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_server).unwrap();
        }
        let mut has_moved = false;
        if self.server.session.wants_read() && !self.to_server.is_empty() {
            let piece: Vec<u8> = self.to_server.drain(..self.to_server.len().min(pieces.input)).collect();
            self.server.feed(&piece);
            has_moved = true;
        }
        let is_waiting = self.server.session.outbox().is_blocked_on_reply();
        has_moved |= self.server.flush(&mut self.to_client, pieces.output) > 0 || is_waiting;
        has_moved |= !self.server.session.outbox().is_empty() && !self.server.session.is_aborted();
        self.read();
        has_moved
    }

    /// Has the client process what has come.
    pub(crate) fn read(&mut self) {
        let mut bytes = &self.to_client[..];
        while !bytes.is_empty() && self.error.is_none() {
            self.client.read_tls(&mut bytes).unwrap();
            if let Err(error) = self.client.process_new_packets() {
                self.error = Some(error);
            }
            let mut plain = [0; 20_000];
            loop {
                match self.client.reader().read(&mut plain) {
                    Ok(0) => {
                        self.is_closed = true;
                        break;
                    }
                    Ok(n) => self.received.extend_from_slice(&plain[..n]),
                    Err(error) => {
                        assert!(error.kind() == ErrorKind::WouldBlock, "{error}");
                        break;
                    }
                }
            }
        }
        self.to_client.clear();
    }

    /// Sends requests, and returns their replies.
    pub(crate) fn ask(&mut self, requests: &str) -> Vec<u8> {
        self.send(requests.as_bytes());
        self.run(LARGE);
        assert_eq!(self.error, None);
        std::mem::take(&mut self.received)
    }

    /// The certificate that the server has shown.
    pub(crate) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.client.peer_certificates().and_then(|chain| chain.first()).cloned()
    }
}
