//! Figures that change with time.

use std::{collections::VecDeque, sync::atomic::AtomicU64, time::Instant};

/// Measurements that a rate is averaged over.
const SAMPLES: usize = 16;

/// Current rates and peaks, written once per tick of the maintenance thread.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) ops_per_sec: AtomicU64,
    pub(crate) input_bytes_per_sec: AtomicU64,
    pub(crate) output_bytes_per_sec: AtomicU64,
    /// Largest memory of entries and tables seen so far.
    pub(crate) memory_peak: AtomicU64,
    /// Bytes of the limit that no entry may have at present.
    pub(crate) memory_withheld: AtomicU64,
}

/// Latest values of some totals, from which their rates follow.
#[derive(Debug, Default)]
pub(crate) struct Rates(VecDeque<(Instant, [u64; 3])>);

impl Rates {
    /// Records the totals and returns by how much each grows in a second.
    pub(crate) fn add(&mut self, now: Instant, totals: [u64; 3]) -> [u64; 3] {
        self.0.push_back((now, totals));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
        let Some((then, before)) = self.0.front() else { return [0; 3] };
        let seconds = now.saturating_duration_since(*then).as_secs_f64();
        // A total that has been reset shrinks.
        let rate = |of: usize| (totals[of].saturating_sub(before[of]) as f64 / seconds) as u64;
        if seconds > 0.0 { std::array::from_fn(rate) } else { [0; 3] }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_computed_over_the_latest_samples() {
        let (mut rates, begin) = (Rates::default(), Instant::now());
        let mut latest = [0; 3];
        for tick in 0..40_u64 {
            latest = rates.add(begin + Duration::from_secs(tick), [tick.saturating_sub(20) * 10, tick, 0]);
        }
        assert_eq!(latest, [10, 1, 0]);
        assert_eq!(rates.add(begin + Duration::from_secs(40), [0, 0, 0]), [0; 3], "after a reset");
    }
}
