//! Static web server on every I/O driver: the front end of `web`, which answers GET and HEAD, before a directory tree.
//!
//! It opens and reads files, and never touches a socket: it only decides which bytes go where. A file is opened only by a
//! path that the kernel keeps beneath the root. A cached one is rendered as a whole response ahead of time, so that a GET
//! of it is one parse, one hash and one copy, without allocation or system call.

#![forbid(unsafe_code)]

mod args;
mod cached_path;
mod program;
mod representation;
mod site;

pub use args::HttpArgs;
pub use file_cache::CacheLimits;
pub use program::main;
pub use representation::Representation;
pub use site::{Site, SiteOptions};
pub use web::{HttpOptions, RequestMetrics, Statistics};

/// Web server for the files of one directory tree.
pub type HttpServer = web::WebServer<Site>;

/// State of a connection to it.
pub type Conn = web::Conn<Site>;
