//! The load sweep: an open loop at rising shares of what the same server did in a closed loop just before. It shows
//! where a server ends. Its costs are not compared: every server gets loads of its own.

use loadgen::result::RunResult;
use results::{
    LoadPoint,
    record::{Measured, Step, Visit},
};

use crate::judge::stats::{Bootstrap, median};

/// The shares, as the generator takes them.
pub(crate) const SHARES: &str = "10%..100%";
/// Runs of a visit: the steps, and the closed loop before them.
const RUNS: f64 = 11.0;
/// Each of them is that part of a slice, with that part of the warm-up, and at least as long as a window: eleven whole
/// slices would take as long as all other workloads together.
const PART: f64 = 1.0 / 3.0;
const PART_S_MIN: f64 = 0.1;

/// Returns the time that a step has instead of a slice, or of a warm-up.
pub(crate) fn part_s(whole_s: f64) -> f64 {
    (whole_s * PART).max(PART_S_MIN).min(whole_s)
}

/// About how long a visit's load takes.
pub(crate) fn load_s(slice_s: f64, warmup_s: f64) -> f64 {
    RUNS * (part_s(slice_s) + part_s(warmup_s))
}

/// The steps of a run; empty where it had one load.
pub(crate) fn steps(run: &RunResult) -> Vec<Step> {
    let step = |step: &loadgen::result::Step| {
        let result = &step.result;
        Some(Step {
            share: step.share?,
            offered_rps: step.rate,
            served_rps: result.throughput_rps,
            is_served: step.is_served,
            p50_us: result.latency_us.p50,
            p99_us: result.latency_us.p99,
        })
    };
    run.steps.iter().filter_map(step).collect()
}

/// The figures of a load sweep are its steps and its capacity; what the steps cost together says nothing.
pub(crate) fn measured(run: &RunResult, all: Measured) -> Measured {
    let throughput_rps = run.capacity.map_or(all.throughput_rps, |capacity| capacity.throughput_rps);
    Measured { throughput_rps, server: None, windows: Vec::new(), steps: steps(run), ..all }
}

/// Medians over visits, share by share: those that at least half of the visits got to. Loads are shares of the median capacity,
/// so that they rise with the share whichever visits got to it.
pub(crate) fn points(visits: &[(&Visit, &Measured)], bootstrap: &Bootstrap) -> Vec<LoadPoint> {
    let mut shares: Vec<f64> = visits.iter().flat_map(|(_, measured)| &measured.steps).map(|step| step.share).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let capacity = median(&visits.iter().map(|(_, measured)| measured.throughput_rps).collect::<Vec<f64>>());
    shares.into_iter().filter_map(|share| point(share, capacity, visits, bootstrap)).collect()
}

fn point(share: f64, capacity: f64, visits: &[(&Visit, &Measured)], bootstrap: &Bootstrap) -> Option<LoadPoint> {
    let steps = visits.iter().flat_map(|(_, measured)| &measured.steps);
    let steps: Vec<&Step> = steps.filter(|step| step.share == share).collect();
    if steps.len() * 2 < visits.len() {
        return None;
    }
    let over = |pick: fn(&Step) -> f64| bootstrap.interval(&steps.iter().map(|step| pick(step)).collect::<Vec<f64>>());
    Some(LoadPoint {
        share,
        offered_rps: share * capacity,
        served_rps: share * capacity * over(|step| step.served_rps / step.offered_rps)?.median,
        is_served: steps.iter().filter(|step| step.is_served).count() * 2 >= steps.len(),
        p50: over(|step| step.p50_us)?,
        p99: over(|step| step.p99_us)?,
    })
}

#[cfg(test)]
mod tests {
    use loadgen::{
        engine::Pacing,
        error::ErrorClass,
        result::{Capacity, ProtocolKind},
        summary::{ReplyKinds, RunDescription, unreachable},
    };

    use super::*;
    use crate::samples;

