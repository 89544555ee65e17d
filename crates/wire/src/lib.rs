//! Wire formats, both directions: pure codecs shared by servers and the load generator

#![forbid(unsafe_code)]

pub mod cgi;
mod detect;
pub mod file;
pub mod hpack;
pub mod http1;
pub mod http2;
pub mod memcached;
pub mod mserve;
pub mod resp;
mod statuses;
pub mod us;

pub use detect::{Detected, Detector, detect};
