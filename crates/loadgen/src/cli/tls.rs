//! `--tls-ca`, `--tls-insecure`, `--tls-resume`, `--tls-server-name`, `--tls-cipher` and `--tls-group`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use loadgen::{
    engine::{Tls, TlsError, TlsOptions, Trust},
    http::Target,
};

use super::Failure;

#[derive(Args, Debug)]
pub(super) struct TlsArgs {
    /// TLS: trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    tls_ca: Option<PathBuf>,
    /// TLS: accept any certificate
    #[arg(long, visible_alias = "insecure")]
    tls_insecure: bool,
    /// TLS: later connections resume the sessions of earlier ones, where the server gives tickets; off makes every handshake a
    /// full one
    #[arg(long, value_name = "on|off", value_enum)]
    tls_resume: Option<OnOff>,
    /// TLS: the name to ask for (SNI), which the certificate must have, instead of the target's host
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// TLS: the only cipher suite to offer, TLS_AES_128_GCM_SHA256 for example
    #[arg(long, value_name = "NAME")]
    tls_cipher: Option<String>,
    /// TLS: the only group for the exchange of keys to offer, X25519 for example
    #[arg(long, value_name = "NAME")]
    tls_group: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

impl TlsArgs {
    /// Makes the TLS settings of targets that all name one server; `None` unless they are `https`.
    pub(super) fn for_targets(&self, targets: &[Target], is_http2: bool) -> Result<Option<Tls>, Failure> {
        match targets.first().and_then(Target::tls_name) {
            Some(host) => self.for_host(host, is_http2).map(Some),
            None => self.check_unused("https://"),
        }
    }

    /// Makes the TLS settings of an address like `host:port`, or of a unix socket, which needs a name.
    pub(super) fn for_address(&self, is_tls: bool, address: &str) -> Result<Option<Tls>, Failure> {
        if !is_tls {
            return self.check_unused("--tls");
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        self.for_host(host.trim_start_matches('[').trim_end_matches(']'), false).map(Some)
    }

    fn for_host(&self, host: &str, is_http2: bool) -> Result<Tls, Failure> {
        let trust = match (&self.tls_ca, self.tls_insecure) {
            (Some(path), _) => Trust::Authorities(path.clone()),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let name = self.tls_server_name.as_deref().unwrap_or(host);
        let options = TlsOptions {
            is_resuming: self.tls_resume != Some(OnOff::Off),
            is_http2,
            cipher: self.tls_cipher.clone(),
            group: self.tls_group.clone(),
        };
        Tls::new(name, &trust, options).map_err(|error| match error {
            TlsError::UnknownCipher { .. } | TlsError::UnknownGroup { .. } => Failure::usage(error),
            other => other.into(),
        })
    }

    /// Refuses options that would change nothing.
    fn check_unused(&self, needed: &str) -> Result<Option<Tls>, Failure> {
        let is_used = self.tls_ca.is_some() || self.tls_insecure || self.tls_server_name.is_some();
        let is_limited = self.tls_cipher.is_some() || self.tls_group.is_some();
        if is_used || is_limited || self.tls_resume.is_some() {
            let options = "--tls-ca, --tls-insecure, --tls-resume, --tls-server-name, --tls-cipher and --tls-group";
            return Err(Failure::Usage(format!("{options} need {needed}")));
        }
        Ok(None)
    }
}
