//! Memory from the allocator, as bytes that can be asked for ahead.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    mem::MaybeUninit,
    ops::Range,
    ptr::NonNull,
    slice,
};

/// The size of a huge page, and of a piece of memory once a store has grown.
pub(super) const HUGE: usize = 2 << 20;
/// The size of a cache line.
pub(super) const LINE: usize = 64;

type Advise = fn(&mut [MaybeUninit<u8>]);

/// Memory that nothing has been written to.
#[derive(Debug)]
pub(super) struct Raw {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory belongs to this value alone, and its address means the same to every thread.
unsafe impl Send for Raw {}

impl Raw {
    /// `bytes`, a power of two, aligned to as much.
    pub(super) fn new(bytes: usize, advise: Advise) -> Self {
        let layout = Layout::from_size_align(bytes, bytes).expect("pieces of memory are powers of two, and not huge");
        // SAFETY: an alignment, which is what `bytes` has just been accepted as, is not 0.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let mut raw = Self { start, layout };
        if bytes.is_multiple_of(HUGE) {
            advise(raw.range_mut(0..bytes));
        }
        raw
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.layout.size()
    }

    /// The address of a byte that is within the capacity, good as long as the memory is.
    pub(super) fn address(&self, at: usize) -> NonNull<u8> {
        assert!(at < self.capacity());
        // SAFETY: asserted to be within the allocation.
        unsafe { self.start.add(at) }
    }

    fn range_mut(&mut self, range: Range<usize>) -> &mut [MaybeUninit<u8>] {
        assert!(range.start <= range.end && range.end <= self.capacity());
        // SAFETY: asserted to be within the allocation, which is borrowed exclusively; any byte is a `MaybeUninit`.
        unsafe { slice::from_raw_parts_mut(self.start.add(range.start).cast().as_ptr(), range.len()) }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and nobody else frees it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Memory of which a beginning is in use, as bytes.
#[derive(Debug)]
pub(super) struct Chunk {
    raw: Raw,
    /// How much of it has been written to.
    ready: usize,
}

impl Chunk {
    pub(super) fn new(bytes: usize, advise: Advise) -> Self {
        Self { raw: Raw::new(bytes, advise), ready: 0 }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn capacity(&self) -> usize {
        self.raw.capacity()
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

    /// Hands bytes that are in use to [`crate::Options::release`]; they mean nothing until [`Chunk::reclaim`].
    pub(super) fn release(&mut self, range: Range<usize>, release: Advise) {
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

/// The next bytes to ask the allocator for, when there are `bytes` already: a small store stays small, and a large one
/// consists of huge pages.
pub(super) fn next_size(bytes: usize, least: usize) -> usize {
    // Half as much as there is, so that what a huge page holds unused is little beside the rest.
    (bytes / 2 + 1).next_power_of_two().clamp(least, HUGE)
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
