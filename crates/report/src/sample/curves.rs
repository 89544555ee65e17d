//! Made-up curves: loads, windows, histograms.

use results::{Bucket, LoadPoint, WindowPoint};

use super::{interval, wobble};

/// A queue that grows without bound towards `capacity`; the last step is more than it can do.
pub(super) fn sweep(capacity: f64, light_us: f64) -> Vec<LoadPoint> {
    let point = |step: u32| {
        let share = f64::from(step) / 10.0;
        let wait = light_us * (1.0 + 0.4 * share / (1.03 - share));
        LoadPoint {
            share,
            offered_rps: capacity * share,
            served_rps: capacity * share.min(0.97),
            is_served: step < 10,
            p50: interval(wait, 3.0),
            p99: interval(wait * (2.0 + 3.0 * share.powi(6)), 8.0),
        }
    };
    (1..=10).map(point).collect()
}

/// Five windows of warm-up, then fifteen that count.
/// One server of one workload has failures, and an open loop's schedule is late now and then.
pub(super) fn windows(rps: f64, p99_us: f64, (row, column): (usize, usize), is_open: bool) -> Vec<WindowPoint> {
    let point = |index: i32| {
        let cold = if index < 0 { 0.6 + 0.08 * f64::from(index + 5) } else { 1.0 };
        let wobble = wobble((index + 7) as usize, row);
        WindowPoint {
            s: f64::from(index) / 10.0,
            rps: rps * cold * (1.0 + 0.02 * wobble),
            p99_us: p99_us / cold * (1.0 + 0.1 * wobble),
            errors_rps: if (row, column, index) == (2, 0, 6) { 40.0 } else { 0.0 },
            lag_us: if is_open { 30.0 + 25.0 * wobble } else { 0.0 },
        }
    };
    (-5..15).map(point).collect()
}

/// A hump, and a small one behind it.
pub(super) fn density(p50: f64) -> Vec<Bucket> {
    let hump = |decades: f64, middle: f64| (-0.5 * ((decades - middle) / 0.09).powi(2)).exp();
    let bars = (0..34).map(|i| {
        let decades = 1.0 + f64::from(i) / 10.0;
        (10_f64.powf(decades), hump(decades, p50.log10()) + 1e-5 * hump(decades, p50.log10() + 1.2))
    });
    let bars: Vec<(f64, f64)> = bars.filter(|(_, share)| *share > 1e-7).collect();
    let total: f64 = bars.iter().map(|(_, share)| share).sum();
    bars.into_iter().map(|(us, share)| Bucket { us, share: share / total }).collect()
}
