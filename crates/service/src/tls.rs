//! TLS addresses: their flags, their certificates, and the counts of their handshakes.

use std::{fmt, path::PathBuf, sync::Arc};

use ::tls::{Config, ConfigError, Handshakes, KeyPair, Settings, Statistics};
use anyhow::Context;
use clap::{Args, ValueEnum};
use drivers::{Descriptor, FilePath};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use sys::{ktls::Support, listen::Address};

use crate::{gauge, total};

/// The flags of servers with TLS addresses.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Address for TLS, written like those of --listen; repeatable. Without --listen there are no others
    #[arg(long, value_name = "ADDR")]
    pub tls_listen: Vec<Address>,

    /// Certificate in PEM, intermediate ones behind it; repeatable, each with its --tls-key. The name that a client asks for
    /// chooses among them; without a match it is the first. SIGHUP reads them again
    #[arg(long, value_name = "PEM")]
    pub tls_cert: Vec<PathBuf>,

    /// Private key of the --tls-cert in the same place, in PEM
    #[arg(long, value_name = "PEM")]
    pub tls_key: Vec<PathBuf>,

    /// Certificates of authorities in PEM: clients of TLS addresses must have a certificate from one of them
    #[arg(long, value_name = "PEM")]
    pub tls_client_ca: Option<PathBuf>,
}

/// Use of the kernel's TLS for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KernelTlsUse {
    /// Always: an error at the start where the kernel cannot
    On,
    /// Never
    #[default]
    Off,
    /// Where the kernel can, and the driver has sendfile
    Auto,
}

/// Properties of TLS that depend on what a server speaks.
#[derive(Clone, Copy, Debug)]
pub struct TlsDialect {
    /// Protocols for ALPN, the preferred one first; none: it is not negotiated.
    pub protocols: &'static [&'static [u8]],
    /// Scheme of the addresses, as in `https`.
    pub scheme: &'static str,
    /// Answer to a client that begins with text, in the clear.
    pub answer_to_plain: &'static [u8],
    /// Use of the kernel's TLS, for a server that sends files.
    pub kernel: KernelTlsUse,
}

/// Address that a server listens on, as its ready line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: Address,
    /// Scheme of a TLS address.
    pub scheme: Option<&'static str>,
}

impl From<Address> for Endpoint {
    fn from(address: Address) -> Self {
        Self { address, scheme: None }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Some(scheme) => write!(f, "{scheme}://{}", self.address),
            None => self.address.fmt(f),
        }
    }
}

impl TlsArgs {
    /// Checks that the flags fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { tls_listen, tls_cert, tls_key, tls_client_ca } = self;
        if tls_cert.len() != tls_key.len() {
            let (certificates, keys) = (tls_cert.len(), tls_key.len());
            return Err(format!("--tls-cert and --tls-key come in pairs, but there are {certificates} and {keys}"));
        }
        match (tls_listen.is_empty(), tls_cert.is_empty(), tls_client_ca) {
            (false, true, _) => Err("--tls-listen needs a certificate: --tls-cert PEM --tls-key PEM".to_owned()),
            (true, false, _) => Err("--tls-cert is of no use without --tls-listen ADDR".to_owned()),
            (true, true, Some(_)) => Err("--tls-client-ca is of no use without --tls-listen ADDR".to_owned()),
            _ => Ok(()),
        }
    }

    /// Reads the certificates, if there is an address for them.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub(crate) fn load(&self, dialect: &TlsDialect, allows_kernel: bool) -> Result<Option<Config>, ConfigError> {
        if self.tls_listen.is_empty() {
            return Ok(None);
        }
        let pair =
            |(certificate, key): (&PathBuf, &PathBuf)| KeyPair { certificate: certificate.clone(), key: key.clone() };
        Config::load(Settings {
            pairs: self.tls_cert.iter().zip(&self.tls_key).map(pair).collect(),
            client_ca: self.tls_client_ca.clone(),
            protocols: dialect.protocols.iter().map(|protocol| protocol.to_vec()).collect(),
            allows_kernel,
        })
        .map(Some)
    }
}

