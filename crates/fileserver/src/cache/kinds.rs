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
    /// groups of 64 places, a bitmap each, entries packed: the least memory
    #[value(alias = "sparsehash")]
    Sparse,
}

/// Eviction from a full cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EvictionKind {
    /// never evicts: what does not fit is not kept
    None,
    /// evicts the least recently used entry, in exact order, under one lock; with no cache map the order alone
    Mutex,
    /// evicts entries not used lately (second chance); no lock anywhere
    #[default]
    #[value(name = "lockfree")]
    LockFree,
}
