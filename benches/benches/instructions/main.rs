//! Instructions of the hot functions, counted under valgrind: the only figures of this workspace that other load on the
//! machine does not disturb.
//!
//! `cargo xtask verify instructions` runs it and fails if a function needs more than its limit. A limit is the count with
//! rustc 1.95 for x86-64, plus three per cent (eight for evictions, whose counts vary). A commit that makes a function
//! cheaper lowers its limit.

#![allow(
    unused_qualifications,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "what the macros of gungraun make, and a word to the user"
)]

mod codecs;
mod generator;
mod http2;
mod servers;
mod stores;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};

/// Returns the limit of a whole benchmark, which repeats its function [`TURNS`] times.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, instructions)]));
    config
}

/// Number of repetitions, so that the code around a function hardly counts.
const TURNS: usize = 100;

mod counted {
    use super::{
        codecs::decode, generator::check_replies, http2::multiplex, servers::serve_requests, stores::store_and_evict,
    };

    gungraun::main!(library_benchmark_groups = decode, store_and_evict, serve_requests, check_replies, multiplex);

    pub(super) fn run() {
        main();
    }
}

/// `cargo bench -- --test` runs every benchmark once, which is of no use without valgrind.
fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("instructions: counted by `cargo xtask verify instructions`");
    } else {
        counted::run();
    }
}
