//! Latencies during upgrades beside those between them, and when a machine can tell the two apart.

use std::time::Duration;

/// Requests in a thousand that may be slower than the figure that is compared.
const BEYOND: f64 = 0.001;
/// Fewer requests have no such figure.
const LEAST: usize = 3000;
/// Factor by which it may be longer during an upgrade.
const RATIO_MAX: f64 = 3.0;
/// Factor that may lie between two halves of the rest: beyond it the machine is too busy to judge.
const UNREST_MAX: f64 = 1.5;

/// Latencies of requests, by when they were due.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) during: Vec<Duration>,
    /// Those of every second time between two upgrades, and of the others.
    pub(crate) between: [Vec<Duration>; 2],
}

/// Outcome of the comparison.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Within,
    Exceeded,
    /// Reason that there is none.
    None(String),
}

impl Latencies {
    pub(crate) fn append(&mut self, mut other: Self) {
        self.during.append(&mut other.during);
        for (ours, theirs) in self.between.iter_mut().zip(&mut other.between) {
            ours.append(theirs);
        }
    }

    /// Compares them. Returns the figures in words, and the verdict.
    pub(crate) fn compare(&self) -> (String, Verdict) {
        let all: Vec<_> = self.between.concat();
        let [during, rest] = [&self.during, &all].map(|times| quantile(times));
        let said =
            format!("p99.9 {during:?} during upgrades ({}), {rest:?} otherwise ({})", self.during.len(), all.len());
        if [&self.during, &self.between[0], &self.between[1]].iter().any(|times| times.len() < LEAST) {
            return (said, Verdict::None(format!("fewer than {LEAST} requests in one of the parts")));
        }
        let [first, second] = self.between.each_ref().map(|times| quantile(times).as_secs_f64());
        let unrest = first.max(second) / first.min(second);
        let verdict = if unrest > UNREST_MAX {
            Verdict::None(format!("the machine is too busy: two halves of the rest differ {unrest:.1} times"))
        } else if during.as_secs_f64() > RATIO_MAX * rest.as_secs_f64() {
            Verdict::Exceeded
        } else {
            Verdict::Within
        };
        (said, verdict)
    }
}

fn quantile(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let beyond = (times.len() as f64 * BEYOND) as usize;
    times.len().checked_sub(1 + beyond).map_or(Duration::ZERO, |at| times[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(slow_ms: u64) -> Vec<Duration> {
        (0..LEAST).map(|n| Duration::from_millis(if n % 500 == 0 { slow_ms } else { 1 })).collect()
    }

    #[test]
    fn upgrades_are_judged_where_the_rest_is_steady() {
        let verdict =
            |during, between: [u64; 2]| Latencies { during: times(during), between: between.map(times) }.compare().1;
        assert_eq!(verdict(30, [10, 11]), Verdict::Within);
        assert_eq!(verdict(34, [10, 11]), Verdict::Exceeded);
        assert!(matches!(verdict(34, [10, 16]), Verdict::None(why) if why.contains("too busy")));
        let mut few = Latencies { during: times(99), between: [times(1), times(1)] };
        few.between[1].pop();
        assert!(matches!(few.compare().1, Verdict::None(why) if why.contains("fewer")));
    }
}
