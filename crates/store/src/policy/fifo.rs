//! S3-FIFO: Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction (SOSP 2023).
//!
//! New entries wait in a small queue. An entry that is used again before it comes to the end moves on to the main queue.
//! Any other is evicted, and only its fingerprint is retained for a while in the ghost: if the entry comes back, it goes to the
//! main queue at once. An entry at the end of the main queue that has been used goes round again. So most one-hit wonders
//! only pass through a tenth of the memory.
//!
//! The low byte of an access word holds, from below: the number of uses (2 bits), a bit that is set if the entry is in the
//! main queue, and a mark (5 bits) that tells that a queue has it. The word stays in the block when the entry is removed,
//! and the handle stays in its queue: the next entry in the block takes over its turn instead of being queued a second
//! time. A handle whose turn comes while its block is empty goes to *limbo*, and is queued again once the block is in use.
//!
//! Nothing relies on the agreement of words and queues: a store that moves entries or loses words costs a wrong turn.

use super::{ghost::Ghost, queue::HandleQueue};
use crate::Store;

const USES: u32 = 0b11;
const MAIN: u32 = 0b100;
const MARK: u32 = 0b1111_1000;
const MARK_STEP: u32 = 0b1000;

/// Uses that take an entry from the small queue to the main one: the paper's value. One use would gain up to 0.5 points
/// of hit ratio when favourites change, and lose 4 to 7 on a loop a little larger than the cache (README.md).
const USES_TO_STAY: u32 = 2;
/// The small queue holds one entry in this many, and the ghost remembers as many hashes as the rest has entries: the
/// paper's values too. A twentieth would gain 0.3 to 0.5 points on Zipf and lose 0.2 when favourites change; a fifth
/// would lose 0.5 to 0.9 and gain up to 0.4.
const SMALL_SHARE: usize = 10;
/// Most handles checked for one victim.
const TURNS_MAX: usize = 128;
/// Handles in limbo checked for one victim.
const LIMBO_TURNS: usize = 2;
/// Steps of a walk through the store for one victim.
const WALK_STEPS: usize = 4;
/// Handles beyond twice the number of entries from which on the queues are built anew: most lead to empty blocks.
const SURPLUS_MAX: usize = 8192;

#[derive(Debug)]
pub(super) struct Fifo {
    small: HandleQueue,
    main: HandleQueue,
    limbo: HandleQueue,
    ghost: Ghost,
    /// Mark in the words of queued entries. It changes when the queues are emptied.
    mark: u32,
    /// The mark before, if words with it are still valid.
    former_mark: Option<u32>,
    /// Cursor of a walk through the store for entries that are not queued.
    walk: Option<u64>,
    /// Entries in the store when the walk began; 0 if there is no walk. Memory is counted as if they were queued, so that
    /// queuing them does not exceed a limit.
    expected: usize,
    /// True if the last victim came from the small queue.
    is_last_small: bool,
}

impl Fifo {
    pub(super) fn new() -> Self {
        Self {
            small: HandleQueue::default(),
            main: HandleQueue::default(),
            limbo: HandleQueue::default(),
            ghost: Ghost::default(),
            mark: MARK_STEP,
            former_mark: None,
            walk: None,
            expected: 0,
            is_last_small: false,
        }
    }

    /// Empties the queues. The `entries` of the store are queued step by step.
    pub(super) fn restart(&mut self, entries: usize) {
        let mark = self.next_mark();
        *self = Self { mark, walk: (entries > 0).then_some(0), expected: entries, ..Self::new() };
    }

    /// Drops handles that lead to no entry, by queuing all entries anew.
    fn requeue(&mut self, entries: usize) {
        (self.small, self.main, self.limbo) = (HandleQueue::default(), HandleQueue::default(), HandleQueue::default());
        (self.former_mark, self.mark) = (Some(self.mark), self.next_mark());
        (self.walk, self.expected) = (Some(0), entries);
    }

    fn next_mark(&self) -> u32 {
        match (self.mark + MARK_STEP) & MARK {
            0 => MARK_STEP,
            next => next,
        }
    }

    /// Returns the low byte of an entry that has just been used.
    #[inline]
    pub(super) fn on_use(word: u32) -> u32 {
        (word & 0xff) + u32::from(word & USES != USES)
    }

    pub(super) fn uses(word: u32) -> u8 {
        (word & USES) as u8
    }

