//! Cache without locks: shards that are replaced as a whole, and a queue of entries in the order of eviction.
//!
//! - A **shard** is a small map of shared nodes behind one atomic pointer. Readers take the pointer. A change copies the
//!   shard, changes the copy, and is tried again if another thread was faster.
//! - **Second chance**: nodes wait in a queue in the order of insertion. One that has been used since it was last at
//!   the head goes to the end, one that has not is evicted. A hit writes nothing but that bit, and only when it is
//!   unset. The queue holds weak references: a replaced entry keeps no memory but its node's own.
//! - **Bounds**: an insertion first reserves the cost of its entry, then evicts until the sum of all reservations is
//!   within the limits, and only then makes the entry visible. So visible entries never exceed a limit, and the counts
//!   do so by no more than one reservation for each inserting thread.
//!
//! The code is generic over its [`Primitives`]; its models run on loom's.

use std::{
    hash::BuildHasher,
    sync::{Arc, Weak},
};

use foldhash::fast::RandomState;
use wire::file::FileId;

use super::{Cache, CacheLimits, CacheMap, HasId, MapFamily, Shortage, Usage, Value};
use crate::sync::{Cell, Count, Flag, Primitives, Queue, Real};

/// Entries of a full shard, on average, which an insertion copies.
const SHARD_ENTRIES: usize = 8;
const SHARDS_MAX: usize = 1 << 16;
/// Least bytes of an entry that the number of shards is computed from.
const ENTRY_BYTES_EXPECTED_MIN: usize = 1024;
/// Number of references in a queue to nodes that are gone, beyond one for each entry.
const STALE_MAX: usize = 64;

/// Cache without a lock, which evicts what has not been used lately.
pub struct LockFree<M: MapFamily, V: Value, P: Primitives = Real> {
    shards: Box<[ShardCell<M, V, P>]>,
    hasher: RandomState,
    limits: CacheLimits,
    reserved: Reserved<P>,
    /// Nodes in memory, and those that hold descriptors.
    queues: [P::Queue<Weak<Node<V, P>>>; 2],
    /// Counter that decides which queue gives up a node.
    turn: P::Count,
    evicted: P::Count,
}

type Shard<M, V, P> = <M as MapFamily>::Map<Arc<Node<V, P>>>;
type ShardCell<M, V, P> = <P as Primitives>::Cell<Shard<M, V, P>>;

/// Entry of the cache.
pub struct Node<V, P: Primitives> {
    id: FileId,
    value: V,
    /// True if it was used since it was last at the head of its queue.
    is_used: P::Flag,
}

impl<V: Value, P: Primitives> Node<V, P> {
    fn weight(&self) -> Usage {
        Usage::of_entry(&self.id, &self.value)
    }

    /// Index of the queue that it waits in.
    fn queue(&self) -> usize {
        usize::from(self.value.descriptors() > 0)
    }
}

impl<V: Value, P: Primitives> HasId for Arc<Node<V, P>> {
    #[inline]
    fn id(&self) -> &FileId {
        &self.id
    }
}

/// Cost of visible entries and of those on their way.
struct Reserved<P: Primitives> {
    entries: P::Count,
    bytes: P::Count,
    descriptors: P::Count,
}

impl<P: Primitives> Reserved<P> {
    fn new() -> Self {
        Self { entries: P::Count::default(), bytes: P::Count::default(), descriptors: P::Count::default() }
    }

    fn get(&self) -> Usage {
        Usage { entries: self.entries.get(), bytes: self.bytes.get(), descriptors: self.descriptors.get() }
    }

    fn add(&self, more: &Usage) {
        self.entries.add(more.entries);
        self.bytes.add(more.bytes);
        // Most entries have none, and the count shares a cache line with others.
        if more.descriptors > 0 {
            self.descriptors.add(more.descriptors);
        }
    }

    fn subtract(&self, less: &Usage) {
        self.entries.subtract(less.entries);
        self.bytes.subtract(less.bytes);
        if less.descriptors > 0 {
            self.descriptors.subtract(less.descriptors);
        }
    }

    /// Returns the resource that is too scarce for the reservation `own`.
    fn shortage(&self, own: &Usage, limits: &CacheLimits) -> Option<Shortage> {
        let all = self.get();
        let others = Usage {
            entries: all.entries - own.entries,
            bytes: all.bytes - own.bytes,
            descriptors: all.descriptors - own.descriptors,
        };
        Shortage::of(&others, own, limits)
    }
}

impl<M: MapFamily, V: Value, P: Primitives> LockFree<M, V, P> {
    #[inline]
    fn shard(&self, id: &FileId) -> &ShardCell<M, V, P> {
        // The maps hash with other seeds: entries that share a shard do not share anything in it.
        &self.shards[self.hasher.hash_one(id) as usize & (self.shards.len() - 1)]
    }

    /// Makes `node` visible. Returns what was there for its id.
    fn publish(&self, node: &Arc<Node<V, P>>) -> Option<Arc<Node<V, P>>> {
        let shard = self.shard(&node.id);
        loop {
            let current = shard.load();
            let mut next = Shard::<M, V, P>::clone(&current);
            let before = next.insert(Arc::clone(node));
            if shard.replace(&current, Arc::new(next)) {
                return before;
            }
        }
    }

