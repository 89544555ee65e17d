//! What can be chosen of a cache.

service::choices! {
    /// Where a cache keeps its entries.
    pub enum CacheMapKind: "cache-map", "--cache-map", default Hashbrown {
        /// no cache: every request loads its document
        None = "none",
        /// the standard library's hash table and hash function
        Std = "std" | "umap",
        /// hashbrown's table with a faster hash function
        Hashbrown = "hashbrown" | "khash",
        /// groups of 64 places, a bitmap each, entries packed: the least memory
        Sparse = "sparse" | "sparsehash",
    }
}

service::choices! {
    /// What happens when a cache is full.
    pub enum EvictionKind: "eviction", "--eviction", default LockFree {
        /// never evicts: what does not fit is not kept
        None = "none",
        /// the least recently used entry gives way, in exact order, under one lock; with no cache map the order alone
        Mutex = "mutex",
        /// entries not used lately give way (second chance); no lock anywhere
        LockFree = "lockfree",
    }
}
