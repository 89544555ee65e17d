//! Prints the hit ratio of each policy as a table in Markdown.
//!
//! `cargo run --release -p store --example hit_ratio [--] [KEYS [REQUESTS]]`

#![allow(clippy::print_stdout, unreachable_pub, reason = "it prints; its modules are shared with the tests")]

#[path = "../tests/it/entries.rs"]
mod entries;
#[path = "../tests/it/traces.rs"]
mod traces;

use store::PolicyKind;
use traces::{Trace, hit_ratio, hit_ratio_of_exact_lru};

const POLICIES: [PolicyKind; 4] =
    [PolicyKind::AllKeysS3Fifo, PolicyKind::AllKeysLru, PolicyKind::AllKeysLfu, PolicyKind::AllKeysRandom];

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().expect("a number"));
    let keys: usize = numbers.next().unwrap_or(100_000);
    let requests = numbers.next().unwrap_or(2_000_000);
    let names = POLICIES.map(|policy| policy.to_string()[8..].to_owned()).join(" | ");
    println!("| requests | cache | exact LRU | {names} |\n|---|---|{}", "---|".repeat(POLICIES.len() + 1));
    for trace in Trace::ALL {
        for percent in [1, 5, 10] {
            let entries = keys * percent / 100;
            let requests = trace.requests(keys, entries, requests, 1);
            let exact = hit_ratio_of_exact_lru(entries, &requests);
            let others = POLICIES.map(|policy| format!("{:.1}", hit_ratio(policy, entries, &requests))).join(" | ");
            println!("| {} | {percent} % | {exact:.1} | {others} |", trace.name());
        }
    }
}