    /// Makes the node of `id` invisible if it is `unwanted`. The caller that gets it has to [release](Self::release) it.
    fn unlink(&self, id: &FileId, unwanted: impl Fn(&Arc<Node<V, P>>) -> bool) -> Option<Arc<Node<V, P>>> {
        let shard = self.shard(id);
        loop {
            let current = shard.load();
            if !current.get(id).is_some_and(&unwanted) {
                return None;
            }
            let mut next = Shard::<M, V, P>::clone(&current);
            let node = next.remove(id);
            if shard.replace(&current, Arc::new(next)) {
                return node;
            }
        }
    }

    /// Drops an invisible node, and then gives back its reservation.
    fn release(&self, node: Arc<Node<V, P>>) {
        let weight = node.weight();
        drop(node);
        self.reserved.subtract(&weight);
    }

    /// Evicts an entry. Returns false if there was none: then all that is reserved belongs to inserting threads.
    fn evict(&self, shortage: Shortage) -> bool {
        // Readers may set bits as fast as this clears them; each entry is spared once and no more.
        let mut chances = self.reserved.entries.get();
        while let Some(queued) = self.next_in_queue(shortage) {
            let Some(node) = queued.upgrade() else { continue };
            if chances > 0 && node.is_used.clear() {
                chances -= 1;
                self.queues[node.queue()].push(queued);
                continue;
            }
            if let Some(unlinked) = self.unlink(&node.id, |there| Arc::ptr_eq(there, &node)) {
                drop(node);
                self.release(unlinked);
                self.evicted.add(1);
                return true;
            }
        }
        false
    }

    fn next_in_queue(&self, shortage: Shortage) -> Option<Weak<Node<V, P>>> {
        let [in_memory, open] = &self.queues;
        if shortage == Shortage::Descriptors {
            return open.pop();
        }
        // In turn, each as often as it is long, as one hand on one ring would do.
        let lengths = in_memory.approximate_len() + open.approximate_len();
        let is_turn_of_open = lengths > 0 && self.turn.add(1) % lengths < open.approximate_len();
        let [first, second] = if is_turn_of_open { [open, in_memory] } else { [in_memory, open] };
        first.pop().or_else(|| second.pop())
    }

    /// Queues `node`, and drops up to two references to nodes that are gone if there are too many.
    fn enqueue(&self, node: &Arc<Node<V, P>>) {
        let queue = &self.queues[node.queue()];
        queue.push(Arc::downgrade(node));
        let len_max = self.reserved.entries.get().saturating_mul(2).saturating_add(STALE_MAX);
        if queue.approximate_len() > len_max {
            // A node that is not gone goes to the end: a ring that is turned is the same ring.
            for _ in 0..2 {
                queue
                    .pop()
                    .filter(|queued| queued.strong_count() > 0)
                    .into_iter()
                    .for_each(|queued| queue.push(queued));
            }
        }
    }
}

impl<M: MapFamily, V: Value, P: Primitives> Cache<V> for LockFree<M, V, P> {
    fn new(limits: CacheLimits) -> Self {
        let entries = limits.entries.min(limits.bytes / ENTRY_BYTES_EXPECTED_MIN);
        let shards = (entries / SHARD_ENTRIES).clamp(1, SHARDS_MAX).next_power_of_two();
        let empty = Arc::new(Shard::<M, V, P>::default());
        Self {
            shards: (0..shards).map(|_| P::Cell::new(Arc::clone(&empty))).collect(),
            hasher: RandomState::default(),
            limits,
            reserved: Reserved::new(),
            queues: Default::default(),
            turn: P::Count::default(),
            evicted: P::Count::default(),
        }
    }

    #[inline]
    fn get(&self, id: &FileId) -> Option<V> {
        self.shard(id).with(|shard| {
            let node = shard.get(id)?;
            if !node.is_used.is_set() {
                node.is_used.set();
            }
            Some(node.value.clone())
        })
    }

    fn insert(&self, id: &FileId, value: V) -> bool {
        // Before the reservation: what is replaced must not cost another entry its place.
        if let Some(before) = self.unlink(id, |_| true) {
            self.release(before);
        }
        let node = Arc::new(Node { id: id.clone(), value, is_used: P::Flag::default() });
        let own = node.weight();
        if !Usage::default().admits(&own, &self.limits) {
            return false;
        }
        self.reserved.add(&own);
        while let Some(shortage) = self.reserved.shortage(&own, &self.limits) {
            if !self.evict(shortage) {
                // Only entries on their way are left, and waiting for them would be a lock.
                self.release(node);
                return false;
            }
        }
        // Visible first: a node in the queue that is not visible is taken to be gone.
        let before = self.publish(&node);
        self.enqueue(&node);
        if let Some(before) = before {
            self.release(before);
        }
        true
    }

    fn remove_if(&self, id: &FileId, is_stale: impl Fn(&V) -> bool) -> bool {
        let removed = self.unlink(id, |node| is_stale(&node.value));
        let is_removed = removed.is_some();
        removed.into_iter().for_each(|node| self.release(node));
        is_removed
    }

    fn used(&self) -> Usage {
        self.reserved.get()
    }

    fn evicted(&self) -> u64 {
        self.evicted.get() as u64
    }
}

#[cfg(test)]
impl<M: MapFamily, V: Value, P: Primitives> LockFree<M, V, P> {
    /// Number of visible entries, in a cache of one shard at one moment.
    pub(super) fn visible(&self) -> usize {
        let [shard] = &*self.shards else { panic!("there are several shards") };
        shard.with(CacheMap::len)
    }

    /// Number of references in the queues, those to nodes that are gone included.
    pub(super) fn queued(&self) -> usize {
        self.queues.iter().map(Queue::approximate_len).sum()
    }
}
