//! Memory for large strings: whole pages of the kernel, which has them back when the string is gone.
//!
//! Chunks of 2 MiB are divided into extents of equally many pages. An extent that is free keeps its addresses, but not its
//! memory, and so nothing stays resident because a neighbour is in use, as in a heap. A few that were freed last keep it, for
//! the next strings of their sizes.

use std::{
    collections::VecDeque,
    mem,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use slab::Slab;

use super::memory::{HUGE, Piece, Release};

const KERNEL_PAGE: usize = 4096;
/// Lengths of strings that get an extent.
const LENGTHS: RangeInclusive<usize> = 3 * KERNEL_PAGE + 1..=PAGES_MAX * KERNEL_PAGE;
const PAGES_MAX: usize = 64;
/// Bytes of what a [`Bytes`] allocates to know its extent, with the header of the allocator.
const OWNER_BYTES: usize = 96;
/// Most bytes of free extents that keep their memory.
const RESERVE_BYTES: usize = 256 * 1024;

/// The extents of a store.
#[derive(Debug)]
pub(super) struct Extents {
    pool: Arc<Pool>,
}

impl Extents {
    pub(super) fn new(release: Release) -> Self {
        let free = Free {
            chunks: Slab::new(),
            available: [const { Vec::new() }; PAGES_MAX + 1],
            reserve: VecDeque::new(),
            is_closed: false,
        };
        Self { pool: Arc::new(Pool { free: Mutex::new(free), reserve_bytes: AtomicUsize::new(0), release }) }
    }

    /// Returns the bytes that a string of this length takes, or `None` if it gets no extent.
    pub(super) fn footprint(len: usize) -> Option<usize> {
        LENGTHS.contains(&len).then(|| len.next_multiple_of(KERNEL_PAGE) + OWNER_BYTES)
    }

    /// Returns the resident bytes of a free extent for a string of this length; 0 if there is none.
    pub(super) fn reserved_bytes(&self, len: usize) -> usize {
        let pages = len.div_ceil(KERNEL_PAGE);
        let has = self.reserve_bytes() > 0 && LENGTHS.contains(&len) && self.pool.lock().reserved(pages).is_some();
        if has { pages * KERNEL_PAGE } else { 0 }
    }

    /// Returns a copy of a string that has a footprint.
    pub(super) fn copy(&self, string: &[u8]) -> Bytes {
        let (chunk, mut piece) = self.pool.take(string.len().div_ceil(KERNEL_PAGE));
        piece.fill(string);
        Bytes::from_owner(Extent { chunk, piece: Some(piece), pool: Arc::clone(&self.pool) })
    }

    /// Returns the resident bytes of free extents.
    pub(super) fn reserve_bytes(&self) -> usize {
        self.pool.reserve_bytes.load(Ordering::Relaxed)
    }

    /// Gives the memory of all free extents back. False: there is none.
    pub(super) fn release_reserve(&self) -> bool {
        self.pool.shrink_reserve(&mut self.pool.lock(), 0)
    }
}

impl Drop for Extents {
    /// A chunk goes when its last string goes, without a system call for each.
    fn drop(&mut self) {
        let mut free = self.pool.lock();
        free.is_closed = true;
        (free.chunks, free.reserve) = Default::default();
    }
}

/// An extent in use.
struct Extent {
    chunk: usize,
    /// There until it is dropped.
    piece: Option<Piece>,
    pool: Arc<Pool>,
}

impl AsRef<[u8]> for Extent {
    fn as_ref(&self) -> &[u8] {
        self.piece.as_ref().map_or(&[], Piece::bytes)
    }
}

impl Drop for Extent {
    /// Whoever sent the string last, on whatever thread, gives it back.
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.pool.give_back(self.chunk, piece);
        }
    }
}

#[derive(Debug)]
struct Pool {
    free: Mutex<Free>,
    reserve_bytes: AtomicUsize,
    release: Release,
}

/// Extents that are free.
#[derive(Debug)]
struct Free {
    chunks: Slab<Chunk>,
    /// Numbers of the chunks that have a free extent without memory, by the pages of their extents.
    available: [Vec<usize>; PAGES_MAX + 1],
    /// Extents that keep their memory, with the number of their chunk; the latest is the last.
    reserve: VecDeque<(usize, Piece)>,
    /// True once the store is gone.
    is_closed: bool,
}

/// Extents of one size.
#[derive(Debug)]
struct Chunk {
    /// Those that are free and have no memory.
    free: Vec<Piece>,
    /// Number of all.
    extents: usize,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an extent, and returns it with the number of its chunk.
    fn take(&self, pages: usize) -> (usize, Piece) {
        let mut free = self.lock();
        if let Some(taken) = free.reserved(pages).and_then(|at| free.reserve.remove(at)) {
            self.reserve_bytes.fetch_sub(taken.1.len(), Ordering::Relaxed);
            return taken;
        }
        free.take(pages)
    }

    fn give_back(&self, chunk: usize, piece: Piece) {
        let mut free = self.lock();
        if free.is_closed {
            return;
        }
        self.reserve_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        free.reserve.push_back((chunk, piece));
        self.shrink_reserve(&mut free, RESERVE_BYTES);
    }

    /// Releases memory until there is no more than this in reserve. False: there was none to release.
    fn shrink_reserve(&self, free: &mut Free, bytes_max: usize) -> bool {
        let mut has_released = false;
        while self.reserve_bytes.load(Ordering::Relaxed) > bytes_max
            && let Some((chunk, mut piece)) = free.reserve.pop_front()
        {
            self.reserve_bytes.fetch_sub(piece.len(), Ordering::Relaxed);
            piece.release(self.release);
            free.put(chunk, piece);
            has_released = true;
        }
        has_released
    }
}

