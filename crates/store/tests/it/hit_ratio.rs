use clap::ValueEnum;
use store::PolicyKind;

use crate::traces::{Trace, hit_ratio, hit_ratio_of_exact_lru};

const KEYS: usize = 10_000;
const REQUESTS: usize = 100_000;

#[test]
fn s3_fifo_hits_no_less_than_an_exact_lru() {
    // Where the popular keys change faster than this cache turns over, a list of the latest uses does better.
    for trace in Trace::ALL.into_iter().filter(|trace| !matches!(trace, Trace::Drift(_))) {
        for percent in [1, 5, 10] {
            let entries = KEYS * percent / 100;
            let requests = trace.requests(KEYS, entries, REQUESTS, 1);
            let (ours, lru) =
                (hit_ratio(PolicyKind::AllKeysS3Fifo, entries, &requests), hit_ratio_of_exact_lru(entries, &requests));
            assert!(ours >= lru, "{} at {percent} %: {ours:.1} against {lru:.1}", trace.name());
        }
    }
}

#[test]
fn a_sampled_lru_comes_near_an_exact_lru() {
    for trace in [Trace::Zipf(0.8), Trace::Zipf(0.99), Trace::ZipfAndScans(0.99, 5)] {
        // Enough keys that their turnover takes many ticks of the policies' clock, which counts seconds.
        let entries = KEYS / 4;
        let requests = trace.requests(KEYS, entries, REQUESTS, 1);
        let (ours, lru) =
            (hit_ratio(PolicyKind::AllKeysLru, entries, &requests), hit_ratio_of_exact_lru(entries, &requests));
        assert!(ours > lru - 1.0, "{}: {ours:.1} against {lru:.1}", trace.name());
    }
}

#[test]
fn every_evicting_policy_keeps_the_popular_keys() {
    let requests = Trace::Zipf(1.1).requests(KEYS, KEYS / 20, REQUESTS, 1);
    for &policy in PolicyKind::value_variants().iter().filter(|&&policy| policy != PolicyKind::NoEviction) {
        let ratio = hit_ratio(policy, KEYS / 20, &requests);
        assert!(ratio > 60.0, "{policy}: {ratio:.1}");
    }
}
