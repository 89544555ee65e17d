//! Choice of what is asked for next: keys, documents.

use std::{collections::HashMap, sync::Arc};

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use rand_distr::{Distribution as _, Zipf};

/// Distribution of the requests over the keys.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyDistribution {
    /// All keys are equally likely.
    Uniform,
    /// Zipf's law: the r-th most popular key occurs in proportion to r to the power of minus this.
    Zipf(f64),
    /// One key after the other, and from the beginning again.
    Sequential,
    /// This share of the keys, all alike, gets that share of the requests, and the others the rest. Both are between 0
    /// and 1.
    Hot { keys: f64, requests: f64 },
    /// The order of a trace, and from the beginning again.
    Replay(Arc<Trace>),
}

/// Keys in the order in which they were asked for, as numbers: 0 is the one that was asked for first, 1 the next that
/// differs from it, and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    keys: Vec<u32>,
    distinct: u32,
}

impl Trace {
    /// Reads a text with a key on each line; empty lines do not count, and neither do blanks at the end of a line.
    /// `None` if there is no key, or if there are more than a `u32` counts.
    #[must_use]
    pub fn from_lines(text: &[u8]) -> Option<Self> {
        let mut numbers: HashMap<&[u8], u32> = HashMap::new();
        let mut keys = Vec::new();
        for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty()) {
            let next = u32::try_from(numbers.len()).ok()?;
            keys.push(*numbers.entry(line).or_insert(next));
        }
        let distinct = u32::try_from(numbers.len()).ok()?;
        (distinct > 0 && u32::try_from(keys.len()).is_ok()).then_some(Self { keys, distinct })
    }

    /// Returns the number of requests before it starts again.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns false: a trace has a key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Reasons why nothing can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// The exponent is not a positive number.
    #[error("{0} is no exponent of Zipf's law")]
    Exponent(f64),
    /// The trace has more different keys than there are.
    #[error("the trace has {distinct} different keys, more than the {keys} that there are")]
    TooManyKeys { distinct: u32, keys: u32 },
}

/// Source of keys below a number, and of other random choices.
#[derive(Clone, Debug)]
pub(crate) struct KeyGenerator {
    keys: u32,
    rng: SmallRng,
    sequence: KeySequence,
}

#[derive(Clone, Debug)]
enum KeySequence {
    Uniform,
    Zipf { ranks: Zipf<f64>, step: u64 },
    Sequential { next: u32 },
    Hot { hot: u32, requests: f64, step: u64 },
    Replay { trace: Arc<Trace>, next: usize },
}

impl KeyGenerator {
    pub(crate) fn new(distribution: &KeyDistribution, keys: u32, seed: u64) -> Result<Self, DistributionError> {
        let sequence = match *distribution {
            KeyDistribution::Uniform => KeySequence::Uniform,
            KeyDistribution::Sequential => KeySequence::Sequential { next: 0 },
            KeyDistribution::Zipf(exponent) => {
                let ranks = Zipf::new(f64::from(keys), exponent).map_err(|_| DistributionError::Exponent(exponent))?;
                KeySequence::Zipf { ranks, step: scattering_step(keys) }
            }
            KeyDistribution::Hot { keys: share, requests } => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32")]
                let hot = ((f64::from(keys) * share).ceil() as u32).clamp(1, keys);
                KeySequence::Hot { hot, requests: requests.clamp(0.0, 1.0), step: scattering_step(keys) }
            }
            KeyDistribution::Replay(ref trace) if trace.distinct > keys => {
                return Err(DistributionError::TooManyKeys { distinct: trace.distinct, keys });
            }
            KeyDistribution::Replay(ref trace) => KeySequence::Replay { trace: Arc::clone(trace), next: 0 },
        };
        Ok(Self { keys, rng: SmallRng::seed_from_u64(seed), sequence })
    }

    /// Makes a copy with another seed.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), ..self.clone() }
    }

    /// Lets keys that come in order begin with the part of this thread; has no effect on random ones.
    pub(crate) fn start_at_share(&mut self, thread: usize, threads: usize) {
        let share = |whole: u64| whole * thread as u64 / threads.max(1) as u64;
        match &mut self.sequence {
            KeySequence::Sequential { next } => *next = u32::try_from(share(self.keys.into())).unwrap_or_default(),
            KeySequence::Replay { trace, next } => {
                *next = usize::try_from(share(trace.len() as u64)).unwrap_or_default()
            }
            KeySequence::Uniform | KeySequence::Zipf { .. } | KeySequence::Hot { .. } => {}
        }
    }

    pub(crate) fn key(&mut self) -> u32 {
        match &mut self.sequence {
            KeySequence::Uniform => self.rng.random_range(0..self.keys),
            KeySequence::Sequential { next } => {
                let key = *next;
                *next = if key + 1 == self.keys { 0 } else { key + 1 };
                key
            }
            KeySequence::Replay { trace, next } => {
                let key = trace.keys[*next];
                *next = if *next + 1 == trace.len() { 0 } else { *next + 1 };
                key
            }
            KeySequence::Zipf { ranks, step } => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank from 1 to keys")]
                let rank = ranks.sample(&mut self.rng) as u64 - 1;
                scattered(rank, *step, self.keys)
            }
            KeySequence::Hot { hot, requests, step } => {
                let (hot, keys) = (*hot, self.keys);
                let is_hot = hot == keys || self.rng.random_bool(*requests);
                let rank = self.rng.random_range(if is_hot { 0..hot } else { hot..keys });
                scattered(u64::from(rank), *step, keys)
            }
        }
    }

    /// Draws a number below `bound`, all equally likely.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.rng.random_range(0..bound)
    }

    pub(crate) fn has_chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }
}

