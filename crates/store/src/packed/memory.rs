//! Memory from the allocator in chunks, and prefetching.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull,
    slice,
    sync::Arc,
};

use crate::StoreOptions;

/// Size of a huge page, and of every chunk. A chunk that has not been written to costs addresses only.
pub(super) const HUGE: usize = 2 << 20;
/// Size of a cache line.
pub(super) const LINE: usize = 64;

type Advise = fn(NonNull<[MaybeUninit<u8>]>);
pub(super) type Release = fn(&mut [MaybeUninit<u8>]);

/// Most chunks of a slab: of each allocation the allocator's header takes a page of the kernel beside the chunks.
const SLAB_CHUNKS_MAX: usize = 16;

/// The source of chunks for a part of a store.
#[derive(Debug)]
pub(super) struct ChunkSource {
    advise: Advise,
    /// The latest slab.
    slab: Option<Arc<Slab>>,
    /// Chunks of the slab that have been given out.
    given: usize,
}

impl ChunkSource {
    pub(super) fn new(options: &StoreOptions) -> Self {
        Self { advise: options.advise, slab: None, given: 0 }
    }

    /// Makes the chunk after `chunks`, the last of which is full: a chunk begins as small pages, so that the last one takes no
    /// more memory than is in use, and should be a huge page from now on.
    pub(super) fn next<P: AsMut<RawChunk>>(&mut self, chunks: &mut [P]) -> RawChunk {
        let count = chunks.len();
        if let Some(full) = chunks.last_mut() {
            (self.advise)(full.as_mut().whole());
        }
        let slab = match self.slab.take().filter(|slab| self.given < slab.chunks()) {
            Some(slab) => slab,
            None => {
                self.given = 0;
                Arc::new(Slab::new(count.clamp(1, SLAB_CHUNKS_MAX)))
            }
        };
        let chunk = RawChunk { start: slab.chunk(self.given), _slab: Arc::clone(&slab) };
        self.given += 1;
        self.slab = Some(slab);
        chunk
    }
}

/// Memory of several chunks, from one allocation.
#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: all that is done with a shared slab is to compute addresses, which mean the same to every thread.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(chunks: usize) -> Self {
        let layout =
            Layout::from_size_align(chunks * HUGE, HUGE).expect("a slab is far smaller than the address space");
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    fn chunks(&self) -> usize {
        self.layout.size() / HUGE
    }

    /// Returns the address of a chunk.
    fn chunk(&self, number: usize) -> NonNull<u8> {
        assert!(number < self.chunks());
        // SAFETY: asserted to be within the allocation.
        unsafe { self.start.add(number * HUGE) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// [`HUGE`] bytes of memory, aligned to as much, and not initialised.
#[derive(Debug)]
pub(super) struct RawChunk {
    start: NonNull<u8>,
    /// Keeps the memory.
    _slab: Arc<Slab>,
}

// SAFETY: a slab gives out each chunk once, so that the memory belongs to this value alone, and its address means the same to
// every thread.
unsafe impl Send for RawChunk {}

impl AsMut<Self> for RawChunk {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl RawChunk {
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

/// A part of a chunk. Its first bytes are initialised.
#[derive(Debug)]
pub(super) struct Piece {
    start: NonNull<u8>,
    len: usize,
    /// Number of initialised bytes.
    ready: usize,
    /// Keeps the memory.
    _slab: Arc<Slab>,
}

// SAFETY: the memory belongs to this value alone, as that of a chunk does.
unsafe impl Send for Piece {}
// SAFETY: shared, it is only read.
unsafe impl Sync for Piece {}

impl Piece {
    /// Allocates a chunk, and divides it into pieces of so many bytes.
    pub(super) fn divide_chunk(len: usize) -> Vec<Self> {
        assert!(0 < len && len <= HUGE);
        let slab = Arc::new(Slab::new(1));
        let piece = |number: usize| {
            // SAFETY: the pieces lie one behind the other within the allocation.
            let start = unsafe { slab.chunk(0).add(number * len) };
            Self { start, len, ready: 0, _slab: Arc::clone(&slab) }
        };
        (0..HUGE / len).map(piece).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets the initialised bytes to these. Panics if there is no room for them.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        self.memory()[..bytes.len()].write_copy_of_slice(bytes);
        self.ready = bytes.len();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `ready` bytes are within the allocation and have been written to by `fill`; they change only through
        // `&mut self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.ready) }
    }

    /// Gives all bytes to [`crate::StoreOptions::release`]. None is initialised afterwards.
    pub(super) fn release(&mut self, release: Release) {
        self.ready = 0;
        release(self.memory());
    }

    fn memory(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: within the allocation, which nobody else refers to here, and `self` is borrowed exclusively; any byte is a
        // `MaybeUninit`.
        unsafe { slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.len) }
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
