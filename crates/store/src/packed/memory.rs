//! Memory from the allocator in chunks, and prefetching.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull,
    slice,
};

use crate::StoreOptions;

/// Size of a huge page, and of every chunk. A chunk that has not been written to costs addresses only.
pub(super) const HUGE: usize = 2 << 20;
/// Size of a cache line.
pub(super) const LINE: usize = 64;

/// Layout of a chunk.
#[repr(align(2097152))]
struct Aligned(#[expect(dead_code, reason = "only its size matters")] [u8; HUGE]);

type Advise = fn(NonNull<[MaybeUninit<u8>]>);
type Release = fn(&mut [MaybeUninit<u8>]);

/// The source of chunks for a part of a store. It decides which of them get huge pages.
#[derive(Debug)]
pub(super) struct ChunkSource {
    advise: Advise,
    /// Number of chunks that begin as small pages, so that a small store stays small. The kernel may make them huge pages
    /// once they are full. Beside them, the unused part of a later chunk is little.
    small: usize,
}

impl ChunkSource {
    pub(super) fn new(options: &StoreOptions, small: usize) -> Self {
        Self { advise: options.advise, small }
    }

    /// Makes the chunk after `chunks`, the last of which is full.
    pub(super) fn next<P: AsMut<RawChunk>>(&self, chunks: &mut [P]) -> RawChunk {
        let count = chunks.len();
        if let Some(full) = chunks.last_mut().filter(|_| count <= self.small) {
            (self.advise)(full.as_mut().whole());
        }
        let chunk = RawChunk::new();
        if count >= self.small {
            (self.advise)(chunk.whole());
        }
        chunk
    }
}

/// [`HUGE`] bytes of memory, aligned to as much, and not initialised.
#[derive(Debug)]
pub(super) struct RawChunk {
    start: NonNull<u8>,
}

// SAFETY: the memory belongs to this value alone, and its address means the same to every thread.
unsafe impl Send for RawChunk {}

impl AsMut<Self> for RawChunk {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl RawChunk {
    const LAYOUT: Layout = Layout::new::<Aligned>();

    fn new() -> Self {
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc(Self::LAYOUT) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(Self::LAYOUT) };
        Self { start }
    }

    /// Returns the address of a byte, valid as long as the memory.
    pub(super) fn address(&self, at: usize) -> NonNull<u8> {
        assert!(at < HUGE);
        // SAFETY: asserted to be within the allocation.
        unsafe { self.start.add(at) }
    }

    fn whole(&self) -> NonNull<[MaybeUninit<u8>]> {
        NonNull::slice_from_raw_parts(self.start.cast(), HUGE)
    }

    fn range_mut(&mut self, range: Range<usize>) -> &mut [MaybeUninit<u8>] {
        assert!(range.start <= range.end && range.end <= HUGE);
        // SAFETY: asserted to be within the allocation, which is borrowed exclusively; any byte is a `MaybeUninit`.
        unsafe { slice::from_raw_parts_mut(self.start.add(range.start).cast().as_ptr(), range.len()) }
    }
}

impl Drop for RawChunk {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), Self::LAYOUT) }
    }
}

/// A chunk whose first bytes are initialised.
#[derive(Debug)]
pub(super) struct Chunk {
    raw: RawChunk,
    /// Number of initialised bytes.
    ready: usize,
}

impl AsMut<RawChunk> for Chunk {
    fn as_mut(&mut self) -> &mut RawChunk {
        &mut self.raw
    }
}

impl Chunk {
    pub(super) fn new(raw: RawChunk) -> Self {
        Self { raw, ready: 0 }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.raw.start.as_ptr()
    }

    /// Initialises the next bytes to 0.
    pub(super) fn extend(&mut self, bytes: usize) {
        let end = self.ready + bytes;
        self.raw.range_mut(self.ready..end).fill(MaybeUninit::new(0));
        self.ready = end;
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `ready` bytes are within the allocation and have been written to by `extend`; they change only
        // through `&mut self`.
        unsafe { slice::from_raw_parts(self.raw.start.as_ptr(), self.ready) }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.raw.start.as_ptr(), self.ready) }
    }

    /// Gives initialised bytes to [`crate::StoreOptions::release`]; their contents are lost until [`Chunk::reclaim`].
    pub(super) fn release(&mut self, range: Range<usize>, release: Release) {
        assert!(range.end <= self.ready);
        release(self.raw.range_mut(range));
    }

    /// Sets released bytes to 0, for use.
    pub(super) fn reclaim(&mut self, range: Range<usize>) {
        assert!(range.end <= self.ready);
        // The contract of `release` says that they are 0 already; soundness must not depend on it.
        self.raw.range_mut(range).fill(MaybeUninit::new(0));
    }
}

/// Returns the bytes by which a vector grows with `more` elements.
pub(super) fn growth_of<T>(vector: &Vec<T>, more: usize) -> usize {
    match vector.len() + more {
        len if len <= vector.capacity() => 0,
        // It doubles, and begins with four.
        len => (len.max(2 * vector.capacity()).max(4) - vector.capacity()) * size_of::<T>(),
    }
}

/// Prefetches the cache line at an address.
#[inline(always)]
pub(super) fn prefetch<T: ?Sized>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that neither faults nor changes anything, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
