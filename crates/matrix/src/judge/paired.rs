//! Two servers that took turns: the ratio of their costs, and when enough is known of it.
//!
//! A *turn* is some 50 ms of load on one server, a *pair* a turn of each, a *round* some pairs of two fresh processes. Within
//! a round drift cancels, and the centre of its pairs is one value; rounds are what differs from process to process (where
//! memory lies, which ports), so they are the unit of every interval.
//!
//! The interval is a confidence sequence: it holds the true ratio at all times at once with the probability promised,
//! so that one may look after every round and stop when the answer is there. It is the one that follows from mixing t statistics over normally distributed
//! effects (Robbins 1970; Lai, On confidence sequences, 1976; Wang and Ramdas, Anytime-valid t-tests and confidence sequences for
//! Gaussian means with unknown variance, 2023).

use serde::{Deserialize, Serialize};

use crate::judge::stats::median;

/// Rounds below which nothing is decided, however alike they are: the confidence sequence of five still holds every ratio.
pub(crate) const ROUNDS_MIN: usize = 6;
/// Probability that a confidence sequence ever leaves the true ratio out.
pub(crate) const ERROR: f64 = 0.01;
/// Weight of the prior of the mixture, in rounds: effects of about one deviation of a round are found soonest.
const PRIOR_ROUNDS: f64 = 1.0;
/// A round further from the median of all than so many of their deviations counts as if it were that far.
const CLIP_DEVIATIONS: f64 = 4.0;
/// Median of absolute deviations of a normal distribution, in standard deviations.
const MAD_OF_NORMAL: f64 = 0.6745;
/// Share of a turn for which somebody else may have had its CPUs before its pair is suspect.
const DISTURBED_FROM: f64 = 0.05;

/// One turn of one server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Turn {
    /// CPU time of all the server's threads.
    pub(crate) cpu_ns: u64,
    pub(crate) ok: u64,
    pub(crate) p99_us: f64,
    pub(crate) elapsed_ns: u64,
    /// Time for which threads of server or generator were ready and had no CPU.
    pub(crate) waited_ns: u64,
    /// Share of the machine's time that the hypervisor took.
    pub(crate) stolen: f64,
}

impl Turn {
    pub(crate) fn cost_ns(&self) -> f64 {
        self.cpu_ns as f64 / self.ok.max(1) as f64
    }

    /// Share of the turn that others took.
    fn disturbance(&self) -> f64 {
        (self.waited_ns as f64 / self.elapsed_ns.max(1) as f64).max(self.stolen)
    }

    fn is_usable(&self) -> bool {
        self.ok > 0 && self.cpu_ns > 0 && self.p99_us > 0.0
    }
}

/// A turn of each server, one right behind the other.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pair {
    pub(crate) base: Turn,
    pub(crate) change: Turn,
}

/// Figure that two servers are compared by.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PairMetric {
    Cpu,
    P99,
}

impl PairMetric {
    fn log_ratio(self, pair: &Pair) -> f64 {
        let of = |turn: &Turn| match self {
            Self::Cpu => turn.cost_ns(),
            Self::P99 => turn.p99_us,
        };
        (of(&pair.change) / of(&pair.base)).ln()
    }
}

/// Values of a round: logarithms of change over base.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RoundValues {
    pub(crate) cpu: f64,
    pub(crate) p99: f64,
    /// Pairs that counted, and those that others disturbed.
    pub(crate) kept: usize,
    pub(crate) rejected: usize,
}

