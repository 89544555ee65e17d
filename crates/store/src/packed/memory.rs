//! Memory from the allocator, as bytes that can be asked for ahead.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull,
    slice,
};

use crate::StoreOptions;

/// The size of a huge page, and of every piece of memory: one that nothing has been written to costs addresses only.
pub(super) const HUGE: usize = 2 << 20;
/// The size of a cache line.
pub(super) const LINE: usize = 64;

/// What a piece of memory is laid out as.
#[repr(align(2097152))]
struct Aligned(#[expect(dead_code, reason = "for its size")] [u8; HUGE]);

type Advise = fn(NonNull<[MaybeUninit<u8>]>);
type Release = fn(&mut [MaybeUninit<u8>]);

/// Where a part of a store gets its pieces from, and how they come by huge pages.
#[derive(Debug)]
pub(super) struct Pieces {
    advise: Advise,
    /// So many begin as small pages, so that a small store stays small; the kernel hears that they may become huge ones
    /// once they are full. What is unused of the later ones is little beside them.
    small: usize,
}

impl Pieces {
    pub(super) fn new(options: &StoreOptions, small: usize) -> Self {
        Self { advise: options.advise, small }
    }

    /// The next piece behind `pieces`, the last of which is full.
    pub(super) fn next<P: AsMut<Raw>>(&self, pieces: &mut [P]) -> Raw {
        let begun = pieces.len();
        if let Some(full) = pieces.last_mut().filter(|_| begun <= self.small) {
            (self.advise)(full.as_mut().whole());
        }
        let piece = Raw::new();
        if begun >= self.small {
            (self.advise)(piece.whole());
        }
        piece
    }
}

/// [`HUGE`] bytes of memory, aligned to as much, that nothing has been written to.
#[derive(Debug)]
pub(super) struct Raw {
    start: NonNull<u8>,
}

// SAFETY: the memory belongs to this value alone, and its address means the same to every thread.
unsafe impl Send for Raw {}

impl AsMut<Self> for Raw {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Raw {
    const LAYOUT: Layout = Layout::new::<Aligned>();

    fn new() -> Self {
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc(Self::LAYOUT) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(Self::LAYOUT) };
        Self { start }
    }

    /// The address of a byte that is within the capacity, good as long as the memory is.
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

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and nobody else frees it.
        unsafe { dealloc(self.start.as_ptr(), Self::LAYOUT) }
    }
}

/// Memory of which a beginning is in use, as bytes.
#[derive(Debug)]
pub(super) struct Chunk {
    raw: Raw,
    /// How much of it has been written to.
    ready: usize,
}

impl AsMut<Raw> for Chunk {
    fn as_mut(&mut self) -> &mut Raw {
        &mut self.raw
    }
}

impl Chunk {
    pub(super) fn new(raw: Raw) -> Self {
        Self { raw, ready: 0 }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.raw.start.as_ptr()
    }

    /// Takes the next bytes into use. They are 0.
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

    /// Hands bytes that are in use to [`crate::StoreOptions::release`]; they mean nothing until [`Chunk::reclaim`].
    pub(super) fn release(&mut self, range: Range<usize>, release: Release) {
        assert!(range.end <= self.ready);
        release(self.raw.range_mut(range));
    }

    /// Takes bytes into use again. They are 0.
    pub(super) fn reclaim(&mut self, range: Range<usize>) {
        assert!(range.end <= self.ready);
        // Somebody else's promise that they are already is not one to build on.
        self.raw.range_mut(range).fill(MaybeUninit::new(0));
    }
}

/// Bytes by which a vector grows with so many more elements.
pub(super) fn growth_of<T>(vector: &Vec<T>, more: usize) -> usize {
    match vector.len() + more {
        len if len <= vector.capacity() => 0,
        // It doubles, and begins with four.
        len => (len.max(2 * vector.capacity()).max(4) - vector.capacity()) * size_of::<T>(),
    }
}

/// Asks for the cache line at an address.
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
