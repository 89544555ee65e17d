//! `cargo xtask bench-matrix` as its user meets it: a process with arguments, files and an exit status.
//!
//! Runs are as small as they can be, of what the tests have built; figures are never judged here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod directory;
mod gate;
mod interrupts;
mod prefix;
mod programs;
mod runs;
mod selection;
mod usage;
