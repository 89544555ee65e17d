//! Courses of a load in time other than one rate: a rate that changes, or the times of a recording.

use std::{f64::consts::TAU, fmt};

use serde::{Deserialize, Serialize};

use crate::clock::{Nanos, SECOND};

/// Course of a load in time.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub enum Timetable {
    /// A rate that changes as the window goes on. In the warm-up it is the one that the window begins with.
    Profile(RateProfile),
    /// The time of each request, in nanoseconds from the beginning; ascending.
    Recorded(Vec<Nanos>),
}

/// Rate that changes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct RateProfile {
    phases: Vec<Phase>,
    /// Requests before each phase, and before what comes after the last.
    before: Vec<f64>,
    /// Beginnings of the phases in seconds, and the end of the last.
    begins: Vec<f64>,
}

/// Part of a profile. Rates are in requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Phase {
    pub seconds: f64,
    pub shape: Shape,
}

/// Course of the rate in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub enum Shape {
    /// From one rate to another in a straight line; a step where both are the same.
    Linear { from: f64, to: f64 },
    /// A sine that begins in the middle and rises.
    Sine { low: f64, high: f64, period_s: f64 },
}

impl RateProfile {
    #[must_use]
    pub fn new(phases: Vec<Phase>) -> Self {
        let (mut before, mut begins) = (vec![0.0], vec![0.0]);
        for (index, phase) in phases.iter().enumerate() {
            before.push(before[index] + phase.requests_until(phase.seconds));
            begins.push(begins[index] + phase.seconds);
        }
        Self { phases, before, begins }
    }

    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Returns the length of all phases.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.begins.last().copied().unwrap_or(0.0)
    }

    /// Returns the number of requests of all phases, which need not be whole.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.before.last().copied().unwrap_or(0.0)
    }

    /// Returns the rate at the beginning.
    pub(super) fn initial_rate(&self) -> f64 {
        self.phases.first().map_or(0.0, |phase| phase.rate_at(0.0))
    }

    /// Returns the seconds after which so many requests have fallen due. The last rate goes on behind the end.
    pub(super) fn time_of(&self, requests: f64) -> f64 {
        let index = self.before.partition_point(|before| *before <= requests).saturating_sub(1);
        let (begin, left) = (self.begins[index], requests - self.before[index]);
        match self.phases.get(index) {
            Some(phase) => begin + phase.time_of(left),
            None => {
                let rate = self.phases.last().map_or(0.0, |last| last.rate_at(last.seconds));
                if rate > 0.0 { begin + left / rate } else { f64::INFINITY }
            }
        }
    }
}

/// A phase as a line of a file has it: `10s 1000`.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds;
        match self.shape {
            Shape::Linear { from, to } if from.total_cmp(&to).is_eq() => write!(f, "{seconds}s {from}"),
            Shape::Linear { from, to } => write!(f, "{seconds}s {from}..{to}"),
            Shape::Sine { low, high, period_s } => write!(f, "{seconds}s sine {low}..{high} {period_s}s"),
        }
    }
}

impl Phase {
    fn rate_at(&self, second: f64) -> f64 {
        match self.shape {
            Shape::Linear { from, to } => from + (to - from) * second / self.seconds,
            Shape::Sine { low, high, period_s } => {
                f64::midpoint(low, high) + (high - low) / 2.0 * (TAU * second / period_s).sin()
            }
        }
    }

    fn requests_until(&self, second: f64) -> f64 {
        match self.shape {
            Shape::Linear { from, to } => from * second + (to - from) * second * second / (2.0 * self.seconds),
            Shape::Sine { low, high, period_s } => {
                let swing = (high - low) / 2.0 * period_s / TAU * (1.0 - (TAU * second / period_s).cos());
                f64::midpoint(low, high) * second + swing
            }
        }
    }

    /// Inverts [`Self::requests_until`].
    fn time_of(&self, requests: f64) -> f64 {
        match self.shape {
            Shape::Linear { from, to } => {
                let root = (from * from + 2.0 * (to - from) / self.seconds * requests).max(0.0).sqrt();
                if requests > 0.0 { (2.0 * requests / (from + root)).min(self.seconds) } else { 0.0 }
            }
            Shape::Sine { .. } => self.search(requests),
        }
    }

    /// Finds the time by Newton's method, and by halving where that leads out of what is left.
    fn search(&self, requests: f64) -> f64 {
        const STEPS_MAX: usize = 60;
        /// Error in requests, which is a nanosecond at the highest rates.
        const ERROR_MAX: f64 = 1e-6;
        let (mut low, mut high) = (0.0, self.seconds);
        let mut time = f64::midpoint(low, high);
        for _ in 0..STEPS_MAX {
            let error = self.requests_until(time) - requests;
            if error.abs() < ERROR_MAX {
                break;
            }
            if error > 0.0 {
                high = time
            } else {
                low = time
            }
            let step = time - error / self.rate_at(time);
            time = if step > low && step < high { step } else { f64::midpoint(low, high) };
        }
        time
    }
}