impl Free {
    /// Returns the place in the reserve of an extent of so many pages.
    fn reserved(&self, pages: usize) -> Option<usize> {
        self.reserve.iter().rposition(|(_, piece)| piece.len() == pages * KERNEL_PAGE)
    }

    fn take(&mut self, pages: usize) -> (usize, Piece) {
        let Self { chunks, available, .. } = self;
        let number = match available[pages].last() {
            Some(&number) => number,
            None => {
                let free = Piece::divide_chunk(pages * KERNEL_PAGE);
                let number = chunks.insert(Chunk { extents: free.len(), free });
                available[pages].push(number);
                number
            }
        };
        let chunk = &mut chunks[number];
        let piece = chunk.free.pop().expect("it is among the available");
        if chunk.free.is_empty() {
            available[pages].pop();
        }
        (number, piece)
    }

    /// Puts an extent without memory back. Its chunk goes with the last of them, unless it is the only one of its size.
    fn put(&mut self, number: usize, piece: Piece) {
        let available = &mut self.available[piece.len() / KERNEL_PAGE];
        let chunk = &mut self.chunks[number];
        if chunk.free.is_empty() {
            available.push(number);
        }
        chunk.free.push(piece);
        if chunk.free.len() == chunk.extents && available.len() > 1 {
            available.retain(|&other| other != number);
            drop(mem::take(&mut self.chunks.remove(number).free));
        }
    }
}

const _: () = assert!(PAGES_MAX * KERNEL_PAGE <= HUGE);

#[cfg(test)]
mod tests {
    use std::{cell::Cell, mem::MaybeUninit};

    use super::*;

    thread_local! {
        static RELEASED: Cell<usize> = const { Cell::new(0) };
    }

    fn extents() -> Extents {
        RELEASED.set(0);
        Extents::new(|memory: &mut [MaybeUninit<u8>]| RELEASED.set(RELEASED.get() + memory.len()))
    }

    fn chunks(extents: &Extents) -> usize {
        extents.pool.lock().chunks.len()
    }

    #[test]
    fn only_large_strings_get_extents() {
        let page = KERNEL_PAGE;
        let pages = |len| Extents::footprint(len).map(|bytes| (bytes - OWNER_BYTES) / page);
        assert_eq!([0, 3 * page, 3 * page + 1, 4 * page].map(pages), [None, None, Some(4), Some(4)]);
        assert_eq!([4 * page + 1, 64 * page, 64 * page + 1].map(pages), [Some(5), Some(64), None]);
    }

    #[test]
    fn strings_keep_their_contents_while_others_come_and_go() {
        let (extents, mut random) = (extents(), fastrand::Rng::with_seed(1));
        let mut strings: Vec<(u8, Bytes)> = Vec::new();
        for _ in 0..300 {
            let (len, byte) = (random.usize(LENGTHS), random.u8(..));
            strings.push((byte, extents.copy(&vec![byte; len])));
            assert_eq!(strings.last().map(|(_, string)| string.len()), Some(len));
            if strings.len() > 30 {
                let (byte, string) = strings.swap_remove(random.usize(..strings.len()));
                assert!(string == vec![byte; string.len()]);
            }
            assert!(extents.reserve_bytes() <= RESERVE_BYTES);
        }
        assert!(strings.iter().all(|(byte, string)| *string == vec![*byte; string.len()]));
    }

    #[test]
    fn memory_goes_back_and_a_few_extents_wait_for_the_next() {
        let extents = extents();
        let strings: Vec<Bytes> = (0..100).map(|_| extents.copy(&[1; 4 * KERNEL_PAGE])).collect();
        let clone = strings[0].clone();
        drop(strings);
        assert_eq!(extents.reserve_bytes(), RESERVE_BYTES);
        assert_eq!([4, 5].map(|pages| extents.reserved_bytes(pages * KERNEL_PAGE)), [4 * KERNEL_PAGE, 0]);
        assert_eq!(RELEASED.get(), 99 * 4 * KERNEL_PAGE - RESERVE_BYTES, "one is still in use");
        drop(clone);
        assert_eq!(RELEASED.get(), 100 * 4 * KERNEL_PAGE - RESERVE_BYTES);
        // One of the reserve serves again.
        let string = extents.copy(&[2; 4 * KERNEL_PAGE - 7]);
        assert_eq!(extents.reserve_bytes(), RESERVE_BYTES - 4 * KERNEL_PAGE);
        assert!(extents.release_reserve() && !extents.release_reserve());
        assert_eq!((extents.reserve_bytes(), &string[..]), (0, &[2; 4 * KERNEL_PAGE - 7][..]));
    }

    #[test]
    fn all_chunks_of_a_size_but_one_go_with_their_last_string() {
        let extents = extents();
        let mut strings: Vec<Bytes> = (0..4 * 8).map(|_| extents.copy(&[1; PAGES_MAX * KERNEL_PAGE])).collect();
        strings.push(extents.copy(&[1; 4 * KERNEL_PAGE]));
        assert_eq!(chunks(&extents), 5);
        strings.clear();
        extents.release_reserve();
        assert_eq!(chunks(&extents), 2);
    }

    #[test]
    fn a_string_outlives_its_store_and_goes_without_a_call() {
        let extents = extents();
        let strings = [extents.copy(&[1; 20_000]), extents.copy(&[2; 30_000])];
        drop(extents);
        assert!(strings[0] == vec![1; 20_000] && strings[1] == vec![2; 30_000]);
        drop(strings);
        assert_eq!(RELEASED.get(), 0);
    }
}
