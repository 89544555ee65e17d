//! Documents by id: a [`proto::Protocol`] whose every part can be exchanged, so that the parts can be compared.

#![forbid(unsafe_code)]

pub mod backend;
pub mod cache;
mod combinations;
pub mod flights;
mod library;
mod metrics;
mod readers;
pub mod requests;
mod server;
mod statistics;
pub mod sync;

pub use combinations::{Combination, Conn, FileServer, ProtocolKind};
pub use metrics::Metrics;
pub use server::{FileOptions, StartError};
pub use statistics::Statistics;
