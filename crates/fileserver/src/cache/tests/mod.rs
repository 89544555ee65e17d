//! Laws of the maps and of the caches.

mod clock;
mod laws;
mod lru;
mod maps;
mod models;
mod stress;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

/// Value of a given cost, whose clones are counted.
#[derive(Clone, Debug)]
struct Item {
    /// Number of the insertion.
    version: u64,
    bytes: usize,
    descriptors: usize,
    _live: Option<Live>,
}

impl Item {
    fn new(version: u64, bytes: usize, descriptors: usize) -> Self {
        Self { version, bytes, descriptors, _live: None }
    }

    fn counted(self, live: &Live) -> Self {
        live.0.fetch_add(1, Ordering::Relaxed);
        Self { _live: Some(Live(Arc::clone(&live.0))), ..self }
    }
}

impl Footprint for Item {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn descriptors(&self) -> usize {
        self.descriptors
    }
}

/// Counts clones that are there.
#[derive(Debug, Default)]
struct Live(Arc<AtomicUsize>);

impl Live {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clone for Live {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns an id of 8 bytes, as in the original protocol, or, one in four, one that needs memory of its own.
fn id(number: u64) -> FileId {
    let text = if number % 4 == 3 { format!("a/path/that/is/longer/{number}") } else { format!("ID{number:06}") };
    FileId::new(text.as_bytes()).expect("is an id")
}

/// Limits of `entries` and of nothing else.
fn entries(entries: usize) -> CacheLimits {
    CacheLimits { entries, bytes: 1 << 40, descriptors: 1 << 20 }
}

/// Runs a law, a function generic over the cache, on every cache that can hold something.
macro_rules! every_cache {
    ($law:ident $arguments:tt) => {
        every_cache!(@map Std, $law $arguments);
        every_cache!(@map Hashbrown, $law $arguments);
        every_cache!(@map Sparse, $law $arguments);
    };
    (@map $map:ident, $law:ident $arguments:tt) => {
        every_cache!(@cache NoEviction<$map, Item>, $law $arguments);
        every_cache!(@cache MutexLru<$map, Item>, $law $arguments);
        every_cache!(@cache LockFree<$map, Item>, $law $arguments);
    };
    (@cache $cache:ty, $law:ident ($($argument:expr),*)) => {
        $law::<$cache>(stringify!($cache) $(, $argument)*);
    };
}

use every_cache;
