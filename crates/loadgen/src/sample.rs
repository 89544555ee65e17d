//! Sample of the replies that are checked in full: all of them, or one of so many, chosen by chance.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Number that makes the choice differ from what schedules, keys and request logs draw with the same seed: those that
/// were sent in a hurry, say, must not be those that are checked.
const STREAM: u64 = 0x7361_6d70_6c65_3d31;

/// One reply of so many. Spelled `1/1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Sample(u32);

impl Sample {
    /// Every reply.
    pub const ALL: Self = Self(1);
    /// Rarest choice: one reply of so many.
    pub const ONE_OF_MAX: u32 = 1_000_000_000;

    /// Makes a sample of one reply of `count`, which is from 1 to [`Self::ONE_OF_MAX`].
    #[must_use]
    pub fn one_of(count: u32) -> Option<Self> {
        (1..=Self::ONE_OF_MAX).contains(&count).then_some(Self(count))
    }
}

/// Error of a text or number that is no [`Sample`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 1/N with N from 1 to {}", Sample::ONE_OF_MAX)]
pub struct SampleError;

impl TryFrom<u32> for Sample {
    type Error = SampleError;

    fn try_from(count: u32) -> Result<Self, SampleError> {
        Self::one_of(count).ok_or(SampleError)
    }
}

impl From<Sample> for u32 {
    fn from(Sample(count): Sample) -> Self {
        count
    }
}

impl FromStr for Sample {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Self, SampleError> {
        let digits = text.strip_prefix("1/").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).and_then(Self::one_of).ok_or(SampleError)
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

/// Chooser of one thread. It decides on each reply by itself, so that of requests in a fixed order each is chosen at
/// some time.
#[derive(Clone, Debug)]
pub struct Sampler {
    one_of: u32,
    rng: fastrand::Rng,
}

impl Sampler {
    /// Makes the chooser of a thread. The thread's number and `seed` decide which replies are chosen.
    #[must_use]
    pub fn new(Sample(one_of): Sample, seed: u64, thread: usize) -> Self {
        Self { one_of, rng: fastrand::Rng::with_seed(seed.wrapping_add(thread as u64) ^ STREAM) }
    }

    /// Makes a chooser of every reply.
    #[must_use]
    pub fn all() -> Self {
        Self::new(Sample::ALL, 0, 0)
    }

    /// Returns true if the next reply is chosen.
    #[inline]
    pub fn draw(&mut self) -> bool {
        self.one_of == 1 || self.is_next()
    }

    // Out of the way of those who choose every reply.
    #[cold]
    fn is_next(&mut self) -> bool {
        self.rng.u32(..self.one_of) == 0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn one_of(count: u32) -> Sample {
        Sample::one_of(count).expect("from 1 to a thousand million")
    }

    /// Returns its next choices.
    pub(crate) fn draws(mut sampler: Sampler, count: usize) -> Vec<bool> {
        (0..count).map(|_| sampler.draw()).collect()
    }

    /// Returns a chooser of one of two replies, with a seed that chooses exactly these of the first ones.
    pub(crate) fn choosing(chosen: &[bool]) -> Sampler {
        let mut candidates = (0..10_000).map(|seed| Sampler::new(one_of(2), seed, 0));
        candidates.find(|it| draws(it.clone(), chosen.len()) == chosen).expect("a few choices of two")
    }

    proptest! {
        #[test]
        fn one_of_so_many_is_chosen(seed: u64, thread in 0_usize..64, count in 1_u32..300) {
            let (draws_per_choice, expected) = (count as usize, 300.0_f64);
            let found = draws(Sampler::new(one_of(count), seed, thread), 300 * draws_per_choice);
            let found = found.into_iter().filter(|is_chosen| *is_chosen).count() as f64;
            // The standard error is at most the root of what is expected; chance alone is not seven of them away.
            let allowed = if count == 1 { 0.0 } else { 7.0 * expected.sqrt() };
            prop_assert!((found - expected).abs() <= allowed, "{} of 300", found);
        }

        #[test]
        fn seed_and_thread_decide(seed: u64, thread in 0_usize..64) {
            let choice = |seed, thread| draws(Sampler::new(one_of(3), seed, thread), 200);
            prop_assert_eq!(choice(seed, thread), choice(seed, thread));
            prop_assert_ne!(choice(seed, thread), choice(seed.wrapping_add(1_000), thread));
            prop_assert_ne!(choice(seed, thread), choice(seed, thread + 1));
        }

        #[test]
        fn a_sample_survives_display_and_parsing(count in 1..=Sample::ONE_OF_MAX) {
            prop_assert_eq!(one_of(count).to_string().parse(), Ok(one_of(count)));
        }
    }

    #[test]
    fn an_invalid_sample_is_refused() {
        for text in
            ["", "1", "1/", "1/0", "2/3", "1/1000000001", "1/99999999999", "1/+5", "1/-5", "1/1.5", "1/x", " 1/2"]
        {
            assert_eq!(text.parse::<Sample>(), Err(SampleError), "{text:?}");
        }
        assert_eq!("1/1".parse(), Ok(Sample::ALL));
        assert!(serde_json::from_str::<Sample>("0").is_err() && serde_json::from_str::<Sample>("7").is_ok());
    }

    #[test]
    fn the_choice_differs_from_others_with_the_same_seed() {
        let mut schedule = fastrand::Rng::with_seed(5);
        let of_schedule: Vec<_> = (0..200).map(|_| schedule.u32(..3) == 0).collect();
        assert_ne!(draws(Sampler::new(one_of(3), 5, 0), 200), of_schedule);
    }
}
