//! Certificates and the choice among them by the name that a client asks for (SNI, RFC 6066).

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use webpki::{EndEntityCert, KeyUsage};

const DAY_SECONDS: u64 = 86_400;

/// Reasons that a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("no certificate in PEM")]
    NoCertificate,
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    #[error("no private key in PEM: {0}")]
    NoKey(String),
    #[error("the key does not belong to the certificate, or is of a kind that is not supported: {0}")]
    Key(rustls::Error),
}

/// A certificate chain with its key, and the names that it is for.
#[derive(Debug)]
pub(crate) struct Identity {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    /// Reason why clients will not take the certificate now.
    pub(crate) fault: Option<String>,
}

impl Identity {
    /// Reads a chain, the server's own certificate first, and a key.
    pub(crate) fn from_pem(chain: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<Self, IdentityError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| IdentityError::Certificate(error.to_string()))?;
        let leaf = chain.first().ok_or(IdentityError::NoCertificate)?;
        let leaf = EndEntityCert::try_from(leaf).map_err(|error| IdentityError::Certificate(error.to_string()))?;
        let (fault, names) =
            (fault_of(&leaf, UnixTime::now()), leaf.valid_dns_names().map(str::to_ascii_lowercase).collect());
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| IdentityError::NoKey(error.to_string()))?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(IdentityError::Key)?;
        Ok(Self { key: Arc::new(key), names, fault })
    }
}

/// Says what is wrong with the dates of a certificate. Whoever trusts it is not looked for, so that the chain is never whole.
fn fault_of(leaf: &EndEntityCert<'_>, now: UnixTime) -> Option<String> {
    let days_to = |time: UnixTime| now.as_secs().abs_diff(time.as_secs()).div_ceil(DAY_SECONDS);
    let error = leaf.verify_for_usage(&[], &[], &[], now, KeyUsage::server_auth(), None, None).err()?;
    if let webpki::Error::CertExpired { not_after, .. } = error {
        Some(format!("the certificate expired {} days ago", days_to(not_after)))
    } else if let webpki::Error::CertNotValidYet { not_before, .. } = error {
        Some(format!("the certificate is valid only in {} days", days_to(not_before)))
    } else {
        None
    }
}

/// Certificates by name. A client that names none of them, or none at all, is shown the first.
#[derive(Debug)]
pub(crate) struct Identities {
    first: Arc<CertifiedKey>,
    /// Names as they stand in certificates; a wildcard begins with `*.`.
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Identities {
    /// Indexes certificates by name; of several for one name, the first is used. `None` if there are no certificates.
    pub(crate) fn new(identities: Vec<Identity>) -> Option<Self> {
        let first = Arc::clone(&identities.first()?.key);
        let mut by_name = HashMap::new();
        for Identity { key, names, fault: _ } in identities {
            for name in names {
                by_name.entry(name).or_insert_with(|| Arc::clone(&key));
            }
        }
        Some(Self { first, by_name })
    }

    /// Finds the certificate for a name: that name's own, else that of a wildcard in place of its first label.
    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let wildcard = || self.by_name.get(&format!("*.{}", name.split_once('.')?.1));
        self.by_name.get(&name).or_else(wildcard).unwrap_or(&self.first)
    }
}

impl ResolvesServerCert for Identities {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        NAME.with_borrow_mut(|last| *last = name.map(str::to_owned));
        Some(Arc::clone(name.map_or(&self.first, |name| self.find(name))))
    }
}

thread_local! {
    /// Name in the hello that this thread has just processed: an unbuffered connection of rustls does not tell it.
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Takes the name in the hello that this thread has processed since it was last asked.
pub(crate) fn take_server_name() -> Option<String> {
    NAME.with_borrow_mut(Option::take)
}
