//! The coarse timers of one event loop. Activity never touches the wheel: a timer that expires early is set
//! again when the loop looks at the connection's deadline.

use std::time::{Duration, Instant};

/// Resolution of timers: none expires later than this after its deadline.
pub(crate) const TICK: Duration = Duration::from_millis(100);
const BUCKETS: u64 = 512;

#[derive(Debug)]
pub(crate) struct Wheel {
    buckets: Vec<Vec<usize>>,
    start: Instant,
    /// Ticks up to and including this one have expired.
    expired: u64,
    /// No bucket before this tick holds a timer.
    next: u64,
    count: usize,
}

/// The timer that a connection has on the wheel, kept with the connection.
#[derive(Debug, Default)]
pub(crate) struct Timer(Option<Instant>);

impl Wheel {
    pub(crate) fn new(start: Instant) -> Self {
        Self { buckets: (0..BUCKETS).map(|_| Vec::new()).collect(), start, expired: 0, next: 0, count: 0 }
    }

    /// Expires at `deadline` or up to a tick later; a deadline beyond the wheel expires early.
    #[inline]
    pub(crate) fn set(&mut self, key: usize, timer: &mut Timer, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        if timer.0.is_some_and(|set| set <= deadline) {
            return;
        }
        timer.0 = Some(deadline);
        let tick = (self.tick_of(deadline) + 1).clamp(self.expired + 1, self.expired + BUCKETS - 1);
        self.buckets[(tick % BUCKETS) as usize].push(key);
        self.next = if self.count == 0 { tick } else { self.next.min(tick) };
        self.count += 1;
    }

    /// Returns when the first timer expires.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.count > 0).then(|| self.start + TICK.saturating_mul(u32::try_from(self.next).unwrap_or(u32::MAX)))
    }

    /// Returns the time that the loop may sleep.
    pub(crate) fn timeout(&self, now: Instant) -> Option<Duration> {
        self.due().map(|due| due.saturating_duration_since(now))
    }

    /// Keys whose timer expires; each must clear its timer and set it again.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<usize> {
        let mut keys = Vec::new();
        let now = self.tick_of(now);
        if self.count == 0 || now < self.next {
            self.expired = self.expired.max(now);
            return keys;
        }
        // A loop that slept longer than the wheel is wide expires every bucket once.
        for tick in self.expired + 1..=now.min(self.expired + BUCKETS) {
            keys.append(&mut self.buckets[(tick % BUCKETS) as usize]);
        }
        self.expired = now;
        self.count -= keys.len();
        let filled = (now + 1..now + BUCKETS).find(|tick| !self.buckets[(tick % BUCKETS) as usize].is_empty());
        self.next = filled.unwrap_or(now + 1);
        keys
    }

    fn tick_of(&self, at: Instant) -> u64 {
        (at.saturating_duration_since(self.start).as_millis() / TICK.as_millis()) as u64
    }
}

impl Timer {
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every timer expires within a tick after its deadline, or early where the deadline lies beyond the wheel; never
    /// twice and never not at all, however long the loop sleeps in between.
    #[test]
    fn timers_expire_once_and_in_time() {
        let start = Instant::now();
        for step_ms in [1, 70, 250, 5_000, 80_000] {
            let mut wheel = Wheel::new(start);
            let deadlines: Vec<_> = (0..200_u64).map(|key| Duration::from_millis(key * key * 7 % 40_000)).collect();
            let mut pending = vec![true; deadlines.len()];
            for (key, &after) in deadlines.iter().enumerate() {
                wheel.set(key, &mut Timer::default(), Some(start + after));
            }
            let mut at = Duration::ZERO;
            while pending.contains(&true) {
                assert!(wheel.timeout(start + at).is_some());
                at += Duration::from_millis(step_ms);
                for key in wheel.expire(start + at) {
                    assert!(std::mem::take(&mut pending[key]), "{key} expired twice");
                    assert!(deadlines[key] <= at, "{key} expired early");
                }
                for (key, after) in deadlines.iter().enumerate() {
                    assert!(!pending[key] || *after + TICK * 2 + Duration::from_millis(step_ms) > at, "{key} is late");
                }
            }
            assert_eq!(wheel.timeout(start + at), None);
        }
    }

    /// The loop sleeps until the first timer instead of waking at every tick.
    #[test]
    fn the_timeout_is_that_of_the_first_timer() {
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        wheel.set(1, &mut Timer::default(), Some(start + Duration::from_secs(30)));
        assert_eq!(wheel.timeout(start), Some(Duration::from_secs(30) + TICK));
        wheel.set(2, &mut Timer::default(), Some(start + Duration::from_secs(10)));
        assert_eq!(wheel.timeout(start), Some(Duration::from_secs(10) + TICK));
        assert_eq!(wheel.expire(start + Duration::from_secs(11)), [2]);
        assert_eq!(wheel.timeout(start), Some(Duration::from_secs(30) + TICK));
    }
}
