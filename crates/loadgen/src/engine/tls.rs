//! TLS between the socket and the protocol. rustls is sans-IO itself, so both engines carry it.

mod tickets;

use std::{
    fmt,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct,
    HandshakeKind, NamedGroup, ProtocolVersion, RootCertStore, SignatureScheme, SupportedProtocolVersion,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

use self::tickets::Tickets;
use crate::{clock::Nanos, result::TlsSession};

/// Authorities that are trusted to vouch for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that the system trusts.
    System,
    /// Those in this PEM file.
    Authorities(PathBuf),
    /// None: any certificate will do.
    Anyone,
}

/// Choices of a client beside whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Later connections resume sessions of earlier ones, where the server gives tickets.
    pub is_resuming: bool,
    /// HTTP/2 is asked for by ALPN, and a connection without it fails.
    pub is_http2: bool,
    /// Name of the only cipher suite that is offered.
    pub cipher: Option<String>,
    /// Name of the only group that is offered for the exchange of keys.
    pub group: Option<String>,
}

/// Name of HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// TLS configuration for one server.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    options: TlsOptions,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reasons why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("`{0}` is neither a host name nor an address: TLS needs one to check the certificate")]
    Name(String),
    #[error("cannot read certificates from {path}: {why}")]
    Authorities { path: PathBuf, why: rustls::pki_types::pem::Error },
    #[error("{0} holds no certificate")]
    NoAuthority(PathBuf),
    #[error("the system has no trusted certificates: name a file with --tls-ca")]
    NoSystemAuthority,
    #[error("--tls-cipher: `{name}` is none of {known}")]
    UnknownCipher { name: String, known: String },
    #[error("--tls-group: `{name}` is none of {known}")]
    UnknownGroup { name: String, known: String },
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// Makes the configuration for a server whose certificate must be valid for `name`, which it is also told (SNI).
    ///
    /// # Errors
    /// The name is none, or there are no certificates to trust.
    pub fn new(name: &str, trust: &Trust, options: TlsOptions) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let provider = Arc::new(provider(&options)?);
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions(&provider))?;
        let mut config = match trust {
            Trust::System => builder.with_root_certificates(system_authorities()?).with_no_client_auth(),
            Trust::Authorities(path) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
            Trust::Anyone => {
                let verifier = Arc::new(AcceptAnyCertificate(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        config.resumption =
            if options.is_resuming { Resumption::store(Arc::new(Tickets::default())) } else { Resumption::disabled() };
        if options.is_http2 {
            config.alpn_protocols = vec![H2.to_vec()];
        }
        Ok(Self { config: Arc::new(config), name, options })
    }

    /// Returns true if connections resume sessions of earlier ones.
    #[must_use]
    pub fn is_resuming(&self) -> bool {
        self.options.is_resuming
    }

    /// Begins a handshake.
    pub(super) fn session(&self, now: Nanos) -> Result<Session, rustls::Error> {
        let client = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        Ok(Session { client, is_http2: self.options.is_http2, began: now })
    }

    /// Makes one handshake on `stream`, which blocks.
    pub(super) fn shake_hands(&self, stream: &mut (impl std::io::Read + std::io::Write)) -> std::io::Result<()> {
        // What it learns is not for the run, whose first handshakes would be resumed.
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::disabled();
        let alone = Self { config: Arc::new(config), ..self.clone() };
        let mut session = alone.session(0).map_err(std::io::Error::other)?;
        while session.client.is_handshaking() {
            session.client.complete_io(stream)?;
        }
        let has_protocol = session.has_protocol();
        let mut client = session.client;
        if !has_protocol {
            return Err(std::io::Error::other(NoHttp2));
        }
        client.send_close_notify();
        // The server may have closed by now; the handshake is what was asked for.
        let _ = client.write_tls(stream);
        Ok(())
    }
}

/// The server shakes hands, but does not choose HTTP/2.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server does not choose HTTP/2 (h2 by ALPN)")]
struct NoHttp2;

/// Returns what may help where a handshake failed because of the server's certificate or its protocols.
#[must_use]
pub fn tls_advice(error: &std::io::Error) -> Option<&'static str> {
    const WITHOUT: &str = "without --http2 it may speak HTTP/1.1 (h2 is what --http2 asks for by ALPN)";
    let inner = error.get_ref()?;
    if inner.is::<NoHttp2>() {
        return Some(WITHOUT);
    }
    let error = inner.downcast_ref::<rustls::Error>()?;
    if *error == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) {
        return Some(WITHOUT);
    }
    let rustls::Error::InvalidCertificate(problem) = error else { return None };
    // What webpki makes of it is in an error of which there is only the text.
    let is_authority = format!("{problem:?}").contains("CaUsedAsEndEntity");
    Some(if is_authority {
        "it is an authority's (CA:TRUE), as `openssl req -x509` makes them: make one with \
         -addext basicConstraints=critical,CA:FALSE, or take any with --tls-insecure"
    } else if matches!(problem, CertificateError::UnknownIssuer) {
        "it is not from an authority that is trusted: name one with --tls-ca FILE, or take any certificate with --tls-insecure"
    } else if matches!(problem, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) {
        "say which name it is for with --tls-server-name NAME, or take any certificate with --tls-insecure"
    } else {
        "--tls-insecure takes any certificate"
    })
}

fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() { Err(TlsError::NoSystemAuthority) } else { Ok(store) }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let unreadable = |why| TlsError::Authorities { path: path.to_owned(), why };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
        store.add(certificate.map_err(unreadable)?)?;
    }
    if store.is_empty() { Err(TlsError::NoAuthority(path.to_owned())) } else { Ok(store) }
}

