//! The cost of recording a latency, and of reading the percentiles: with the generator's own histogram, and with
//! coarser ones.

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use loadgen::engine::LATENCY_NANOS_MAX;

/// Latencies of a turn, spread like those of a server: most near the median, a few far from it.
const TURN: usize = 4096;

fn latencies() -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..TURN).map(|_| 20_000 + (random.f64().powi(8) * 2_000_000.0) as u64).collect()
}

fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, digits).expect("valid bounds")
}

fn record(criterion: &mut Criterion) {
    let latencies = latencies();
    let mut group = criterion.benchmark_group("histogram/record");
    group.throughput(Throughput::Elements(TURN as u64));
    for digits in [2, 3] {
        let mut histogram = empty(digits);
        group.bench_function(format!("{digits} digits"), |bencher| {
            bencher.iter(|| {
                for &latency in &latencies {
                    histogram.saturating_record(black_box(latency));
                }
            });
        });
    }
    let mut histogram = empty(3);
    group.bench_function("3 digits, 16 replies of one read", |bencher| {
        bencher.iter(|| {
            for &latency in latencies.iter().step_by(16) {
                histogram.saturating_record_n(black_box(latency), 16);
            }
        });
    });
}

fn read(criterion: &mut Criterion) {
    let mut histogram = empty(3);
    latencies().iter().for_each(|&latency| histogram.saturating_record(latency));
    let other = histogram.clone();
    let mut group = criterion.benchmark_group("histogram");
    group.bench_function("five percentiles", |bencher| {
        bencher.iter(|| [0.5, 0.9, 0.99, 0.999, 0.9999].map(|share| black_box(&histogram).value_at_quantile(share)));
    });
    group.bench_function("merging two threads'", |bencher| {
        bencher.iter(|| histogram.add(black_box(&other)).expect("the same bounds"));
    });
}

criterion_group!(benches, record, read);
criterion_main!(benches);