/// Returns a factor that maps ranks to keys one to one: it has no divisor in common with `keys`. So popular keys are
/// not the ones that were stored first.
fn scattering_step(keys: u32) -> u64 {
    const GOLDEN: u64 = 2_654_435_761;
    (GOLDEN..).find(|&step| greatest_common_divisor(step, u64::from(keys)) == 1).unwrap_or(1)
}

fn scattered(rank: u64, step: u64, keys: u32) -> u32 {
    u32::try_from(rank * step % u64::from(keys)).unwrap_or_default()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: KeyDistribution, keys: u32, draws: usize) -> Vec<usize> {
        let mut generator = KeyGenerator::new(&distribution, keys, 7).expect("valid");
        let mut counts = vec![0; keys as usize];
        (0..draws).for_each(|_| counts[generator.key() as usize] += 1);
        counts
    }

    #[test]
    fn zipf_has_the_frequencies_of_its_law() {
        let (keys, draws) = (1_000, 1_000_000);
        let mut found = counts(KeyDistribution::Zipf(0.99), keys, draws);
        found.sort_unstable_by(|a, b| b.cmp(a));
        let weight = |rank: usize| (rank as f64).powf(-0.99);
        let total: f64 = (1..=keys as usize).map(weight).sum();
        for rank in [1, 2, 10, 100] {
            let expected = draws as f64 * weight(rank) / total;
            // Neighbouring ranks change places by chance, and the standard error is at most 2.5 % here.
            assert!((found[rank - 1] as f64 / expected - 1.0).abs() < 0.1, "{rank}: {} {expected}", found[rank - 1]);
        }
    }

    #[test]
    fn uniform_reaches_every_key() {
        assert!(counts(KeyDistribution::Uniform, 100, 100_000).iter().all(|&count| (800..1_200).contains(&count)));
    }

    #[test]
    fn a_hot_set_gets_its_share_and_is_scattered() {
        let found = counts(KeyDistribution::Hot { keys: 0.1, requests: 0.9 }, 100, 1_000_000);
        let is_hot = |&&count: &&usize| count > 50_000;
        assert_eq!(found.iter().filter(is_hot).count(), 10);
        // 900,000 for ten keys, 100,000 for ninety; four standard errors are below 2 % and 13 %.
        assert!(found.iter().filter(is_hot).all(|&count| (88_000..92_000).contains(&count)), "{found:?}");
        assert!(found.iter().filter(|count| !is_hot(count)).all(|&count| (960..1_260).contains(&count)), "{found:?}");
        assert!(found[..10].iter().any(|&count| count < 50_000), "not the first that were stored: {found:?}");
        assert_eq!(counts(KeyDistribution::Hot { keys: 1.0, requests: 0.0 }, 3, 300).iter().sum::<usize>(), 300);
    }

    #[test]
    fn sequential_takes_turns() {
        assert!(counts(KeyDistribution::Sequential, 100, 300).iter().all(|&count| count == 3));
    }

    #[test]
    fn keys_in_order_may_begin_anywhere() {
        let mut generator = KeyGenerator::new(&KeyDistribution::Sequential, 3, 1).expect("valid");
        generator.start_at_share(2, 3);
        assert_eq!([generator.key(), generator.key(), generator.key()], [2, 0, 1]);
    }

    #[test]
    fn a_trace_is_asked_for_again_in_its_order() {
        let trace = Trace::from_lines(b"user:7\nuser:9\r\n\nuser:7\npage 1\nuser:9").expect("five keys");
        assert_eq!((trace.len(), trace.distinct), (5, 3));
        let replay = KeyDistribution::Replay(Arc::new(trace));
        let mut generator = KeyGenerator::new(&replay, 3, 1).expect("three keys are enough");
        assert_eq!([0; 7].map(|_| generator.key()), [0, 1, 0, 2, 1, 0, 1]);
        generator.start_at_share(1, 2);
        assert_eq!([0; 4].map(|_| generator.key()), [0, 2, 1, 0]);
        assert_eq!(
            KeyGenerator::new(&replay, 2, 1).err(),
            Some(DistributionError::TooManyKeys { distinct: 3, keys: 2 })
        );
        assert_eq!(Trace::from_lines(b" \n\r\n"), None);
    }

    #[test]
    fn the_seed_decides() {
        let keys = |seed| {
            let mut generator = KeyGenerator::new(&KeyDistribution::Zipf(1.2), u32::MAX, seed).expect("valid");
            (0..50).map(|_| generator.key()).collect::<Vec<_>>()
        };
        assert_eq!(keys(1), keys(1));
        assert_ne!(keys(1), keys(2));
        assert!(KeyGenerator::new(&KeyDistribution::Zipf(-1.0), 10, 1).is_err());
    }

    #[test]
    fn scattering_loses_no_key() {
        for keys in [1, 2, 10, 1_000, 65_537] {
            let step = scattering_step(keys);
            let reached: std::collections::HashSet<_> =
                (0..u64::from(keys)).map(|rank| rank * step % u64::from(keys)).collect();
            assert_eq!(reached.len(), keys as usize);
        }
    }
}
