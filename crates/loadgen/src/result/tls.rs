//! TLS in a result.

use std::fmt;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Latency, never_negative};

/// TLS handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[schemars(transform = never_negative)]
pub struct Handshakes {
    /// Number of those that made new keys.
    pub full: u64,
    /// Number of those that resumed an earlier session.
    pub resumed: u64,
    /// Handshakes of both kinds per second.
    pub rate: f64,
    /// Time from the connection to the end of the handshake, of both kinds; null if there was none.
    pub latency_us: Option<Latency>,
}

impl Handshakes {
    /// Makes the figures of so many seconds: `resumed` of the handshakes in the histogram of nanoseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of one run fit a double")]
    pub fn new(latency: &Histogram<u64>, resumed: u64, seconds: f64) -> Self {
        let count = latency.len();
        let rate = if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Self { full: count.saturating_sub(resumed), resumed, rate, latency_us: Latency::if_recorded(latency) }
    }
}

/// Outcome of a TLS handshake: the choices of the server among what it was offered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
pub struct TlsSession {
    /// Version of TLS: 1.2 or 1.3.
    #[schemars(extend("enum" = ["1.2", "1.3", "other"]))]
    pub version: String,
    /// Cipher suite, by its name at IANA.
    pub cipher: String,
    /// Group in which keys were exchanged; null if none were.
    pub group: Option<String>,
    /// Protocol that was agreed to by ALPN; null if none was asked for, or none chosen.
    pub protocol: Option<String>,
}

impl TlsSession {
    /// Returns each of them once, in their order.
    pub fn distinct(sessions: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut known = Vec::new();
        for session in sessions {
            if !known.contains(&session) {
                known.push(session);
            }
        }
        known
    }
}

impl fmt::Display for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS {}, {}", self.version, self.cipher)?;
        [&self.group, &self.protocol].into_iter().flatten().try_for_each(|name| write!(f, ", {name}"))
    }
}
