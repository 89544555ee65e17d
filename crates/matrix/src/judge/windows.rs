//! A visit in windows of 100 ms, its warm-up included: what came of each, and over all visits.

use std::collections::BTreeMap;

use loadgen::result::{RunResult, TimelineRow};
use results::{
    WindowPoint,
    record::{Measured, Visit, Window},
};

use crate::judge::stats::median;

/// Seconds of a window: what the generator counts by.
const WINDOW_S: f64 = 0.1;

/// Warm-up and slice in the generator's intervals; what came in behind it, and an interval that it ended in, is not the
/// slice.
pub(crate) fn of_run(run: &RunResult) -> Vec<Window> {
    let Some(timeline) = &run.timeline else { return Vec::new() };
    let whole = timeline.rows.iter().filter(|row| row.start_s + timeline.interval_s <= run.duration_s + 1e-6);
    let window = |row: &TimelineRow| Window {
        s: row.start_s,
        rps: row.ok as f64 / timeline.interval_s,
        errors: row.errors,
        p99_us: row.p99_us,
        lag_us: row.lag_us_max,
    };
    timeline.warmup.iter().chain(whole).map(window).collect()
}

/// The rates of the slice, which alone is judged.
pub(crate) fn rates(windows: &[Window]) -> Vec<f64> {
    windows.iter().filter(|window| window.s >= 0.0).map(|window| window.rps).collect()
}

/// The windows that every visit has.
pub(crate) fn of_visits(visits: &[(&Visit, &Measured)]) -> Vec<WindowPoint> {
    // Windows are tenths of seconds: the same one has the same time in every visit, but for rounding.
    let place = |window: &Window| (window.s * 1e3).round() as i64;
    let mut at: BTreeMap<i64, Vec<&Window>> = BTreeMap::new();
    for window in visits.iter().flat_map(|(_, measured)| &measured.windows) {
        at.entry(place(window)).or_default().push(window);
    }
    let point = |windows: Vec<&Window>| {
        let over = |pick: fn(&Window) -> f64| windows.iter().map(|window| pick(window)).collect::<Vec<f64>>();
        let failed = windows.iter().map(|window| window.errors as f64).sum::<f64>();
        WindowPoint {
            s: windows[0].s,
            rps: median(&over(|window| window.rps)),
            p99_us: median(&over(|window| window.p99_us)),
            errors_rps: failed / windows.len() as f64 / WINDOW_S,
            lag_us: median(&over(|window| window.lag_us)),
        }
    };
    at.into_values().filter(|windows| windows.len() == visits.len()).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn window(s: f64, rps: f64) -> Window {
        Window { s, rps, errors: 0, p99_us: 10.0, lag_us: 0.0 }
    }

    fn points(visits: Vec<Vec<Window>>) -> Vec<WindowPoint> {
        let measured: Vec<Measured> =
            visits.into_iter().map(|windows| Measured { windows, ..samples::measured(4.0) }).collect();
        let line = samples::visit();
        of_visits(&measured.iter().map(|measured| (&line, measured)).collect::<Vec<_>>())
    }

    #[test]
    fn windows_meet_by_their_time_and_the_warm_up_is_one_of_them() {
        // The third visit's first reply came a window later.
        let points = points(vec![
            vec![window(-0.2, 10.0), window(-0.1, 20.0), window(0.0, 30.0)],
            vec![window(-0.2, 10.0), window(-0.1, 22.0), window(0.0, 32.0)],
            vec![window(-0.1, 90.0), window(0.0, 31.0), window(0.1, 5.0)],
        ]);
        let told: Vec<(f64, f64)> = points.iter().map(|point| (point.s, point.rps)).collect();
        assert_eq!(told, [(-0.1, 22.0), (0.0, 31.0)], "those that every visit has");
    }

    #[test]
    fn one_visit_with_failures_is_not_hidden_by_the_others() {
        let bad = Window { errors: 6, ..window(0.0, 1.0) };
        let points = points(vec![vec![window(0.0, 30.0)], vec![bad], vec![window(0.0, 31.0)]]);
        assert_eq!((points[0].rps, points[0].errors_rps), (30.0, 20.0));
    }

    #[test]
    fn the_warm_up_is_not_judged() {
        assert_eq!(rates(&[window(-0.1, 1.0), window(0.0, 2.0), window(0.1, 3.0)]), [2.0, 3.0]);
    }
}
