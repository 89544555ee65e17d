//! Cache that evicts in the exact order of use, under one lock.

use parking_lot::Mutex;
use slab::Slab;
use smallvec::SmallVec;
use wire::file::FileId;

use super::{Cache, CacheLimits, CacheMap, MapFamily, Shortage, Usage, Value};

/// Index of no node.
const NIL: u32 = u32::MAX;

/// Cache that evicts the least recently used entry; when descriptors have run out, the least recently used one that holds
/// one.
pub struct MutexLru<M: MapFamily, V: Value> {
    contents: Mutex<Contents<M, V>>,
    limits: CacheLimits,
}

/// Removed entries, kept until the lock is released: closing a file or freeing megabytes is nothing to wait for.
type Removed<V> = SmallVec<[Node<V>; 2]>;

struct Contents<M: MapFamily, V: Value> {
    indices: M::Map<(FileId, u32)>,
    nodes: Slab<Node<V>>,
    /// Entries in memory, and those that hold descriptors, each in the order of use.
    orders: [Order; 2],
    /// Number of uses so far, which tells which of two entries in different orders was used last.
    uses: u64,
    used: Usage,
    evicted: u64,
}

struct Node<V> {
    id: FileId,
    value: V,
    used_at: u64,
    newer: u32,
    older: u32,
}

impl<V: Value> Node<V> {
    /// Index of the order that it is in.
    fn order(&self) -> usize {
        usize::from(self.value.descriptors() > 0)
    }
}

/// Ends of a list that runs through the nodes.
#[derive(Clone, Copy)]
struct Order {
    newest: u32,
    oldest: u32,
}

impl<M: MapFamily, V: Value> Contents<M, V> {
    fn new() -> Self {
        Self {
            indices: M::Map::default(),
            nodes: Slab::new(),
            orders: [Order { newest: NIL, oldest: NIL }; 2],
            uses: 0,
            used: Usage::default(),
            evicted: 0,
        }
    }

    #[inline]
    fn index(&self, id: &FileId) -> Option<u32> {
        self.indices.get(id).map(|(_, index)| *index)
    }

    fn get(&mut self, id: &FileId) -> Option<V> {
        let index = self.index(id)?;
        self.unlink(index);
        self.link_newest(index);
        Some(self.nodes[index as usize].value.clone())
    }

    fn insert(&mut self, id: &FileId, value: V, limits: &CacheLimits, removed: &mut Removed<V>) -> bool {
        if let Some(index) = self.index(id) {
            removed.push(self.remove(index));
        }
        let more = Usage::of_entry(id, &value);
        if !Usage::default().admits(&more, limits) {
            return false;
        }
        while let Some(shortage) = Shortage::of(&self.used, &more, limits) {
            let victim = self.victim(shortage);
            removed.push(self.remove(victim));
            self.evicted += 1;
        }
        self.used.add(&more);
        let node = Node { id: id.clone(), value, used_at: 0, newer: NIL, older: NIL };
        let index = self.nodes.insert(node) as u32;
        self.indices.insert((id.clone(), index));
        self.link_newest(index);
        true
    }

    /// Returns the entry to evict. There is one: the scarce resource is in use, since the newcomer would fit into an empty
    /// cache.
    fn victim(&self, shortage: Shortage) -> u32 {
        let [in_memory, open] = self.orders.map(|order| order.oldest);
        let used_at = |index: u32| self.nodes.get(index as usize).map_or(u64::MAX, |node| node.used_at);
        match shortage {
            Shortage::Descriptors => open,
            Shortage::Memory if used_at(in_memory) < used_at(open) => in_memory,
            Shortage::Memory => open,
        }
    }

    fn remove(&mut self, index: u32) -> Node<V> {
        self.unlink(index);
        let node = self.nodes.remove(index as usize);
        self.indices.remove(&node.id);
        self.used.subtract(&Usage::of_entry(&node.id, &node.value));
        node
    }

    fn link_newest(&mut self, index: u32) {
        self.uses += 1;
        let node = &mut self.nodes[index as usize];
        let order = &mut self.orders[node.order()];
        let older = std::mem::replace(&mut order.newest, index);
        (node.used_at, node.newer, node.older) = (self.uses, NIL, older);
        match older {
            NIL => order.oldest = index,
            _ => self.nodes[older as usize].newer = index,
        }
    }

    fn unlink(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        let (newer, older, order) = (node.newer, node.older, &mut self.orders[node.order()]);
        match newer {
            NIL => order.newest = older,
            _ => self.nodes[newer as usize].older = older,
        }
        match older {
            NIL => order.oldest = newer,
            _ => self.nodes[older as usize].newer = newer,
        }
    }
}

impl<M: MapFamily, V: Value> Cache<V> for MutexLru<M, V> {
    fn new(limits: CacheLimits) -> Self {
        // Indices have 32 bits, of which one value means none.
        let limits = CacheLimits { entries: limits.entries.min(NIL as usize), ..limits };
        Self { contents: Mutex::new(Contents::new()), limits }
    }

    #[inline]
    fn get(&self, id: &FileId) -> Option<V> {
        self.contents.lock().get(id)
    }

    fn insert(&self, id: &FileId, value: V) -> bool {
        let mut removed = Removed::new();
        // The lock is released at the end of this line, before `removed` is dropped.
        self.contents.lock().insert(id, value, &self.limits, &mut removed)
    }

    fn remove_if(&self, id: &FileId, is_stale: impl Fn(&V) -> bool) -> bool {
        let mut contents = self.contents.lock();
        let Some(index) = contents.index(id) else { return false };
        if !is_stale(&contents.nodes[index as usize].value) {
            return false;
        }
        let removed = contents.remove(index);
        drop(contents);
        drop(removed);
        true
    }

    fn used(&self) -> Usage {
        self.contents.lock().used
    }

    fn evicted(&self) -> u64 {
        self.contents.lock().evicted
    }
}
