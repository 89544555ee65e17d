//! Instructions of the hot functions, counted under valgrind: the one figure of this workspace that no neighbour disturbs.
//!
//! `cargo xtask verify instructions` runs it and fails when a function needs more than its limit. A limit is what was counted
//! with rustc 1.95 for x86-64, and three per cent (eight for evictions, whose counts vary). Whoever makes a function cheaper lowers its limit in the same commit.

#![allow(unused_qualifications, clippy::disallowed_methods, reason = "what the macros of gungraun make")]

mod codecs;
mod generator;
mod servers;
mod stores;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, main};

use codecs::decode;
use generator::check_replies;
use servers::serve_requests;
use stores::store_and_evict;

/// Of the whole benchmark, which repeats its function [`TURNS`] times.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, instructions)]));
    config
}

/// Repetitions, so that what surrounds a function does not count.
const TURNS: usize = 100;

main!(library_benchmark_groups = decode, store_and_evict, serve_requests, check_replies);