/// Decides on kernel TLS, and says what was found.
///
/// # Errors
/// It must be used, and the kernel has none.
pub(crate) fn kernel_support(ktls: KernelTlsUse, driver: &Descriptor) -> anyhow::Result<Option<Support>> {
    let has_sendfile = driver.sends_files == FilePath::Sendfile;
    let must = match ktls {
        KernelTlsUse::Off => return Ok(None),
        KernelTlsUse::Auto if !has_sendfile => {
            tracing::debug!("kernel TLS is not used: driver {} has no sendfile", driver.name);
            return Ok(None);
        }
        KernelTlsUse::Auto => false,
        KernelTlsUse::On => true,
    };
    match Support::probe() {
        Ok(support) => {
            tracing::info!("kernel TLS encrypts large files");
            Ok(Some(support))
        }
        Err(error) if must => Err(error).context(format!("--ktls on: {NO_KERNEL_TLS}")),
        Err(error) => {
            tracing::debug!("kernel TLS is not used: {NO_KERNEL_TLS}: {error}");
            Ok(None)
        }
    }
}

const NO_KERNEL_TLS: &str = "this kernel has no TLS (CONFIG_TLS), or its module is not loaded (modprobe tls)";

/// Collects the [`tls::Counts`].
#[derive(Debug)]
pub(crate) struct TlsMetrics(pub(crate) Arc<Statistics>);

impl Collector for TlsMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let encoder = &mut encoder;
        let help = "Complete TLS handshakes by version, with a certificate (full) or by a ticket (resumed)";
        let mut family = encoder.encode_descriptor("tls_handshakes", help, None, MetricType::Counter)?;
        for (version, Handshakes { full, resumed }) in [("1.2", counts.tls12), ("1.3", counts.tls13)] {
            for (kind, count) in [("full", full), ("resumed", resumed)] {
                let labels = [("version", version), ("kind", kind)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "TLS connections that ended with an alert of the server, or before their handshake in time";
        total(encoder, "tls_failures", help, counts.failed)?;
        total(encoder, "tls_plain_connections", "Connections to TLS addresses that did not speak TLS", counts.plain)?;
        let help = "TLS connections whose output the kernel was given to encrypt";
        total(encoder, "tls_kernel_connections", help, counts.kernel)?;
        let open = i64::try_from(counts.open).unwrap_or(i64::MAX);
        gauge(encoder, "tls_connections_open", "TLS connections open now", open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_do_not_fit_together_are_refused() {
        let args = |listen: usize, certificates: usize, keys: usize, has_ca: bool| TlsArgs {
            tls_listen: vec!["127.0.0.1:0".parse().unwrap(); listen],
            tls_cert: vec!["a".into(); certificates],
            tls_key: vec!["b".into(); keys],
            tls_client_ca: has_ca.then(|| "c".into()),
        };
        for good in [args(0, 0, 0, false), args(1, 1, 1, true), args(2, 3, 3, false)] {
            assert_eq!(good.check(), Ok(()), "{good:?}");
        }
        for (bad, why) in [
            (args(1, 0, 0, false), "--tls-listen needs a certificate"),
            (args(1, 2, 1, false), "come in pairs"),
            (args(0, 0, 1, false), "come in pairs"),
            (args(0, 1, 1, false), "--tls-cert is of no use"),
            (args(0, 0, 0, true), "--tls-client-ca is of no use"),
        ] {
            assert!(bad.check().is_err_and(|said| said.contains(why)), "{bad:?}");
        }
    }

    #[test]
    fn a_ready_line_names_the_scheme_of_a_tls_address() {
        let endpoint = |scheme| Endpoint { address: "127.0.0.1:80".parse().unwrap(), scheme }.to_string();
        assert_eq!((endpoint(None), endpoint(Some("https"))), ("127.0.0.1:80".into(), "https://127.0.0.1:80".into()));
    }
}
