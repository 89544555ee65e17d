//! A static web server on every I/O driver: the front end of `web`, which answers GET and HEAD, before a directory tree.
//!
//! It opens and reads files, and never touches a socket: which bytes go where is all that is decided here. A file is
//! opened only by a path that the kernel keeps beneath the root; a cached one is rendered as a whole response ahead of
//! time, so that answering for it is one parse, one hash and one copy, without allocation or system call.

#![forbid(unsafe_code)]

mod args;
mod cache;
mod representation;
mod site;

use std::convert::Infallible;

pub use args::HttpArgs;
pub use cache::CacheLimits;
pub use representation::Representation;
pub use site::{Site, SiteOptions};
pub use web::{HttpOptions, RequestMetrics, Statistics};

/// A web server for the files of one directory tree.
pub type HttpServer = web::WebServer<Site>;

/// What it remembers of a connection.
pub type Conn = web::Conn<Infallible>;
