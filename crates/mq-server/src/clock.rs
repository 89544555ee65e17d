//! The clock by which clients are judged. It stands still while no thread watches the clients that wait: a thread that was
//! busy with one client for a minute must not find all others too late.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Largest part of the time without a watch that counts. A server that is busy with short jobs watches often, so its clock
/// runs.
const UNWATCHED_MAX: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Clock(Mutex<Reading>);

#[derive(Debug)]
struct Reading {
    shown: Duration,
    at: Instant,
    watchers: usize,
}

/// Guard of a thread that waits for clients.
#[derive(Debug)]
pub(crate) struct Watch<'a>(&'a Clock);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Reading { shown: Duration::ZERO, at: Instant::now(), watchers: 0 }))
    }

    /// Returns the time since the clock was made, without the time that no thread watched.
    pub(crate) fn now(&self) -> Duration {
        let mut reading = self.reading();
        if reading.watchers > 0 {
            reading.advance(Instant::now(), Duration::MAX);
        }
        reading.shown
    }

    pub(crate) fn watch(&self) -> Watch<'_> {
        self.reading().change_watchers(Instant::now(), |watchers| watchers + 1);
        Watch(self)
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock()
    }
}

impl Reading {
    fn advance(&mut self, now: Instant, at_most: Duration) {
        self.shown += now.saturating_duration_since(self.at).min(at_most);
        self.at = now;
    }

    fn change_watchers(&mut self, now: Instant, change: impl FnOnce(usize) -> usize) {
        self.advance(now, if self.watchers > 0 { Duration::MAX } else { UNWATCHED_MAX });
        self.watchers = change(self.watchers);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.reading().change_watchers(Instant::now(), |watchers| watchers.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_while_clients_are_watched_and_hardly_otherwise() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut reading = Reading { shown: Duration::ZERO, at: start, watchers: 0 };
        reading.change_watchers(after(100), |n| n + 1);
        assert_eq!(reading.shown, UNWATCHED_MAX);
        reading.change_watchers(after(103), |n| n + 1);
        reading.change_watchers(after(104), |n| n - 1);
        reading.change_watchers(after(105), |n| n - 1);
        assert_eq!(reading.shown, UNWATCHED_MAX + Duration::from_secs(5));
        reading.change_watchers(after(900), |n| n + 1);
        assert_eq!(reading.shown, 2 * UNWATCHED_MAX + Duration::from_secs(5));
    }
}
