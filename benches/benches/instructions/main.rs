//! Instructions of the hot functions, counted under valgrind: the one figure of this workspace that no neighbour disturbs.
//!
//! `cargo xtask verify instructions` runs it and fails when a function needs more than its limit. A limit is what was counted
//! with rustc 1.95 for x86-64, and three per cent (eight for evictions, whose counts vary). Whoever makes a function cheaper lowers its limit in the same commit.

#![allow(
    unused_qualifications,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "what the macros of gungraun make, and a word to the user"
)]

mod codecs;
mod generator;
mod servers;
mod stores;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};

/// Of the whole benchmark, which repeats its function [`TURNS`] times.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, instructions)]));
    config
}

/// Repetitions, so that what surrounds a function does not count.
const TURNS: usize = 100;

mod counted {
    use super::{codecs::decode, generator::check_replies, servers::serve_requests, stores::store_and_evict};

    gungraun::main!(library_benchmark_groups = decode, store_and_evict, serve_requests, check_replies);

    pub(super) fn run() {
        main();
    }
}

/// `cargo bench -- --test` wants to see every benchmark run once, which proves nothing without valgrind.
fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("instructions: counted by `cargo xtask verify instructions`");
    } else {
        counted::run();
    }
}
