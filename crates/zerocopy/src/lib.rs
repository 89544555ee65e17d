//! A static web server whose cache lies in the kernel: open files, mappings, and pipes that already hold the responses.
//!
//! It decides once, when a file enters the cache, which way its bytes take to the sockets; the drivers move them. It
//! never reads a mapped byte itself, and never sends a file whose state it has not looked at for longer than the
//! revalidation interval.

#![forbid(unsafe_code)]

mod access;
mod args;
mod cache;
mod janitor;
mod chain;
mod file;
mod index;
mod latency;
mod metrics;
mod report;
mod resources;
mod site;
mod statistics;
mod strategy;
mod webui;
mod detached;

pub use access::Access;
pub use args::ZerocopyArgs;
pub use cache::{Cache, CacheOptions};
pub use janitor::look_after;
pub use file::CachedFile;
pub use metrics::Usage;
pub use resources::Limits;
pub use site::{CachedSite, Upload};
pub use strategy::{AUTO, SizeClass, Strategy, StrategyChoice};

/// The server: the front end that all our web servers share, before a cache in the kernel.
pub type ZerocopyServer = web::WebServer<CachedSite>;