/// Returns the values of a round; `None` where no pair is usable. Pairs that others disturbed are left out, at most half of
/// them. The disturbance does not know which server is which, so that it cannot favour one.
pub(crate) fn round_values(pairs: &[Pair]) -> Option<RoundValues> {
    let usable: Vec<&Pair> = pairs.iter().filter(|pair| pair.base.is_usable() && pair.change.is_usable()).collect();
    let disturbance = |pair: &&&Pair| pair.base.disturbance().max(pair.change.disturbance());
    let all: Vec<f64> = usable.iter().map(|pair| disturbance(&pair)).collect();
    let limit = DISTURBED_FROM.max(median(&all));
    let kept: Vec<&Pair> = usable.iter().filter(|pair| disturbance(pair) <= limit).copied().collect();
    let centre = |metric: PairMetric| centre(&kept.iter().map(|pair| metric.log_ratio(pair)).collect::<Vec<_>>());
    Some(RoundValues {
        cpu: centre(PairMetric::Cpu)?,
        p99: centre(PairMetric::P99)?,
        kept: kept.len(),
        rejected: pairs.len() - kept.len(),
    })
}

/// The median of the means of all two values, each with itself, too (Hodges and Lehmann): as good as the mean where values are
/// normal, and unmoved by a few that are wild.
fn centre(values: &[f64]) -> Option<f64> {
    let means =
        values.iter().enumerate().flat_map(|(at, one)| values[at..].iter().map(move |other| (one + other) / 2.0));
    let means: Vec<f64> = means.collect();
    (!means.is_empty()).then(|| median(&means))
}

/// A confidence sequence: the values of the rounds so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sequence {
    values: Vec<f64>,
}

/// Where the logarithm of the true ratio lies.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Known {
    pub(crate) centre: f64,
    pub(crate) half_width: f64,
}

/// What is to be said of two servers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decision {
    /// The change costs less, or more.
    Less,
    More,
    /// A difference as large as the one asked for would have been seen.
    Alike,
    Undecided,
}

impl Decision {
    pub(crate) fn is_difference(self) -> bool {
        matches!(self, Self::Less | Self::More)
    }
}

impl Sequence {
    pub(crate) fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    pub(crate) fn rounds(&self) -> usize {
        self.values.len()
    }

    /// Returns the interval after the rounds so far; `None` while there are too few.
    pub(crate) fn known(&self, error: f64) -> Option<Known> {
        let clipped = clipped(&self.values);
        let count = clipped.len();
        if count < ROUNDS_MIN {
            return None;
        }
        let n = count as f64;
        let centre = clipped.iter().sum::<f64>() / n;
        let variance = clipped.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (n - 1.0);
        // The Bayes factor of the t statistic is √r·((1 + x)/(1 + r·x))^(n/2) with x = t²/(n − 1): it reaches 1/error at this x.
        let r = PRIOR_ROUNDS / (PRIOR_ROUNDS + n);
        let power = (error * r.sqrt()).powf(-2.0 / n);
        let reach = if r * power < 1.0 { (power - 1.0) / (1.0 - r * power) } else { f64::INFINITY };
        let half_width = (variance * reach * (n - 1.0) / n).sqrt();
        half_width.is_finite().then_some(Known { centre, half_width })
    }
}

impl Known {
    /// Decides, where differences of `resolution` (a fraction) and more matter.
    pub(crate) fn decision(self, resolution: f64) -> Decision {
        let Self { centre, half_width } = self;
        match () {
            () if centre - half_width > 0.0 => Decision::More,
            () if centre + half_width < 0.0 => Decision::Less,
            () if centre.abs() + half_width < resolution.ln_1p() => Decision::Alike,
            () => Decision::Undecided,
        }
    }

    /// How far the interval is from holding 1, as a multiple of its half-width: above 1 there is a difference.
    pub(crate) fn score(self) -> f64 {
        if self.half_width > 0.0 { self.centre / self.half_width } else { 0.0 }
    }
}

/// The values, none further from their median than [`CLIP_DEVIATIONS`].
fn clipped(values: &[f64]) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let limit = CLIP_DEVIATIONS * median(&deviations) / MAD_OF_NORMAL;
    values.iter().map(|value| if limit > 0.0 { value.clamp(middle - limit, middle + limit) } else { *value }).collect()
}

#[cfg(test)]
mod tests;
