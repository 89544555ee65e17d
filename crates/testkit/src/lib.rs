//! What end-to-end tests share: servers as processes, clients that behave and clients that do not, content to verify.
//!
//! Never part of the product. Every wait in here is bounded by [`HANG`], which only says that something hangs: no test
//! asks how long anything took.

#![forbid(unsafe_code)]

mod browser;
mod check;
mod client;
mod content;
mod holdings;
pub mod http;
pub mod in_memory;
mod process;
mod programs;
mod server;
pub mod strace;

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
pub use holdings::ResourceCounts;
pub use process::Process;
pub use programs::{installed_program, workspace_program};
pub use server::{Finished, Server, expect_failure, run_to_end};

/// Longer than anything takes on a busy machine.
pub const HANG: Duration = Duration::from_secs(40);

/// Drivers of which a fact is true.
pub fn drivers_with(fact: impl Fn(&Descriptor) -> bool) -> Vec<DriverKind> {
    DriverKind::ALL.iter().copied().filter(|kind| fact(kind.descriptor())).collect()
}

/// Asks again and again until `condition` holds.
///
/// # Errors
/// `what`, when it does not within [`HANG`], or the condition's own error.
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
