//! Latency histograms: read back from the generator's encoding, merged, and cut into points for a curve.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{Histogram, serialization::Deserializer};
use results::{BUCKETS_PER_DECADE, Bucket, LatencyFigures, QUANTILE_POINTS_MAX, QuantilePoint, record::Latency};

use crate::judge::stats::Bootstrap;

/// Points per decade of 1/(1 − q), and decades: 101 points, to the 99.999th percentile.
const POINTS_PER_DECADE: u32 = 20;
const DECADES: u32 = 5;
const _: () = assert!(((POINTS_PER_DECADE * DECADES) as usize) < QUANTILE_POINTS_MAX);

/// Reads a histogram in nanoseconds: HdrHistogram V2 or V2 + DEFLATE, base64.
pub(crate) fn decode(encoded: &str) -> Result<Histogram<u64>> {
    let bytes = STANDARD.decode(encoded.trim()).context("histogram: not base64")?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).context("histogram: not HdrHistogram V2")
}

/// One figure per quantile over several visits. Histograms that cannot be read leave the curve without them.
pub(crate) fn figures(visits: &[&Latency], bootstrap: &Bootstrap) -> Option<LatencyFigures> {
    let quantile =
        |pick: fn(&Latency) -> f64| bootstrap.interval(&visits.iter().map(|visit| pick(visit)).collect::<Vec<f64>>());
    let histograms: Vec<_> = visits.iter().filter_map(|visit| decode(&visit.histogram).ok()).collect();
    let merged = merged(&histograms);
    Some(LatencyFigures {
        mean: quantile(|visit| visit.mean)?,
        p50: quantile(|visit| visit.p50)?,
        p90: quantile(|visit| visit.p90)?,
        p99: quantile(|visit| visit.p99)?,
        p999: quantile(|visit| visit.p999)?,
        max: visits.iter().map(|visit| visit.max).fold(0.0, f64::max),
        points: merged.as_ref().map_or_else(Vec::new, |merged| points(merged, &histograms)),
        density: merged.as_ref().map_or_else(Vec::new, density),
    })
}

/// The histogram of all visits; `None` without one that can be read.
fn merged(histograms: &[Histogram<u64>]) -> Option<Histogram<u64>> {
    let (first, rest) = histograms.split_first()?;
    let mut merged = first.clone();
    merged.auto(true);
    // Cannot fail: the merged histogram resizes itself.
    rest.iter().try_for_each(|histogram| merged.add(histogram)).ok()?;
    Some(merged)
}

/// Bars of equal width on a log axis. A bar holds what was recorded from its bound on: a recorded value is somewhere in
/// a bucket of the histogram, which is much narrower.
fn density(merged: &Histogram<u64>) -> Vec<Bucket> {
    let total = merged.len() as f64;
    let mut bars: BTreeMap<i32, u64> = BTreeMap::new();
    for value in merged.iter_recorded() {
        let us = (value.value_iterated_to() as f64 / 1_000.0).max(1e-3);
        *bars.entry((us.log10() * BUCKETS_PER_DECADE).floor() as i32).or_default() += value.count_at_value();
    }
    let bound = |index: i32| round(10_f64.powf(f64::from(index) / BUCKETS_PER_DECADE));
    bars.into_iter().map(|(index, count)| Bucket { us: bound(index), share: count as f64 / total }).collect()
}

/// The curve: the merged quantile and the least and greatest visit, as far as the samples carry.
fn points(merged: &Histogram<u64>, histograms: &[Histogram<u64>]) -> Vec<QuantilePoint> {
    // A visit of n samples knows nothing of quantiles beyond 1 − 1/n.
    let carried = histograms.iter().map(Histogram::len).max().unwrap_or(0) as f64;
    (0..=POINTS_PER_DECADE * DECADES)
        .map(|step| 10_f64.powf(f64::from(step) / f64::from(POINTS_PER_DECADE)))
        .take_while(|&x| x <= carried)
        .map(|x| {
            let quantile = 1.0 - 1.0 / x;
            let us = |histogram: &Histogram<u64>| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
            let of_visits = histograms.iter().filter(|histogram| histogram.len() as f64 >= x).map(us);
            let (min, max) = of_visits.fold((f64::MAX, 0.0_f64), |(min, max), value| (min.min(value), max.max(value)));
            QuantilePoint { x: round(x), us: round(us(merged)), min_us: round(min), max_us: round(max) }
        })
        .collect()
}

/// Four significant digits: more would only make the files larger.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
    use results::bucket_end;

    use super::*;

    fn latency(values_us: impl IntoIterator<Item = u64>) -> Latency {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for value in values_us {
            histogram.record(value * 1_000).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        Latency {
            mean: histogram.mean() / 1_000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            histogram: STANDARD.encode(bytes),
        }
    }

    #[test]
    fn the_curve_follows_a_known_distribution_within_its_band() {
        let (slow, fast) = (latency(1_000..2_000), latency(500..1_500));
        let figures = figures(&[&slow, &fast], &Bootstrap::new(1)).unwrap();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.01;
        let half = figures.points.iter().find(|point| (point.x - 2.0).abs() < 0.01).unwrap();
        assert!(near(half.us, 1_250.0) && near(half.min_us, 1_000.0) && near(half.max_us, 1_500.0), "{half:?}");
        assert!(near(figures.p50.median, 1_250.0), "{:?}", figures.p50);
        assert!(near(figures.max, 2_000.0));
    }

    #[test]
    fn the_curve_ends_with_the_samples_and_has_few_points() {
        let few = figures(&[&latency(1..=100)], &Bootstrap::new(1)).unwrap();
        assert!((few.points.last().unwrap().x - 100.0).abs() < 0.5);
        let many = figures(&[&latency((1..=300_000).map(|value| value % 977 + 1))], &Bootstrap::new(1)).unwrap();
        assert_eq!(many.points.len(), 101);
        assert!(many.points.len() <= QUANTILE_POINTS_MAX);
        assert!(many.points.windows(2).all(|pair| pair[0].x < pair[1].x && pair[0].us <= pair[1].us));
    }

    #[test]
    fn every_request_is_in_one_bar_of_equal_log_width() {
        let figures = figures(&[&latency(10..1_000), &latency(1_000..9_900)], &Bootstrap::new(1)).unwrap();
        let bars = &figures.density;
        assert!((bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9, "{bars:?}");
        assert_eq!(bars.len(), 30, "three decades: {bars:?}");
        for pair in bars.windows(2) {
            let growth = pair[1].us / pair[0].us;
            assert!((growth / bucket_end(1.0) - 1.0).abs() < 2e-3, "{pair:?}");
        }
        // All of the second visit's values, and none of the first's.
        let tail: f64 = bars.iter().filter(|bar| bar.us >= 999.0).map(|bar| bar.share).sum();
        assert!((tail - 8_900.0 / 9_890.0).abs() < 0.001, "{tail}");
    }

    #[test]
    fn an_unreadable_histogram_leaves_figures_without_a_curve() {
        let broken = Latency { histogram: "not a histogram".into(), ..latency(1..=10) };
        let figures = figures(&[&broken], &Bootstrap::new(1)).unwrap();
        assert!(figures.points.is_empty() && figures.density.is_empty());
        assert_eq!(figures.p50.median, broken.p50);
    }
}
