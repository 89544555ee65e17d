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
mod owners;
mod reply;
mod server;
mod space;
mod statistics;
mod table;
mod window;

pub use args::KvArgs;
pub use codec::Codec;
pub use connection::Conn;
pub use server::{KvOptions, KvServer};
pub use space::{Space, SpaceOptions};
pub use table::{Sharing, StoreKind, UnknownStore, WithStore, dimension as store_dimension};

/// The version of Redis whose commands and error texts these are.
pub const REDIS_VERSION: &str = "7.0.15";
