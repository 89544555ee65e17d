//! A cache of strings that Redis clients, memcached clients and its own text protocol can use.
//!
//! [`KvServer`] is the protocol; keys live in a [`Space`] of shards, each a [`store::Cache`]. Nothing here touches a
//! socket: drivers move the bytes.

#![forbid(unsafe_code)]

mod args;
mod clients;
mod codec;
mod commands;
mod config;
mod connection;
mod journal;
mod maintenance;
mod memcached;
mod memory_size;
mod metrics;
mod owners;
mod pause;
mod reply;
mod server;
mod snapshot;
mod space;
mod statistics;
mod table;
#[cfg(test)]
mod testing;
mod timer;
mod us;
mod window;

pub use args::{KvArgs, Whether, eviction_dimension};
pub use codec::{Codec, Compression, Damage, UnknownCompression, dimension as compression_dimension};
pub use config::{Facts, StopServer};
pub use connection::{Conn, FrontEnd};
pub use metrics::Metrics;
pub use server::{KvOptions, KvServer};
pub use snapshot::SnapshotError;
pub use space::{Space, SpaceOptions};
pub use table::{Sharing, StoreKind, UnknownStore, WithStore, dimension as store_dimension};

/// The version of Redis whose commands and error texts these are.
pub const REDIS_VERSION: &str = "7.0.15";