    /// Whoever got further in this table had less capacity.
    fn visit(steps: &[(f64, f64)]) -> Measured {
        let capacity = 1e6 / steps.len() as f64;
        let step = |&(share, p99_us): &(f64, f64)| Step {
            share,
            offered_rps: share * capacity,
            served_rps: share * capacity,
            is_served: p99_us < 1_000.0,
            p50_us: p99_us / 4.0,
            p99_us,
        };
        let steps = steps.iter().map(step).collect();
        Measured { steps, throughput_rps: capacity, ..samples::measured(4.0) }
    }

    /// As the generator tells it: two steps of a capacity of 8,000 requests/s, and both together.
    fn run() -> RunResult {
        let subject = RunDescription {
            kind: ProtocolKind::Mq,
            target: "/queue file".to_owned(),
            config: [].into(),
            pacing: Pacing::Closed,
            replies: ReplyKinds::One,
        };
        let mut run = unreachable(subject, ErrorClass::Timeout);
        run.throughput_rps = 3_000.0;
        let (throughput_rps, service_us) = (8_000.0, run.latency_us);
        run.capacity = Some(Capacity { throughput_rps, duration_s: 0.5, service_us });
        let step = |share: f64, served: f64| {
            let result = RunResult { throughput_rps: served, steps: Vec::new(), ..run.clone() };
            let (rate, is_served) = (share * throughput_rps, served >= 2_000.0);
            loadgen::result::Step { rate, share: Some(share), is_served, note: String::new(), result }
        };
        run.steps = vec![step(0.25, 2_000.0), step(0.5, 1_500.0)];
        run
    }

    #[test]
    fn shares_are_of_the_capacity_and_not_of_what_the_steps_came_to() {
        let run = run();
        let measured = measured(&run, samples::measured(4.0));
        assert_eq!((measured.throughput_rps, measured.server, measured.windows.len()), (8_000.0, None, 0));
        for (step, (share, served_rps)) in measured.steps.iter().zip([(0.25, 2_000.0), (0.5, 1_500.0)]) {
            assert_eq!((step.share, step.offered_rps, step.served_rps), (share, share * 8_000.0, served_rps));
        }
        let line = samples::visit();
        let points = points(&[(&line, &measured)], &Bootstrap::new(1));
        let told: Vec<_> = points.iter().map(|it| (it.offered_rps, it.served_rps, it.is_served)).collect();
        assert_eq!(told, [(2_000.0, 2_000.0, true), (4_000.0, 1_500.0, false)]);
    }

    #[test]
    fn every_share_is_the_median_of_the_visits_that_got_to_it() {
        let visits = [
            visit(&[(0.1, 100.0), (0.2, 200.0), (0.3, 5_000.0)]),
            visit(&[(0.1, 110.0), (0.2, 220.0), (0.3, 400.0)]),
            visit(&[(0.1, 150.0), (0.2, 9_000.0)]),
        ];
        let line = samples::visit();
        let visits: Vec<(&Visit, &Measured)> = visits.iter().map(|measured| (&line, measured)).collect();
        let points = points(&visits, &Bootstrap::new(1));
        let told: Vec<(f64, f64, bool)> = points.iter().map(|it| (it.share, it.p99.median, it.is_served)).collect();
        assert_eq!(told, [(0.1, 110.0, true), (0.2, 220.0, true), (0.3, 2_700.0, true)], "{points:?}");
        assert!(points.iter().all(|it| it.p50.lo <= it.p50.median && it.p50.median <= it.p50.hi));
        assert!(super::points(&visits[2..], &Bootstrap::new(1)).iter().any(|it| !it.is_served));
        assert!(points.windows(2).all(|pair| pair[0].served_rps < pair[1].served_rps), "{points:?}");
        // One visit in three got there: not a figure of this server.
        let alone = [visits[0], visits[2], visits[2]];
        assert_eq!(super::points(&alone, &Bootstrap::new(1)).len(), 2);
    }
}
