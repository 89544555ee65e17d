//! `--tls-ca`, `--tls-insecure` and `--tls-server-name`.

use std::path::PathBuf;

use clap::Args;
use loadgen::{
    engine::{Tls, Trust},
    http::Target,
};

use super::Failure;

#[derive(Args, Debug)]
pub(super) struct TlsArgs {
    /// TLS: trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    tls_ca: Option<PathBuf>,
    /// TLS: accept any certificate
    #[arg(long)]
    tls_insecure: bool,
    /// TLS: the name to ask for (SNI), which the certificate must have, instead of the target's host
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
}

impl TlsArgs {
    /// Makes the TLS settings of targets that all name one server; `None` unless they are `https`.
    pub(super) fn for_targets(&self, targets: &[Target]) -> Result<Option<Tls>, Failure> {
        match targets.first().and_then(Target::tls_name) {
            Some(host) => self.for_host(host).map(Some),
            None => self.check_unused("https://"),
        }
    }

    /// Makes the TLS settings of an address like `host:port`, or of a unix socket, which needs a name.
    pub(super) fn for_address(&self, is_tls: bool, address: &str) -> Result<Option<Tls>, Failure> {
        if !is_tls {
            return self.check_unused("--tls");
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        self.for_host(host.trim_start_matches('[').trim_end_matches(']')).map(Some)
    }

    fn for_host(&self, host: &str) -> Result<Tls, Failure> {
        let trust = match (&self.tls_ca, self.tls_insecure) {
            (Some(path), _) => Trust::Authorities(path.clone()),
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
        };
        let name = self.tls_server_name.as_deref().unwrap_or(host);
        Ok(Tls::new(name, &trust)?)
    }

    /// Refuses options that would change nothing.
    fn check_unused(&self, needed: &str) -> Result<Option<Tls>, Failure> {
        if self.tls_ca.is_some() || self.tls_insecure || self.tls_server_name.is_some() {
            return Err(Failure::Usage(format!("--tls-ca, --tls-insecure and --tls-server-name need {needed}")));
        }
        Ok(None)
    }
}
