//! Static web server whose cache lies in the kernel: open files, mappings, and pipes that already hold the responses.
//!
//! It decides once, when a file enters the cache, which way its bytes take to the sockets; the drivers move them. It
//! never reads a mapped byte itself, and never sends a file whose state it has not checked for longer than the
//! revalidation interval.

#![forbid(unsafe_code)]

mod access;
mod args;
mod cache;
mod cached_path;
mod chain;
mod detached;
mod fallback;
mod file;
mod janitor;
mod latency;
mod metrics;
mod report;
mod resources;
mod site;
mod statistics;
mod strategy;
mod webui;

pub use access::{Access, AccessRule};
pub use args::ZerocopyArgs;
pub use cache::{Cache, CacheOptions};
pub use file::CachedFile;
pub use janitor::start_janitor;
pub use metrics::CacheMetrics;
pub use resources::Limits;
pub use site::{CachedSite, Upload};
pub use strategy::{AUTO, SizeClass, Strategy, StrategyChoice};

/// Server: the front end of `web` before a cache in the kernel.
pub type ZerocopyServer = web::WebServer<CachedSite>;