    /// Returns the low byte for an entry that is new in its block; `before` is its word in the block it comes from.
    pub(super) fn on_insert<S: Store>(
        &mut self,
        store: &S,
        location: S::Location,
        hash: u64,
        before: Option<u32>,
    ) -> u32 {
        let stays = match before {
            Some(before) => before & MAIN != 0 && before & MARK == self.mark,
            None => self.ghost.take(hash),
        };
        let uses = before.map_or(0, |before| before & USES);
        let block = store.access(location);
        if block & MARK == self.mark {
            let uses = if stays && block & MAIN == 0 { USES_TO_STAY } else { uses };
            return block & (MARK | MAIN) | uses;
        }
        if self.handles() > store.len() * 2 + SURPLUS_MAX {
            self.requeue(store.len());
        }
        let queue = if stays { &mut self.main } else { &mut self.small };
        queue.push(store.handle(location));
        self.mark | uses | if stays { MAIN } else { 0 }
    }

    /// Queues the new handle of an entry.
    pub(super) fn on_move<S: Store>(&mut self, store: &S, handle: u32) {
        let Some(location) = store.locate(handle) else { return };
        let queue = if store.access(location) & MAIN != 0 { &mut self.main } else { &mut self.small };
        queue.push(handle);
    }

    pub(super) fn choose_victim<S: Store>(&mut self, store: &mut S) -> Option<S::Location> {
        self.walk(store);
        self.check_limbo(store);
        let mut last = None;
        for _ in 0..TURNS_MAX {
            let is_small = self.small.len() * SMALL_SHARE >= store.len() || self.main.is_empty();
            let queue = if is_small { &mut self.small } else { &mut self.main };
            let Some(handle) = queue.pop() else { break };
            let Some(location) = store.locate(handle) else {
                self.limbo.push(handle);
                continue;
            };
            let word = store.access(location);
            let uses = word & USES;
            if uses < if is_small { USES_TO_STAY } else { 1 } {
                // The block's next entry has to be queued.
                store.set_access(location, word & !(MARK | MAIN | USES));
                self.is_last_small = is_small;
                return Some(location);
            }
            let left = if is_small { 0 } else { uses - 1 };
            store.set_access(location, word & !(MARK | USES) | self.mark | MAIN | left);
            self.main.push(handle);
            last = Some(location);
        }
        // All entries are in use: any will do. Its handle stays queued for the block's next entry.
        self.is_last_small = false;
        last
    }

    /// Remembers the last victim if it came from the small queue.
    pub(super) fn on_evict(&mut self, hash: u64) {
        if self.is_last_small {
            self.ghost.fit(self.ghosts());
            self.ghost.remember(hash);
        }
    }

    /// Queues some of the entries that are older than the queues.
    fn walk<S: Store>(&mut self, store: &mut S) {
        let mut found = Vec::new();
        for _ in 0..WALK_STEPS {
            let Some(cursor) = self.walk else { return };
            let next = store.scan(cursor, &mut |view| found.extend(store.find(store.hash(view.key), view.key)));
            self.walk = (next != 0).then_some(next);
            if self.walk.is_none() {
                self.expected = 0;
            }
        }
        for location in found {
            let word = store.access(location);
            if word & MARK == self.mark {
                continue;
            }
            let retained = if self.former_mark == Some(word & MARK) { word & (MAIN | USES) } else { 0 };
            store.set_access(location, word & !(MARK | MAIN | USES) | self.mark | retained);
            let queue = if retained & MAIN != 0 { &mut self.main } else { &mut self.small };
            queue.push(store.handle(location));
        }
    }

    fn check_limbo<S: Store>(&mut self, store: &S) {
        for _ in 0..LIMBO_TURNS {
            let Some(handle) = self.limbo.pop() else { return };
            let queue = if store.locate(handle).is_some() { &mut self.small } else { &mut self.limbo };
            queue.push(handle);
        }
    }

    fn handles(&self) -> usize {
        (self.small.len() + self.main.len() + self.limbo.len()).max(self.expected)
    }

    /// Returns the number of hashes to remember: most of the time, the number of entries in the main queue.
    fn ghosts(&self) -> usize {
        let handles = self.handles();
        handles - handles / SMALL_SHARE
    }

    /// Returns the memory held. That of the ghost is included before it exists, so that no entry has to be evicted for it.
    pub(super) fn bytes(&self) -> usize {
        HandleQueue::bytes(self.handles(), 3) + self.ghost.bytes(self.ghosts())
    }

    /// Bytes by which the memory may grow for one new entry.
    pub(super) const GROWTH: usize = 5 + 2 * Ghost::BUCKET_BYTES;
}
