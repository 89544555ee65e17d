//! Counts of handshakes, and the log of those that fail.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustls::{HandshakeKind, ProtocolVersion};

/// Interval at which connections that did not speak TLS are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Counts of handshakes and connections, for metrics.
#[derive(Debug, Default)]
pub struct Statistics {
    tls12: VersionTotals,
    tls13: VersionTotals,
    failed: AtomicU64,
    plain: AtomicU64,
    open: AtomicU64,
    kernel: AtomicU64,
    /// Time of the last line of the log, and the count it named.
    logged: Mutex<Option<(Instant, u64)>>,
}

#[derive(Debug, Default)]
struct VersionTotals {
    full: AtomicU64,
    resumed: AtomicU64,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub tls12: Handshakes,
    pub tls13: Handshakes,
    /// Handshakes and connections that ended with an alert of ours, or without an answer in time.
    pub failed: u64,
    /// Those of them whose first byte was not TLS.
    pub plain: u64,
    /// Connections that are open.
    pub open: u64,
    /// Connections whose output the kernel was given to encrypt.
    pub kernel: u64,
}

/// Complete handshakes of one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshakes {
    /// Those with a certificate.
    pub full: u64,
    /// Those by a session ticket.
    pub resumed: u64,
}

impl VersionTotals {
    fn counts(&self) -> Handshakes {
        Handshakes { full: self.full.load(Relaxed), resumed: self.resumed.load(Relaxed) }
    }
}

impl Statistics {
    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        Counts {
            tls12: self.tls12.counts(),
            tls13: self.tls13.counts(),
            failed: self.failed.load(Relaxed),
            plain: self.plain.load(Relaxed),
            open: self.open.load(Relaxed),
            kernel: self.kernel.load(Relaxed),
        }
    }

    pub(crate) fn completed(&self, version: Option<ProtocolVersion>, kind: Option<HandshakeKind>) {
        let totals = if version == Some(ProtocolVersion::TLSv1_2) { &self.tls12 } else { &self.tls13 };
        let count = if kind == Some(HandshakeKind::Resumed) { &totals.resumed } else { &totals.full };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub(crate) fn switched_to_kernel(&self) {
        self.kernel.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// Counts a connection whose first byte was not TLS, and says so in the log once in an interval.
    pub(crate) fn plain(&self, now: Instant) {
        let count = self.plain.fetch_add(1, Relaxed) + 1;
        let mut logged = self.logged.lock();
        let (at, before) = logged.unwrap_or((now, 0));
        if logged.is_none() || now.saturating_duration_since(at) >= LOG_INTERVAL {
            *logged = Some((now, count));
            drop(logged);
            tracing::info!("{} connections to a TLS address did not speak TLS", count.saturating_sub(before));
        }
    }
}
