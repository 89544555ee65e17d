//! The latency monitor: delays by the event that caused them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

/// Samples kept of one event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// Delays, by event.
#[derive(Debug, Default)]
pub(crate) struct LatencyMonitor {
    /// Delay from which on it is recorded, in milliseconds; 0: none is.
    pub(crate) threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, LatencySeries>>,
}

/// Delays of one event.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencySeries {
    pub(crate) samples: VecDeque<LatencySample>,
    pub(crate) max_ms: u64,
}

/// Longest delay of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatencySample {
    pub(crate) unix_s: u64,
    pub(crate) ms: u64,
}

impl LatencyMonitor {
    /// True if so long a delay is to be recorded.
    #[inline]
    pub(crate) fn is_recorded(&self, duration: Duration) -> bool {
        let threshold_ms = self.threshold_ms.load(Relaxed);
        threshold_ms > 0 && duration.as_millis() >= u128::from(threshold_ms)
    }

    /// Records a delay; of several in one second the longest is kept.
    pub(crate) fn add(&self, event: &'static str, sample: LatencySample) {
        let mut events = self.events.lock();
        let series = events.entry(event).or_default();
        series.max_ms = series.max_ms.max(sample.ms);
        match series.samples.back_mut().filter(|last| last.unix_s == sample.unix_s) {
            Some(last) => last.ms = last.ms.max(sample.ms),
            None => {
                series.samples.push_back(sample);
                let over = series.samples.len().saturating_sub(SAMPLES_MAX);
                series.samples.drain(..over);
            }
        }
    }

    /// Returns all events with their delays.
    pub(crate) fn all(&self) -> Vec<(&'static str, LatencySeries)> {
        self.events.lock().iter().map(|(event, series)| (*event, series.clone())).collect()
    }

    /// Returns the delays of one event, whatever the case of its name.
    pub(crate) fn get(&self, event: &[u8]) -> Option<LatencySeries> {
        let events = self.events.lock();
        let found = events.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(event));
        found.map(|(_, series)| series.clone())
    }

    /// Forgets the delays of these events, or all if none is named, and returns the number of events forgotten.
    pub(crate) fn reset(&self, names: &[&[u8]]) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        events.retain(|event, _| {
            !names.is_empty() && !names.iter().any(|name| event.as_bytes().eq_ignore_ascii_case(name))
        });
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_delay_of_a_second_is_kept() {
        let monitor = LatencyMonitor::default();
        for (unix_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            monitor.add("command", LatencySample { unix_s, ms });
        }
        let series = monitor.get(b"Command").unwrap();
        assert_eq!(series.samples, [LatencySample { unix_s: 1, ms: 9 }, LatencySample { unix_s: 2, ms: 3 }]);
        assert_eq!((series.max_ms, monitor.reset(&[b"other"]), monitor.reset(&[])), (9, 0, 1));
    }
}
