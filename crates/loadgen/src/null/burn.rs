//! Work that a server adds to its requests: an effect of known size, for those who want to know what they can see.

use std::{hint::black_box, str::FromStr};

use crate::clock::{self, MILLISECOND, Nanos};

/// Steps between two looks at the clock while it is found out how long a step takes.
const PROBE_STEPS: u64 = 100_000;
/// Attempts, of which the fastest counts: whatever disturbs makes them slower.
const PROBES: usize = 20;
/// Number of requests that [`Burn::measure`] burns for, at least so much CPU time.
const MEASURED_CPU: Nanos = 5 * MILLISECOND;

/// CPU time, and the number of requests of which one takes it: `3.5us`, `200us/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurnOption {
    pub cpu_ns: Nanos,
    pub every: u64,
}

impl FromStr for BurnOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MAX_NS: f64 = 1e9;
        let problem = || "expected a time, 1s at most, such as 50ns, 3.5us or 200us/1000".to_owned();
        let (time, every) = text.split_once('/').unwrap_or((text, "1"));
        let every = every.parse().ok().filter(|every| *every > 0).ok_or_else(problem)?;
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        let parsed = units.iter().find_map(|(unit, ns)| Some(time.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
        let cpu_ns = parsed.filter(|ns| (0.0..=MAX_NS).contains(ns)).ok_or_else(problem)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a second, not negative")]
        let cpu_ns = cpu_ns.round() as u64;
        Ok(Self { cpu_ns, every })
    }
}

/// CPU time that is spent on every request, or on every so-manieth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Burn {
    /// Steps of work for a request; 0 burns nothing.
    steps: u64,
    /// Distance between the requests that are burnt for.
    every: u64,
    /// Requests since the last of them.
    passed: u64,
}

impl Burn {
    /// Finds out how many steps take `cpu_ns` of this machine's CPU time, to be spent on one of `every` requests.
    #[must_use]
    pub fn calibrated(cpu_ns: Nanos, every: u64) -> Self {
        let probes = (0..PROBES).map(|_| {
            let before = clock::thread_cpu();
            work(PROBE_STEPS);
            clock::thread_cpu().saturating_sub(before).max(1)
        });
        let fastest = probes.min().unwrap_or(1);
        let steps = u128::from(cpu_ns) * u128::from(PROBE_STEPS) / u128::from(fastest);
        Self { steps: u64::try_from(steps).unwrap_or(u64::MAX), every: every.max(1), passed: 0 }
    }

    /// Spends what is due after so many more requests.
    #[inline]
    pub fn spend(&mut self, requests: u64) {
        if self.steps > 0 {
            self.spend_after(self.passed, requests);
            self.passed = (self.passed + requests) % self.every;
        }
    }

    /// Spends what is due after so many more requests than `passed`, for a caller that counts them itself.
    #[inline]
    pub fn spend_after(&self, passed: u64, requests: u64) {
        if self.steps > 0 {
            work(self.steps * ((passed + requests) / self.every - passed / self.every));
        }
    }

    /// Measures the CPU time that is spent on a request, on the mean of all.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean of milliseconds")]
    pub fn measure(&self) -> f64 {
        let mut burn = *self;
        let (before, mut requests) = (clock::thread_cpu(), 0_u64);
        loop {
            burn.spend(self.every);
            requests += self.every.max(1);
            let spent = clock::thread_cpu().saturating_sub(before);
            if self.steps == 0 || spent >= MEASURED_CPU {
                return spent as f64 / requests as f64;
            }
        }
    }
}

/// Steps that nobody can leave out, each of which waits for the one before. One piece of code, not a copy for each caller: what is
/// found out of it has to hold where it is spent.
#[inline(never)]
fn work(steps: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        state = black_box(state.rotate_left(5) ^ 0xa5a5);
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burn_is_a_time_and_perhaps_one_of_so_many() {
        let burn = |cpu_ns, every| Ok(BurnOption { cpu_ns, every });
        assert_eq!("50ns".parse(), burn(50, 1));
        assert_eq!("3.5us".parse(), burn(3_500, 1));
        assert_eq!("200µs/1000".parse(), burn(200_000, 1_000));
        assert_eq!("1s".parse(), burn(1_000_000_000, 1));
        for text in ["", "50", "x", "-1ns", "nanns", "2s", "5ns/0", "5ns/", "5ns/x"] {
            assert!(text.parse::<BurnOption>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_work_is_spent_on_one_request_of_so_many() {
        let mut burn = Burn { steps: 10, every: 3, passed: 0 };
        for (requests, passed) in [(1, 1), (1, 2), (1, 0), (7, 1), (2, 0), (0, 0)] {
            burn.spend(requests);
            assert_eq!(burn.passed, passed);
        }
        let mut none = Burn::default();
        none.spend(5);
        assert_eq!(none, Burn::default());
    }

    #[test]
    fn ten_times_the_work_costs_about_ten_times_as_much() {
        let (short, long) = (Burn::calibrated(2_000, 1).measure(), Burn::calibrated(20_000, 1).measure());
        // CPU time, so that a busy machine does not matter; but another clock rate does.
        assert!((4.0..25.0).contains(&(long / short)), "{short} {long}");
        let rare = Burn::calibrated(20_000, 10).measure();
        assert!((0.4..2.5).contains(&(rare / short)), "{short} {rare}");
        assert!(Burn::default().measure() < 1e6);
    }
}
