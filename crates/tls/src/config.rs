//! Certificates, keys and protocols: read from files, put into the form that rustls takes, and replaced while the server
//! runs.

use std::{fs, io, path::PathBuf, sync::Arc};

use parking_lot::RwLock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, pem::PemObject},
    server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier},
};

use crate::identity::{Identities, Identity, IdentityError};

/// Paths of a certificate chain and of its key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Settings of the TLS addresses of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// At least one. The client's server name chooses among them; without a match it is the first.
    pub pairs: Vec<KeyPair>,
    /// Certificates of authorities, in PEM. With them, a client must have a certificate from one of them.
    pub client_ca: Option<PathBuf>,
    /// Protocols for ALPN (RFC 7301), the preferred one first. Without any, none is negotiated.
    pub protocols: Vec<Vec<u8>>,
    /// The kernel may be given the keys of a connection.
    pub allows_kernel: bool,
}

/// Reasons that settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} and {}: {source}", pair.certificate.display(), pair.key.display())]
    Pair { pair: KeyPair, source: IdentityError },
    #[error("{}: {reason}", path.display())]
    ClientCa { path: PathBuf, reason: String },
    #[error("TLS needs a certificate")]
    NoPair,
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// Configuration of TLS that can be replaced while connections use it: those that are open keep what they began with.
#[derive(Debug)]
pub struct Config {
    settings: Settings,
    current: RwLock<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    server: Arc<ServerConfig>,
    /// Authority by which clients must have been verified to resume a session.
    client_ca: Vec<CertificateDer<'static>>,
    warnings: Vec<String>,
    tickets: Arc<dyn ProducesTickets>,
}

impl Config {
    /// Reads everything that the settings name.
    ///
    /// # Errors
    /// A file cannot be read or used, or there is no pair.
    pub fn load(settings: Settings) -> Result<Self, ConfigError> {
        let current = RwLock::new(Loaded::load(&settings, None)?);
        Ok(Self { settings, current })
    }

    /// Reads everything again, for the connections to come. Sessions can still be resumed, unless the authorities of
    /// clients have changed.
    ///
    /// # Errors
    /// Those of [`Config::load`]; then all stays as it is.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let before = self.current.read().clone();
        let loaded = Loaded::load(&self.settings, Some(&before))?;
        *self.current.write() = loaded;
        Ok(())
    }

    /// Returns what is wrong with certificates that are in use all the same: clients will not take them.
    pub fn warnings(&self) -> Vec<String> {
        self.current.read().warnings.clone()
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().server)
    }
}

impl Loaded {
    fn load(settings: &Settings, before: Option<&Self>) -> Result<Self, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let identities = settings.pairs.iter().map(|pair| load_pair(pair, &provider));
        let identities = identities.collect::<Result<Vec<_>, _>>()?;
        let faults = settings.pairs.iter().zip(&identities);
        let faults =
            faults.filter_map(|(pair, it)| Some(format!("{}: {}", pair.certificate.display(), it.fault.as_ref()?)));
        let warnings = faults.collect();
        let identities = Identities::new(identities).ok_or(ConfigError::NoPair)?;
        let client_ca = settings.client_ca.as_ref().map_or(Ok(Vec::new()), load_authorities)?;
        let tickets = match before.filter(|before| before.client_ca == client_ca) {
            Some(before) => Arc::clone(&before.tickets),
            // Its keys are replaced every few hours, and tickets of the keys before are still taken.
            None => aws_lc_rs::Ticketer::new()?,
        };
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = match &settings.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let unusable = |reason: String| ConfigError::ClientCa { path: path.clone(), reason };
                let mut roots = RootCertStore::empty();
                for authority in &client_ca {
                    roots.add(authority.clone()).map_err(|error| unusable(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(error.to_string()))?)
            }
        };
        let mut server = builder.with_cert_resolver(Arc::new(identities));
        server.alpn_protocols.clone_from(&settings.protocols);
        // Tickets hold all there is to a session: resuming one needs no memory here.
        server.ticketer = Arc::clone(&tickets);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.enable_secret_extraction = settings.allows_kernel;
        Ok(Self { server: Arc::new(server), client_ca, warnings, tickets })
    }
}

fn load_pair(pair: &KeyPair, provider: &CryptoProvider) -> Result<Identity, ConfigError> {
    let (chain, key) = (read(&pair.certificate)?, read(&pair.key)?);
    Identity::from_pem(&chain, &key, provider).map_err(|source| ConfigError::Pair { pair: pair.clone(), source })
}

fn load_authorities(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let unusable = |reason: String| ConfigError::ClientCa { path: path.clone(), reason };
    let pem = read(path)?;
    let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let authorities = authorities.map_err(|error| unusable(error.to_string()))?;
    if authorities.is_empty() { Err(unusable("no certificate in PEM".to_owned())) } else { Ok(authorities) }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::Read { path: path.clone(), source })
}