/// One connection's TLS.
#[derive(Debug)]
pub(super) struct Session {
    client: ClientConnection,
    /// The server has to choose HTTP/2.
    is_http2: bool,
    began: Nanos,
}

/// Choices that both sides of a connection have agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    version: Option<ProtocolVersion>,
    cipher: Option<CipherSuite>,
    group: Option<NamedGroup>,
    is_http2: bool,
}

impl From<Agreed> for TlsSession {
    fn from(agreed: Agreed) -> Self {
        let version = match agreed.version {
            Some(ProtocolVersion::TLSv1_3) => "1.3",
            Some(ProtocolVersion::TLSv1_2) => "1.2",
            _ => "other",
        };
        Self {
            version: version.to_owned(),
            cipher: agreed.cipher.map_or_else(String::new, cipher_name),
            group: agreed.group.map(group_name),
            protocol: agreed.is_http2.then(|| String::from_utf8_lossy(H2).into_owned()),
        }
    }
}

/// Returns the name that a suite has at IANA.
fn cipher_name(suite: CipherSuite) -> String {
    format!("{suite:?}").replace("TLS13_", "TLS_")
}

fn group_name(group: NamedGroup) -> String {
    format!("{group:?}")
}

/// Returns what the handshake is made with, and the one suite and group where they were chosen.
fn provider(options: &TlsOptions) -> Result<CryptoProvider, TlsError> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    if let Some(name) = &options.cipher {
        let known: Vec<String> = provider.cipher_suites.iter().map(|suite| cipher_name(suite.suite())).collect();
        provider.cipher_suites.retain(|suite| cipher_name(suite.suite()) == *name);
        if provider.cipher_suites.is_empty() {
            return Err(TlsError::UnknownCipher { name: name.clone(), known: known.join(", ") });
        }
    }
    if let Some(name) = &options.group {
        let known: Vec<String> = provider.kx_groups.iter().map(|group| group_name(group.name())).collect();
        provider.kx_groups.retain(|group| group_name(group.name()) == *name);
        if provider.kx_groups.is_empty() {
            return Err(TlsError::UnknownGroup { name: name.clone(), known: known.join(", ") });
        }
    }
    Ok(provider)
}

/// Returns the versions that have one of the provider's suites: rustls refuses the others.
fn versions(provider: &CryptoProvider) -> Vec<&'static SupportedProtocolVersion> {
    let has_suite = |version: &&&SupportedProtocolVersion| {
        provider.cipher_suites.iter().any(|suite| suite.version().version == version.version)
    };
    rustls::DEFAULT_VERSIONS.iter().filter(has_suite).copied().collect()
}

/// Handshake that has been completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    /// It resumed an earlier session.
    pub(super) is_resumed: bool,
    pub(super) agreed: Agreed,
    /// Time at which it began, the connection being there.
    pub(super) began: Nanos,
}

/// State of a session after some input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TlsState {
    pub(super) is_handshaking: bool,
    /// The server has said that nothing more will come.
    pub(super) has_ended: bool,
}

impl Session {
    pub(super) fn is_handshaking(&self) -> bool {
        self.client.is_handshaking()
    }

    /// Returns the handshake, which has been completed.
    pub(super) fn handshake(&self) -> Handshake {
        let is_resumed = self.client.handshake_kind() == Some(HandshakeKind::Resumed);
        let agreed = Agreed {
            version: self.client.protocol_version(),
            cipher: self.client.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: self.client.negotiated_key_exchange_group().map(|group| group.name()),
            is_http2: self.client.alpn_protocol() == Some(H2),
        };
        Handshake { is_resumed, agreed, began: self.began }
    }

    /// Returns true if the server has chosen what was asked for by ALPN, if anything was.
    pub(super) fn has_protocol(&self) -> bool {
        !self.is_http2 || self.client.alpn_protocol() == Some(H2)
    }

    /// Returns true if the server has ended the stream as TLS wants it, so that nothing was cut off.
    pub(super) fn has_ended_properly(&mut self) -> bool {
        self.client.process_new_packets().is_ok_and(|state| state.peer_has_closed())
    }

    /// Decrypts all of `input`, and appends the plain text to `plain`.
    pub(super) fn unseal(&mut self, mut input: &[u8], plain: &mut Vec<u8>) -> Result<TlsState, rustls::Error> {
        let mut has_ended = false;
        while !input.is_empty() {
            // From memory only a full buffer can be refused, and it is emptied each time.
            if self.client.read_tls(&mut input).is_err() {
                return Err(rustls::Error::General("a record is too long".to_owned()));
            }
            let state = self.client.process_new_packets()?;
            has_ended = state.peer_has_closed();
            let (begin, more) = (plain.len(), state.plaintext_bytes_to_read());
            plain.resize(begin + more, 0);
            let read = self.client.reader().read(&mut plain[begin..]).unwrap_or(0);
            plain.truncate(begin + read);
            if has_ended {
                break;
            }
        }
        Ok(TlsState { is_handshaking: self.client.is_handshaking(), has_ended })
    }

    /// Appends to `out` what the handshake has to say, and `plain` in records.
    pub(super) fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        let mut rest = plain;
        loop {
            // The writer takes as much as its limit allows, and is emptied below.
            let taken = self.client.writer().write(rest).unwrap_or(0);
            rest = &rest[taken..];
            while self.client.wants_write() {
                // Into memory: cannot fail.
                if self.client.write_tls(out).is_err() {
                    return;
                }
            }
            if rest.is_empty() || taken == 0 {
                return;
            }
        }
    }
}

/// Verifier that takes any certificate, and still checks that the server holds its key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
