//! Server of documents by id: a [`proto::Protocol`] whose every part can be exchanged, so that the parts can be compared.

#![forbid(unsafe_code)]

mod args;
pub mod backend;
pub mod cache;
mod cached_backend;
mod combinations;
pub mod inflight;
mod metrics;
mod readers;
pub mod requests;
mod sample;
mod server;
mod statistics;
pub mod sync;

pub use args::FileArgs;
pub use combinations::{Combination, Conn, FileServer, ProtocolKind};
pub use metrics::Metrics;
pub use sample::Sample;
pub use server::{FileOptions, StartError};
pub use statistics::Statistics;
