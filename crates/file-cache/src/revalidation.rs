//! When something cached was last known to be current, and whether it still is.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sys::beneath::{Metadata, OpenError};

/// Returns a time since the epoch in nanoseconds, which is enough until the year 2554.
#[inline]
pub fn unix_ns(unix: Duration) -> u64 {
    unix.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(unix.subsec_nanos()))
}

/// Interval within which what was found to be current is taken to be so without a check.
#[derive(Clone, Copy, Debug)]
pub struct Revalidation {
    interval_ns: u64,
}

impl Revalidation {
    pub fn new(interval: Duration) -> Self {
        Self { interval_ns: u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// True if no check is due at `now_ns`, in nanoseconds since the epoch.
    #[inline]
    pub fn is_fresh(&self, last: &LastCheck, now_ns: u64) -> bool {
        self.is_fresh_since(last.0.load(Ordering::Relaxed), now_ns)
    }

    /// True if no check is due at `now_ns` after one at `checked_ns`, both in nanoseconds since the epoch.
    #[inline]
    pub(crate) fn is_fresh_since(&self, checked_ns: u64, now_ns: u64) -> bool {
        // A clock that was set back wraps around to a large age.
        now_ns.wrapping_sub(checked_ns) < self.interval_ns
    }
}

/// Time at which something was last known to be current, in nanoseconds since the epoch.
#[derive(Debug)]
pub struct LastCheck(AtomicU64);

impl Clone for LastCheck {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl LastCheck {
    pub fn new(now_ns: u64) -> Self {
        Self(AtomicU64::new(now_ns))
    }

    /// Runs a check, and remembers that it was at `now_ns` if it finds nothing changed. Returns its finding.
    pub fn recheck(&self, now_ns: u64, is_unchanged: impl FnOnce() -> bool) -> bool {
        let is_unchanged = is_unchanged();
        if is_unchanged {
            // The time is that before the check, so the next one is early rather than late.
            self.0.store(now_ns, Ordering::Relaxed);
        }
        is_unchanged
    }
}

/// Metadata of a file, and whether a later change is certain to show in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    pub metadata: Metadata,
    /// True if the last change was long enough ago for the next one to have another time.
    pub is_settled: bool,
}

impl FileState {
    /// State of a file with this metadata at `now` since the epoch.
    pub fn new(metadata: Metadata, now: Duration) -> Self {
        Self { metadata, is_settled: metadata.is_settled(now) }
    }

    /// True if the file is certain to be as it was. Without that certainty, `stat` is not even called.
    pub fn is_unchanged(&self, stat: impl FnOnce() -> Result<Metadata, OpenError>) -> bool {
        self.is_settled && stat() == Ok(self.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_check_counts_for_the_interval() {
        let (revalidation, last) = (Revalidation::new(SECOND), LastCheck::new(5_000_000_000));
        for (now_ns, is_fresh) in [(5_000_000_000, true), (5_999_999_999, true), (6_000_000_000, false)] {
            assert_eq!(revalidation.is_fresh(&last, now_ns), is_fresh, "{now_ns}");
        }
        assert!(!revalidation.is_fresh(&last, 4_999_999_999), "the clock was set back");
        assert!(!Revalidation::new(Duration::ZERO).is_fresh(&last, 5_000_000_000), "each time");
        assert!(Revalidation::new(Duration::MAX).is_fresh(&last, u64::MAX), "never again");
    }

    #[test]
    fn only_a_check_that_finds_no_change_is_remembered() {
        let (revalidation, last) = (Revalidation::new(SECOND), LastCheck::new(0));
        assert!(!last.recheck(7_000_000_000, || false));
        assert!(!revalidation.is_fresh(&last, 7_000_000_000));
        assert!(last.recheck(7_000_000_000, || true));
        assert!(revalidation.is_fresh(&last, 7_900_000_000));
    }

    #[test]
    fn a_state_vouches_for_a_file_only_once_it_has_settled() {
        let metadata = Metadata { device: 1, inode: 2, size: 3, modified_ns: 4, changed_ns: 1_000_000_000 };
        let settled = FileState::new(metadata, SECOND + Metadata::TIMESTAMP_STEP);
        assert!(settled.is_unchanged(|| Ok(metadata)));
        assert!(!settled.is_unchanged(|| Ok(Metadata { changed_ns: 1_000_000_001, ..metadata })));
        assert!(!settled.is_unchanged(|| Err(OpenError::Missing)));
        let unsettled = FileState::new(metadata, SECOND);
        assert!(!unsettled.is_unchanged(|| panic!("nothing that it could say would help")));
    }
}
