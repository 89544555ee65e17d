//! TLS as every server of a run has it: one certificate, and one choice of version, cipher suite and group, which the generator
//! offers alone. What was agreed to is checked after each load.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use loadgen::result::{RunResult, TlsSession};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use servers::{Handshakes, Workload as Spec};

/// Words that stand for the files in commands that are shown.
pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
pub(crate) const KEY: &str = "KEY";
/// The name that the certificate is for, and that clients ask for.
pub(crate) const NAME: &str = "localhost";
pub(crate) const CIPHER: &str = "TLS_AES_128_GCM_SHA256";
pub(crate) const GROUP: &str = "X25519";
const VERSION: &str = "1.3";
const HTTP2: &str = "h2";
/// Files beside the site, which nobody serves.
const FILES: [(&str, &str); 2] = [(CERTIFICATE, "certificate.pem"), (KEY, "key.pem")];
/// Handshakes of which one may be full where sessions are resumed: when a run begins there are none.
const RESUMED_PER_FULL_MIN: u64 = 20;

/// Writes a certificate that signs itself, and its key, beside the site: ECDSA with P-256.
pub(super) fn write(site: &Path) -> Result<()> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("a key")?;
    let params = CertificateParams::new([NAME.to_owned()]).context("a certificate")?;
    let certificate = params.self_signed(&key).context("a certificate")?;
    for (word, content) in [(CERTIFICATE, certificate.pem()), (KEY, key.serialize_pem())] {
        let path = placed(word, site);
        fs::write(&path, content).context(path)?;
    }
    Ok(())
}

/// Returns the path of a file where its word stands; any other word as it is.
pub(crate) fn placed(word: &str, site: &Path) -> String {
    let file = FILES.iter().find(|(known, _)| *known == word);
    file.map_or_else(|| word.to_owned(), |(_, name)| site.with_file_name(name).to_string_lossy().into_owned())
}

/// Checks that every connection of a run was as the workload asks: these choices, and HTTP/2 only where it is spoken.
///
/// # Errors
/// One was not, with what was agreed to.
pub(crate) fn check_sessions(spec: &Spec, run: &RunResult) -> Result<()> {
    let expected = TlsSession {
        version: VERSION.to_owned(),
        cipher: CIPHER.to_owned(),
        group: Some(GROUP.to_owned()),
        protocol: spec.http2.then(|| HTTP2.to_owned()),
    };
    match run.tls_sessions.as_slice() {
        [] if !spec.tls => Ok(()),
        [session] if spec.tls && *session == expected => Ok(()),
        [] => bail!("not over TLS"),
        _ if !spec.tls => bail!("over TLS"),
        sessions => {
            let words: Vec<String> = sessions.iter().map(TlsSession::to_string).collect();
            bail!("connections with {}, not with {expected} alone", words.join("; "))
        }
    }
}

/// Checks [`check_sessions`] and that the handshakes of a load were of the kind that the workload asks for.
///
/// # Errors
/// Those, or handshakes of the other kind.
pub(crate) fn check(spec: &Spec, run: &RunResult) -> Result<()> {
    check_sessions(spec, run)?;
    let Some(kind) = spec.handshakes else { return Ok(()) };
    let (full, resumed) = run.handshakes.map_or((0, 0), |handshakes| (handshakes.full, handshakes.resumed));
    let is_right = match kind {
        Handshakes::Full => full > 0 && resumed == 0,
        Handshakes::Resumed => resumed > RESUMED_PER_FULL_MIN * full,
    };
    ensure!(is_right, "{full} full and {resumed} resumed handshakes where they must be {kind:?}");
    Ok(())
}

#[cfg(test)]
mod tests;
