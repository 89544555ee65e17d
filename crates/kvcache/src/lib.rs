//! A cache of strings that Redis clients, memcached clients and its own text protocol can use.
//!
//! [`KvServer`] is the protocol; keys live in a [`Space`] of shards, each a [`store::Cache`]. Nothing here touches a
//! socket: drivers move the bytes.

#![forbid(unsafe_code)]

mod args;
mod codec;
mod command_table;
mod commands;
mod connection;
mod maintenance;
mod memory_size;
mod metrics;
mod protocol;
mod reply;
mod server;
mod shard_threads;
mod state;
mod store_kind;
#[cfg(test)]
mod testing;
mod window;

pub use args::{KvArgs, Whether, eviction_dimension};
pub use codec::{Codec, Compression, Damage, UnknownCompression, dimension as compression_dimension};
pub use connection::{Conn, FrontEnd};
pub use metrics::Metrics;
pub use server::{KvOptions, KvServer};
pub use state::{
    settings::{Facts, StopServer},
    snapshot::SnapshotError,
    space::{Space, SpaceOptions},
};
pub use store_kind::{Sharing, StoreKind, UnknownStore, WithStore, dimension as store_dimension};

/// The version of Redis whose commands and error texts these are.
pub const REDIS_VERSION: &str = "7.0.15";
