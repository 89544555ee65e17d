//! A static web server on every I/O driver: a [`proto::Protocol`] that answers GET and HEAD from a directory tree.
//!
//! It opens and reads files, and never touches a socket: which bytes go where is all that is decided here. A file is
//! opened only by a path that the kernel keeps beneath the root; a cached one is rendered as a whole response ahead of
//! time, so that answering for it is one parse, one hash and one copy, without allocation or system call.

#![forbid(unsafe_code)]

mod args;
mod cache;
mod metrics;
mod page;
mod path;
mod representation;
mod server;
mod site;
mod statistics;

pub use args::HttpArgs;
pub use cache::CacheLimits;
pub use metrics::Requests;
pub use server::{Conn, HttpOptions, HttpServer};
pub use site::{Site, SiteOptions};
pub use statistics::Statistics;
