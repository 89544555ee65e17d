#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod entry;
mod limits;
mod revalidation;
mod root;

pub use cache::{Lookup, PathCache};
pub use entry::{Body, PathEntry};
pub use limits::CacheLimits;
pub use revalidation::{FileState, LastCheck, Revalidation, unix_ns};
pub use root::CheckedRoot;
