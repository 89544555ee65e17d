//! Choices of a cache.

use clap::ValueEnum;

/// Map that a cache keeps its entries in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CacheMapKind {
    /// no cache: every request loads its document
    None,
    /// the standard library's hash table and hash function
    #[value(alias = "umap")]
    Std,
    /// hashbrown's table with a faster hash function
    #[default]
    #[value(alias = "khash")]
    Hashbrown,
    /// groups of 64 slots with a bitmap and packed entries: the least memory
    #[value(alias = "sparsehash")]
    Sparse,
}

/// Eviction from a full cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EvictionKind {
    /// no eviction: a document that does not fit is not cached
    None,
    /// least recently used, in exact order, under one lock; without a cache map it only records the order of use
    Mutex,
    /// second chance (CLOCK), without locks
    #[default]
    #[value(name = "lockfree")]
    LockFree,
}
