//! Certificates in files, and a client that takes no end of a connection for another.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
pub use rustls::{
    HandshakeKind, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};
use sys::listen::Address;
use tempfile::TempDir;

use crate::{HANG, http::Response};

/// An authority, and a directory with what it has signed: a certificate for localhost in `server.pem` and `server.key`.
pub struct Certificates {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let made = Self { directory: tempfile::tempdir()?, issuer };
        fs::write(made.path("authority.pem"), made.issuer.pem())?;
        made.issue("server", &["localhost", "127.0.0.1"])?;
        Ok(made)
    }

    /// Returns the path of a file; that of the authority's own certificate is `authority.pem`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a certificate for these names to `NAME.pem` and its key to `NAME.key`. Returns the certificate in DER.
    pub fn issue(&self, name: &str, names: &[&str]) -> anyhow::Result<Vec<u8>> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        // With the name of its authority, openssl would take it for self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer)?;
        fs::write(self.path(&format!("{name}.pem")), certificate.pem())?;
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem())?;
        Ok(certificate.der().to_vec())
    }

    /// Returns the flags of a server with one TLS address and this pair.
    pub fn flags(&self, name: &str) -> Vec<String> {
        let path = |end: &str| self.path(&format!("{name}.{end}")).display().to_string();
        let [listen, address, certificate, key] =
            ["--tls-listen", "127.0.0.1:0", "--tls-cert", "--tls-key"].map(str::to_owned);
        vec![listen, address, certificate, path("pem"), key, path("key")]
    }

    /// Returns the settings of a client that trusts the authority; with a certificate of its own if `issued` names one.
    pub fn client(
        &self,
        version: &'static SupportedProtocolVersion,
        issued: Option<&str>,
    ) -> anyhow::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots);
        let Some(name) = issued else { return Ok(Arc::new(builder.with_no_client_auth())) };
        let read = |end: &str| fs::read(self.path(&format!("{name}.{end}")));
        let (chain, key) = (read("pem")?, read("key")?);
        let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?))
    }

    /// Makes the handshake of a client of HTTP/2, whose records have so many bytes at most.
    pub(crate) fn agree_on_http2<S: Read + Write>(
        &self,
        socket: S,
        record_bytes: Option<usize>,
    ) -> anyhow::Result<StreamOwned<ClientConnection, S>> {
        let mut config = (*self.client(&TLS13, None)?).clone();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.max_fragment_size = record_bytes;
        let tls = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
        let mut stream = StreamOwned::new(tls, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).context("the handshake")?;
        }
        let chosen = stream.conn.alpn_protocol();
        ensure!(chosen == Some(b"h2"), "{chosen:?} instead of h2");
        Ok(stream)
    }

    /// Returns the certificate that a new connection of HTTP/2 is shown, in DER.
    pub fn shown_to_http2(&self, address: SocketAddr) -> anyhow::Result<Vec<u8>> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(HANG))?;
        let stream = self.agree_on_http2(socket, None)?;
        Ok(stream.conn.peer_certificates().and_then(<[_]>::first).context("no certificate")?.to_vec())
    }

    /// Connects to a TLS address as somebody who wants `localhost` there.
    pub fn connect(&self, address: &Address, version: &'static SupportedProtocolVersion) -> anyhow::Result<TlsClient> {
        TlsClient::connect(address, &self.client(version, None)?)
    }
}

/// A client whose reads fail at an end without close_notify.
pub struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
}

impl TlsClient {
    /// Connects; the handshake is made by the first bytes that are sent or read.
    pub fn connect(address: &Address, config: &Arc<ClientConfig>) -> anyhow::Result<Self> {
        Self::connect_behind(b"", address, config)
    }

    /// Connects and sends some bytes in the clear, before the handshake.
    pub fn connect_behind(first: &[u8], address: &Address, config: &Arc<ClientConfig>) -> anyhow::Result<Self> {
        let Address::Tcp(address) = address else { bail!("not TCP") };
        let mut socket = TcpStream::connect(address)?;
        socket.write_all(first)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(HANG))?;
        socket.set_write_timeout(Some(HANG))?;
        let tls = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
        Ok(Self { stream: StreamOwned::new(tls, socket), unread: Vec::new() })
    }

    pub fn send(&mut self, plain: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(plain)?;
        Ok(self.stream.flush()?)
    }

    /// Says close_notify.
    pub fn half_close(&mut self) -> anyhow::Result<()> {
        self.stream.conn.send_close_notify();
        Ok(self.stream.flush()?)
    }

    /// Reads exactly `len` bytes.
    pub fn take(&mut self, len: usize) -> anyhow::Result<Vec<u8>> {
        let mut got = vec![0; len];
        self.stream.read_exact(&mut got).with_context(|| format!("expecting {len} bytes"))?;
        Ok(got)
    }

    /// Reads exactly these bytes.
    pub fn expect(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let got = self.take(wanted.len())?;
        ensure!(got == wanted, "other bytes than expected");
        Ok(())
    }

    /// Reads until close_notify or an error. Returns both the bytes and the error.
    pub fn read_until_disconnect(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut got = Vec::new();
        let outcome = self.stream.read_to_end(&mut got).map(drop);
        (got, outcome)
    }

    /// Reads up to close_notify.
    pub fn read_to_end(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut got = Vec::new();
        self.stream.read_to_end(&mut got).with_context(|| format!("after {} bytes", got.len()))?;
        Ok(got)
    }

    /// Reads exactly these bytes and close_notify.
    pub fn expect_all(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        let got = self.read_to_end()?;
        ensure!(got == wanted, "{} bytes, or others, instead of {}", got.len(), wanted.len());
        Ok(())
    }

    /// Sends a request of HTTP and reads its response.
    pub fn ask(&mut self, request: &str) -> anyhow::Result<Response> {
        self.send(request.as_bytes())?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let method = request.split(' ').next().unwrap_or_default();
            if let Some((response, rest)) = Response::split(&self.unread, method) {
                self.unread = rest.to_vec();
                return Ok(response);
            }
            let n = self.stream.read(&mut chunk)?;
            ensure!(n > 0, "the connection ended in a response, after {} bytes", self.unread.len());
            self.unread.extend_from_slice(&chunk[..n]);
        }
    }

    /// Returns the server's certificate, in DER.
    pub fn certificate(&self) -> Option<&[u8]> {
        Some(self.stream.conn.peer_certificates()?.first()?.as_ref())
    }

    pub fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.stream.conn.handshake_kind()
    }
}
