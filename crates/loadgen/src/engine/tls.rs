//! TLS between the socket and the protocol. rustls is sans-IO itself, so both engines carry it.

use std::{
    fmt,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

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

/// TLS configuration for one server.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
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
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// Makes the configuration for a server whose certificate must be valid for `name`, which it is also told (SNI).
    ///
    /// # Errors
    /// The name is none, or there are no certificates to trust.
    pub fn new(name: &str, trust: &Trust) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let config = match trust {
            Trust::System => builder.with_root_certificates(system_authorities()?).with_no_client_auth(),
            Trust::Authorities(path) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
            Trust::Anyone => {
                let verifier = Arc::new(AcceptAnyCertificate(provider));
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        Ok(Self { config: Arc::new(config), name })
    }

    pub(super) fn session(&self) -> Result<Session, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map(|client| Session { client })
    }

    /// Makes one handshake on `stream`, which blocks.
    pub(super) fn shake_hands(&self, stream: &mut (impl std::io::Read + std::io::Write)) -> std::io::Result<()> {
        let mut client = self.session().map_err(std::io::Error::other)?.client;
        while client.is_handshaking() {
            client.complete_io(stream)?;
        }
        client.send_close_notify();
        // The server may have closed by now; the handshake is what was asked for.
        let _ = client.write_tls(stream);
        Ok(())
    }
}

/// Returns what may help where a handshake failed because of the server's certificate.
#[must_use]
pub fn certificate_advice(error: &std::io::Error) -> Option<&'static str> {
    let Some(rustls::Error::InvalidCertificate(problem)) = error.get_ref()?.downcast_ref() else { return None };
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
