//! A cache of strings, hashes and sets that Redis clients, memcached clients and its own text protocol can use.
//!
//! [`KvServer`] is the protocol; keys live in a [`Space`] of shards, each a [`store::Cache`]. Nothing here touches a
//! socket: drivers move the bytes.
//!
//! The layers, from the bottom to the top; none imports from one above it:
//!
//! - `command_table`, `codec`, `glob`, `value`, `reply`: the commands without their handlers, the encoding of values,
//!   patterns, replies;
//! - `state`: keys, clients, settings and figures;
//! - `commands`: the handlers of RESP's commands, and the dispatcher above them;
//! - `protocol`: RESP, the 0x1F text protocol and memcached, each from a request to its reply;
//! - `connection`, then `window` and `shard_threads`: one connection, and batches of connections;
//! - `server`: the [`proto::Protocol`] itself;
//! - `hand_over`: its keys on their way to the next process;
//! - `program`: the command line and the start of it.

#![forbid(unsafe_code)]

mod args;
mod codec;
mod command_table;
mod commands;
mod connection;
mod events;
mod glob;
mod hand_over;
mod maintenance;
mod memory_size;
mod metrics;
mod program;
mod protocol;
mod reply;
mod server;
mod shard_threads;
mod state;
mod store_kind;
#[cfg(test)]
mod testing;
mod value;
mod window;

pub use self::{
    args::{KvArgs, YesNo, eviction_dimension},
    codec::{Codec, Compression, DecodeError, compression_dimension},
    command_table::REDIS_VERSION,
    connection::{Conn, FrontEnd},
    events::Events,
    metrics::Metrics,
    program::main,
    server::{Clock, KvOptions, KvServer, ScriptOptions, exact_time},
    state::{NodeAddress, ServerInfo, SlotMap, SlotMapError, SnapshotError, Space, SpaceOptions, StopServer},
    store_kind::{Sharing, StoreKind, WithStore, store_dimension},
};
