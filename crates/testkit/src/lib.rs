//! Tools of the end-to-end tests: servers as processes, clients that behave and clients that do not, content to verify.
//!
//! Never part of the product. Every wait is bounded by [`HANG`]. Running into that bound means only that something hangs:
//! no test asserts that anything was fast.

#![forbid(unsafe_code)]

mod binary_load;
mod browser;
mod check;
mod client;
pub mod conformance;
mod content;
pub mod http;
pub mod http2;
pub mod hyper;
pub mod in_memory;
pub mod open_files;
mod process;
mod programs;
mod queries;
mod sample;
pub mod seccomp;
mod server;
mod service_manager;
pub mod strace;
pub mod subjects;
pub mod test_server;
pub mod tls;

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
pub use browser::{Browser, Screen};
pub use check::check_each;
pub use client::{Client, Digest};
pub use content::{Content, digest};
pub use drivers::{
    ConnectionModel, DefaultWorkers, Descriptor, DriverKind, FilePath, IoModel, PipePath, ReadBuffer, Wait,
};
pub use process::{Process, ResourceCounts};
pub use programs::{installed_program, workspace_program, write_program};
pub use queries::check_queries;
pub use rustix::process::Signal;
pub use sample::{sample, sample_for_contract, sample_of};
pub use server::{Finished, ROOT_WARNING, Server, Successor, expect_failure, run_to_end};
pub use service_manager::{ServiceManager, with_descriptors};

/// Bound of every wait: longer than anything takes on a busy machine.
pub const HANG: Duration = Duration::from_secs(40);

/// Returns the drivers whose descriptor satisfies `predicate`.
pub fn drivers_with(predicate: impl Fn(&Descriptor) -> bool) -> Vec<DriverKind> {
    DriverKind::ALL.iter().copied().filter(|kind| predicate(kind.descriptor())).collect()
}

/// Polls `condition` until it holds.
///
/// # Errors
/// It does not hold within [`HANG`], or it fails; the error names `what`.
pub fn eventually(what: &str, mut condition: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !condition().with_context(|| what.to_owned())? {
        if begin.elapsed() > HANG {
            bail!("not so after {HANG:?}: {what}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