impl Timetable {
    /// Returns when the request at this position falls due, in nanoseconds from the beginning. `warmup` is what precedes the window.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact to a nanosecond for a hundred days, and positions are not negative"
    )]
    pub(super) fn due(&self, position: f64, warmup: Nanos) -> Nanos {
        match self {
            Self::Recorded(times) => times.get(position as usize).copied().unwrap_or(Nanos::MAX),
            Self::Profile(profile) => {
                let (warmup_s, rate) = (warmup as f64 / SECOND as f64, profile.initial_rate());
                let beforehand = (rate * warmup_s).floor();
                let seconds = if position < beforehand {
                    position / rate
                } else {
                    warmup_s + profile.time_of(position - beforehand)
                };
                (seconds * SECOND as f64) as Nanos
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(seconds: f64, from: f64, to: f64) -> Phase {
        Phase { seconds, shape: Shape::Linear { from, to } }
    }

    fn sine(seconds: f64, low: f64, high: f64, period_s: f64) -> Phase {
        Phase { seconds, shape: Shape::Sine { low, high, period_s } }
    }

    /// Counts the requests that fall due in each second.
    fn per_second(profile: &RateProfile, seconds: usize) -> Vec<u32> {
        let mut counts = vec![0; seconds];
        let mut position = 0.0;
        loop {
            let time = profile.time_of(position);
            if time >= seconds as f64 {
                return counts;
            }
            counts[time as usize] += 1;
            position += 1.0;
        }
    }

    #[test]
    fn steps_ramps_and_pauses_have_their_rates() {
        let profile = RateProfile::new(vec![
            linear(2.0, 1_000.0, 1_000.0),
            linear(1.0, 0.0, 0.0),
            linear(2.0, 0.0, 2_000.0),
            linear(1.0, 5_000.0, 5_000.0),
            linear(1.0, 3_000.0, 1_000.0),
        ]);
        assert!((profile.seconds() - 7.0).abs() < 1e-9 && (profile.requests() - 11_000.0).abs() < 1e-6);
        let counts = per_second(&profile, 9);
        let expected = [1_000, 1_000, 0, 500, 1_500, 5_000, 2_000, 1_000, 1_000];
        let is_near = |(found, expected): (&u32, &u32)| found.abs_diff(*expected) <= 1;
        assert!(counts.iter().zip(&expected).all(is_near), "{counts:?}");
    }

    #[test]
    fn a_sine_swings_about_its_middle() {
        let profile = RateProfile::new(vec![sine(8.0, 1_000.0, 3_000.0, 4.0)]);
        let counts = per_second(&profile, 8);
        // The mean of a rising quarter of a sine is 2/π of its height.
        let swing = 1_000.0 * 2.0 / std::f64::consts::PI;
        let expected = [2_000.0 + swing, 2_000.0 + swing, 2_000.0 - swing, 2_000.0 - swing].repeat(2);
        let is_near = |(found, expected): (&u32, &f64)| (f64::from(*found) - expected).abs() <= 1.0;
        assert!(counts.iter().zip(&expected).all(is_near), "{counts:?}");
        // One that touches 0 is slow there, and never stands still or goes back.
        let touching = RateProfile::new(vec![sine(4.0, 0.0, 2_000.0, 4.0)]);
        let times: Vec<_> = (0..4_000).map(|position| touching.time_of(f64::from(position))).collect();
        assert!(times.is_sorted() && times[3_999] < 4.0);
    }

    #[test]
    fn an_end_at_zero_is_the_end() {
        let profile = RateProfile::new(vec![linear(1.0, 10.0, 10.0), linear(1.0, 0.0, 0.0)]);
        assert!(profile.time_of(9.0) < 1.0 && profile.time_of(10.0).is_infinite());
        assert_eq!(Timetable::Profile(profile).due(10.0, 0), Nanos::MAX);
    }

    #[test]
    fn a_warm_up_has_the_first_rate_and_comes_before_the_profile() {
        let profile = Timetable::Profile(RateProfile::new(vec![linear(1.0, 10.0, 10.0), linear(1.0, 100.0, 100.0)]));
        let due = |position| profile.due(position, 2 * SECOND) / (SECOND / 1_000);
        assert_eq!([0.0, 19.0, 20.0, 29.0, 30.0, 31.0].map(due), [0, 1_900, 2_000, 2_900, 3_000, 3_010]);
    }

    #[test]
    fn a_recording_ends_with_its_last_request() {
        let recorded = Timetable::Recorded(vec![0, 5, 9]);
        assert_eq!([0.0, 1.0, 2.0, 3.0].map(|position| recorded.due(position, 7)), [0, 5, 9, Nanos::MAX]);
    }
}
