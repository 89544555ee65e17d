//! Uptake of output by a peer, looked at only once in a stall limit.
//!
//! That bytes could be written does not tell: the kernel's buffers are large, so that a peer may read steadily while
//! nothing more can be written for a long time, or take next to nothing of what was written.

use std::time::{Duration, Instant};

/// Measure of what the peer has taken, asked of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uptake {
    /// Bytes that it has acknowledged since the connection began; `None` where the kernel does not count them.
    pub acknowledged: Option<u64>,
    /// Bytes that were sent and that it has not taken yet.
    pub pending: u64,
}

impl Uptake {
    /// Uptake of a peer of which nothing is known: it takes nothing.
    pub fn none() -> Self {
        Self { acknowledged: None, pending: u64::MAX }
    }

    /// Uptake of a peer that has taken everything: for a session whose output another session sends, and judges.
    pub fn all() -> Self {
        Self { acknowledged: None, pending: 0 }
    }

    /// Bytes taken since an earlier look. Where they are not counted, any change is enough: what has been taken may
    /// have been replaced by more output.
    fn since(&self, earlier: &Self) -> u64 {
        match (earlier.acknowledged, self.acknowledged) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ if self.pending == earlier.pending => 0,
            _ => u64::MAX,
        }
    }
}

/// A look at a peer that has output to take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallCheck {
    /// The last time that the peer was heard; another time makes this look one of the past.
    heard_at: Instant,
    at: Instant,
    uptake: Uptake,
}

/// Part of the limit after which the first look is made, which is only there to be compared with.
const FIRST_PART: u32 = 8;

impl StallCheck {
    pub(crate) fn new(heard_at: Instant, at: Instant, uptake: Uptake) -> Self {
        Self { heard_at, at, uptake }
    }

    /// Returns the time of the next look, given the last one.
    pub(crate) fn next(last: Option<&Self>, heard_at: Instant, stall_max: Duration) -> Instant {
        match last.filter(|last| last.heard_at == heard_at) {
            Some(last) => last.at + stall_max,
            None => heard_at + stall_max / FIRST_PART,
        }
    }

    /// True if the peer has taken less than `rate_min` bytes per second since the `last` look. It has not if everything
    /// has been taken: then it is not the peer that is waited for.
    pub(crate) fn is_stalled(&self, last: Option<&Self>, stall_max: Duration, rate_min: u64) -> bool {
        let Some(last) = last.filter(|last| last.heard_at == self.heard_at) else { return false };
        // Where the server itself was paused, the peer had no more time than the limit.
        let span = (self.at - last.at).min(stall_max);
        let wanted = rate_min.saturating_mul(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)) / 1000;
        self.uptake.pending > 0 && self.uptake.since(&last.uptake) < wanted.max(1)
    }
}
