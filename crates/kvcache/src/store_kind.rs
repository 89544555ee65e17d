//! The stores to choose from.

use clap::ValueEnum;
use service::Dimension;
use store::{HashbrownStore, PackedStore, StdStore, Store};

/// Action that runs with a store, whichever it is.
pub trait WithStore {
    type Output;

    fn with<S: Store + 'static>(self, sharing: Sharing) -> Self::Output;
}

/// Way in which threads share the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Any thread runs commands on a shard, under its lock.
    Locked,
    /// One thread owns the shard.
    Owned,
}

/// Store of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// buckets of one cache line, entries in an arena of size classes; the fastest and the smallest
    Packed,
    /// hashbrown's table in front of a slab of entries
    Hashbrown,
    /// the standard library's map in front of a slab of entries
    Std,
    /// shared nothing: packed, with one thread for each shard, which commands are sent to
    Partitioned,
}

impl StoreKind {
    /// Turns the choice into a type.
    pub fn with<F: WithStore>(self, action: F) -> F::Output {
        match self {
            Self::Packed => action.with::<PackedStore>(Sharing::Locked),
            Self::Hashbrown => action.with::<HashbrownStore>(Sharing::Locked),
            Self::Std => action.with::<StdStore>(Sharing::Locked),
            Self::Partitioned => action.with::<PackedStore>(Sharing::Owned),
        }
    }
}

/// Returns what `--list-backends` says of stores.
pub fn store_dimension() -> Dimension {
    Dimension::of("store", "--store", &StoreKind::Packed)
}
