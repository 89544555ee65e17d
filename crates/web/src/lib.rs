//! The HTTP/1.1 front end that `http-server` and `zerocopy` share: one reading of RFC 9110 and RFC 9112.
//!
//! [`Front`] is the [`proto::Protocol`]: it reads requests, judges preconditions and ranges, and writes heads. It opens
//! no file and knows no cache: a [`Site`] finds the file that a path means and queues its bytes in whatever way it likes
//! best. Which site that is, is known at compile time.

#![forbid(unsafe_code)]

mod server;
mod heads;
mod media;
mod metrics;
mod options;
mod page;
pub mod path;
mod ranges;
mod responder;
mod site;
mod statistics;
mod tree;
mod upload;

pub use server::{Conn, Front};
pub use heads::Heads;
pub use media::{MapError, MediaTypes, Problem};
pub use metrics::Requests;
pub use options::HttpOptions;
pub use site::{Absence, Answer, Own, Site};
pub use statistics::{Source, Statistics};
pub use tree::{TreeArgs, curl, nanoseconds, open};
