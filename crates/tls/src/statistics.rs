//! Counts of handshakes, and the log of those that fail.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustls::HandshakeKind;

/// Interval at which connections that did not speak TLS are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Counts of handshakes, for metrics.
#[derive(Debug, Default)]
pub struct Statistics {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    plain: AtomicU64,
    /// Time of the last line of the log, and the count it named.
    logged: Mutex<Option<(Instant, u64)>>,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete handshakes with a certificate.
    pub full: u64,
    /// Complete handshakes by a session ticket.
    pub resumed: u64,
    /// Handshakes and connections that ended with an alert of ours, or without an answer in time.
    pub failed: u64,
    /// Those of them whose first byte was not TLS.
    pub plain: u64,
}

impl Statistics {
    /// Returns the counts.
    pub fn counts(&self) -> Counts {
        let Self { full, resumed, failed, plain, .. } = self;
        let [full, resumed, failed, plain] = [full, resumed, failed, plain].map(|count| count.load(Relaxed));
        Counts { full, resumed, failed, plain }
    }

    pub(crate) fn completed(&self, kind: Option<HandshakeKind>) {
        let count = if kind == Some(HandshakeKind::Resumed) { &self.resumed } else { &self.full };
        count.fetch_add(1, Relaxed);
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
