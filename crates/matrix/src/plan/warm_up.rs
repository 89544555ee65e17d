//! Warm-up of a visit: until the load is steady, between a least time and a longest one.

use anyhow::Result;
use loadgen::engine::WarmUp;
use results::{Setup, Workload, record::Measured};

use crate::{plan::subjects::Subject, usage};

/// The longest warm-up, unless it is given, in least ones.
const LEAST_ONES: f64 = 4.0;
/// Mean time that ten closed loops took beyond the shortest that may end by itself, for the estimate of a run's time.
const BEYOND_S: f64 = 0.3;

fn shortest_s() -> f64 {
    WarmUp::SHORTEST.as_secs_f64()
}

/// The longest; `None` is a fixed time. A quick run has no time for more than that.
pub(crate) fn longest_s(given: Option<f64>, least_s: f64, is_quick: bool) -> Option<f64> {
    let default = || (!is_quick).then_some(LEAST_ONES * least_s).filter(|most_s| *most_s >= shortest_s());
    given.or_else(default).filter(|most_s| *most_s > least_s)
}

/// # Errors
/// No warm-up of the generator is like that.
pub(crate) fn check(given: Option<f64>, least_s: f64) -> Result<()> {
    match given {
        Some(most_s) if most_s < least_s => Err(usage(format!(
            "--max-warmup {most_s}s is less than the warm-up of {least_s} s; equal ones are a fixed time"
        ))),
        Some(most_s) if most_s > least_s && most_s < shortest_s() => {
            let shortest_s = shortest_s();
            Err(usage(format!(
                "--max-warmup {most_s}s: whether the load is steady is known after {shortest_s} s at the earliest"
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the longest warm-up of a server's visits: a generator that cannot see the server warms it up by a run of its own,
/// for a fixed time.
pub(crate) fn of_subject(longest_s: Option<f64>, subject: &Subject, is_remote: bool) -> Option<f64> {
    longest_s.filter(|_| subject.warms_up_until_steady() && !is_remote)
}

/// In a sentence, where it is not a fixed time in the whole run.
pub(crate) fn note(least_s: f64, longest_s: Option<f64>, subject: &Subject, is_remote: bool) -> Option<String> {
    let most_s = longest_s?;
    Some(match of_subject(longest_s, subject, is_remote) {
        Some(_) => format!(
            "A visit warms up until no trend above 3 % leads through five windows of 100 ms, for {least_s} to {most_s} s; \
             a load sweep's steps for a fixed time."
        ),
        None => {
            format!("A visit warms up for {least_s} s, steady or not: this load has no warm-up that ends by itself.")
        }
    })
}

/// About how long a visit warms up, for the estimate of a run's time.
pub(crate) fn usual_s(setup: &Setup, workload: &Workload) -> f64 {
    match setup.max_warmup_s {
        Some(most_s) if !workload.is_load_sweep() => (setup.warmup_s.max(shortest_s()) + BEYOND_S).min(most_s),
        _ => setup.warmup_s,
    }
}

/// The longest that a visit warms up.
pub(crate) fn most_s(setup: &Setup, workload: &Workload) -> f64 {
    setup.max_warmup_s.filter(|_| !workload.is_load_sweep()).unwrap_or(setup.warmup_s)
}

/// Counts those that were not steady when their warm-up was over; `None` where that was a fixed time for all.
pub(crate) fn unsettled<'a>(visits: impl Iterator<Item = &'a Measured>) -> Option<u32> {
    let outcomes = visits.filter_map(|measured| measured.warmup_steady);
    outcomes.fold(None, |count, is_steady| Some(count.unwrap_or(0) + u32::from(!is_steady)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plan::order, samples};

    #[test]
    fn a_full_run_waits_four_times_as_long_a_quick_one_never() {
        assert_eq!(longest_s(None, 0.5, false), Some(2.0));
        assert_eq!(longest_s(None, 0.5, true), None);
        assert_eq!(longest_s(None, 0.1, false), None, "0.4 s do not hold five windows");
        assert_eq!(longest_s(Some(1.0), 0.3, true), Some(1.0), "unless it is told to");
        assert_eq!(longest_s(Some(0.5), 0.5, false), None, "equal ones are a fixed time");
    }

    #[test]
    fn a_warm_up_the_generator_refuses_is_refused_before_building() {
        assert!(check(None, 0.5).is_ok() && check(Some(0.3), 0.3).is_ok() && check(Some(0.5), 0.3).is_ok());
        assert!(check(Some(0.2), 0.3).unwrap_err().to_string().contains("less than the warm-up"));
        assert!(check(Some(0.4), 0.3).unwrap_err().to_string().contains("0.5 s at the earliest"));
    }

    #[test]
    fn an_older_run_has_a_fixed_warm_up_and_the_same_plan() {
        let written = serde_json::to_value(samples::setup()).unwrap();
        assert!(written.get("max_warmup_s").is_none());
        let read: Setup = serde_json::from_value(written).unwrap();
        assert_eq!((read.max_warmup_s, read.warm_up_in_words()), (None, "0.5\u{a0}s".to_owned()));
        let until_steady = Setup { max_warmup_s: Some(2.0), ..samples::setup() };
        assert_eq!(order::shuffled(&read), order::shuffled(&until_steady));
    }

    #[test]
    fn the_estimate_lies_between_the_least_and_longest_warm_up() {
        let setup = samples::setup();
        let mut workload = setup.workloads[0].clone();
        let with = |most_s| Setup { max_warmup_s: most_s, ..samples::setup() };
        let usual = |most_s, workload: &Workload| usual_s(&with(most_s), workload);
        assert_eq!((usual(None, &workload), usual(Some(2.0), &workload), usual(Some(0.6), &workload)), (0.5, 0.8, 0.6));
        workload.arrivals = results::Arrivals::LoadSweep;
        assert_eq!(usual(Some(2.0), &workload), 0.5);
    }
}
