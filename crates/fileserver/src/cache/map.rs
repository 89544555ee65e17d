//! MapFamily that caches are built on.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{BuildHasher, Hash, Hasher},
};

use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};
use wire::file::FileId;

use super::sparse::SparseMap;

/// Entry that knows its id, so that a map of shared entries needs no second copy of it.
pub trait HasId: Clone + Send + Sync + 'static {
    fn id(&self) -> &FileId;
}

impl<T: Clone + Send + Sync + 'static> HasId for (FileId, T) {
    #[inline]
    fn id(&self) -> &FileId {
        &self.0
    }
}

/// Map of entries by their ids. `Clone`, since a lock-free cache changes a copy.
pub trait CacheMap<E: HasId>: Clone + Default + Send + Sync + 'static {
    fn get(&self, id: &FileId) -> Option<&E>;
    /// Adds an entry. Returns the one that was there for the same id.
    fn insert(&mut self, entry: E) -> Option<E>;
    fn remove(&mut self, id: &FileId) -> Option<E>;
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Family of maps: one type of map for each type of entry.
pub trait MapFamily: Send + Sync + 'static {
    type Map<E: HasId>: CacheMap<E>;
}

/// See [`super::CacheMapKind::Std`].
#[derive(Clone, Copy, Debug)]
pub struct Std;

/// See [`super::CacheMapKind::Hashbrown`].
#[derive(Clone, Copy, Debug)]
pub struct Hashbrown;

/// See [`super::CacheMapKind::Sparse`].
#[derive(Clone, Copy, Debug)]
pub struct Sparse;

impl MapFamily for Std {
    type Map<E: HasId> = StdMap<E>;
}

impl MapFamily for Hashbrown {
    type Map<E: HasId> = HashbrownMap<E>;
}

impl MapFamily for Sparse {
    type Map<E: HasId> = SparseMap<E>;
}

/// Entry that is equal to its id, and hashed like it.
#[derive(Clone, Debug)]
struct ById<E>(E);

impl<E: HasId> Borrow<FileId> for ById<E> {
    fn borrow(&self) -> &FileId {
        self.0.id()
    }
}

impl<E: HasId> PartialEq for ById<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.id() == other.0.id()
    }
}

impl<E: HasId> Eq for ById<E> {}

impl<E: HasId> Hash for ById<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id().hash(state);
    }
}

/// Table of the standard library, with its default hash function.
#[derive(Clone, Debug)]
pub struct StdMap<E>(HashSet<ById<E>>);

impl<E> Default for StdMap<E> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<E: HasId> CacheMap<E> for StdMap<E> {
    #[inline]
    fn get(&self, id: &FileId) -> Option<&E> {
        self.0.get(id).map(|entry| &entry.0)
    }

    fn insert(&mut self, entry: E) -> Option<E> {
        self.0.replace(ById(entry)).map(|entry| entry.0)
    }

    fn remove(&mut self, id: &FileId) -> Option<E> {
        self.0.take(id).map(|entry| entry.0)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Table of hashbrown.
#[derive(Clone, Debug)]
pub struct HashbrownMap<E> {
    table: HashTable<E>,
    hasher: RandomState,
}

impl<E> Default for HashbrownMap<E> {
    fn default() -> Self {
        Self { table: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<E: HasId> CacheMap<E> for HashbrownMap<E> {
    #[inline]
    fn get(&self, id: &FileId) -> Option<&E> {
        self.table.find(self.hasher.hash_one(id), |entry| entry.id() == id)
    }

    fn insert(&mut self, entry: E) -> Option<E> {
        let hasher = &self.hasher;
        let hash = |entry: &E| hasher.hash_one(entry.id());
        match self.table.entry(hash(&entry), |other| other.id() == entry.id(), hash) {
            Entry::Occupied(mut place) => Some(std::mem::replace(place.get_mut(), entry)),
            Entry::Vacant(place) => {
                place.insert(entry);
                None
            }
        }
    }

    fn remove(&mut self, id: &FileId) -> Option<E> {
        let found = self.table.find_entry(self.hasher.hash_one(id), |entry| entry.id() == id).ok()?;
        Some(found.remove().0)
    }

    fn len(&self) -> usize {
        self.table.len()
    }
}
