//! Memory that the kernel picks from when bytes arrive (io_uring_register_buf_ring(3)).

use std::{
    fmt, io,
    mem::ManuallyDrop,
    ops::Deref,
    slice,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{IoUring, types::BufRingEntry};
use memmap2::{MmapMut, MmapOptions};

/// Group that receives name.
pub(super) const GROUP: u16 = 0;
/// The largest number of buffers: a power of two.
const COUNT: u16 = 512;
/// Number that the kernel has at first, which [`ProvidedBuffers::provide_for`] doubles. The kernel takes them in turn: few of them
/// stay in the processor's caches, and those that were never filled take no memory.
const COUNT_MIN: u16 = 32;

/// Provided buffers of `SIZE` bytes each.
pub struct ProvidedBuffers<const SIZE: usize> {
    /// `COUNT` entries, shared with the kernel.
    entries: MmapMut,
    /// `COUNT` buffers of `SIZE` bytes. Leaked where a [`Filled`] one has not come back.
    memory: ManuallyDrop<MmapMut>,
    tail: u16,
    /// Number of buffers that the kernel, or whoever handles what they hold, has.
    provided: u16,
    /// Buffers that are [`Filled`] ones now.
    taken: usize,
}

/// A provided buffer with what was received in it. It is owed to [`ProvidedBuffers::put_back`].
#[must_use]
pub struct Filled {
    id: u16,
    /// Lives for as long as this does: the buffers are not unmapped before it has come back.
    bytes: &'static [u8],
}

impl<const SIZE: usize> ProvidedBuffers<SIZE> {
    /// # Errors
    /// Those of mmap(2) and io_uring_register(2).
    pub fn register(ring: &IoUring) -> io::Result<Self> {
        let entries = MmapOptions::new().len(usize::from(COUNT) * size_of::<BufRingEntry>()).map_anon()?;
        let memory = MmapOptions::new().len(usize::from(COUNT) * SIZE).map_anon()?;
        // SAFETY: a page-aligned mapping of COUNT entries, which `Ring` keeps until the kernel is done with it.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, COUNT, GROUP, 0)? };
        let mut this = Self { entries, memory: ManuallyDrop::new(memory), tail: 0, provided: 0, taken: 0 };
        this.provide(COUNT_MIN);
        Ok(this)
    }

    /// Provides twice as many where more than half of them can have been filled at once.
    #[inline]
    pub fn provide_for(&mut self, filled: usize) {
        if filled > usize::from(self.provided / 2) && self.provided < COUNT {
            self.provide(self.provided * 2);
        }
    }

    /// Provides so many, those there are included.
    fn provide(&mut self, count: u16) {
        (self.provided..count).for_each(|id| self.give_back(id));
        self.provided = count;
    }

    /// Bytes that the kernel put into a buffer, until it is given back.
    #[inline]
    pub fn filled(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < COUNT && len <= SIZE);
        // SAFETY: in bounds of `memory`. The kernel does not write to a buffer between its completion and
        // `give_back`, which needs `&mut self`.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(usize::from(id) * SIZE), len) }
    }

    /// The same, detached from the ring: [`ProvidedBuffers::put_back`] follows.
    #[inline]
    pub fn take(&mut self, id: u16, len: usize) -> Filled {
        self.taken += 1;
        let bytes: *const [u8] = self.filled(id, len);
        // SAFETY: the kernel does not write to the buffer before it is put back, which consumes what is made here, and
        // the mapping stays for as long as one of them has not come back.
        Filled { id, bytes: unsafe { &*bytes } }
    }

    /// Takes back a buffer that came from [`ProvidedBuffers::take`].
    ///
    /// # Panics
    /// When it came from another ring.
    #[inline]
    pub fn put_back(&mut self, filled: Filled) {
        assert!(self.filled(filled.id, 0).as_ptr() == filled.bytes.as_ptr(), "a buffer of another ring");
        self.taken -= 1;
        self.give_back(filled.id);
    }

    /// Lets the kernel fill the buffer again.
    pub fn give_back(&mut self, id: u16) {
        assert!(id < COUNT);
        let address = self.memory.as_ptr() as u64 + (usize::from(id) * SIZE) as u64;
        let entries = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        // SAFETY: the index is masked into the COUNT entries; only this thread writes entries and the tail, and the
        // kernel reads an entry only after the release store that publishes it.
        unsafe {
            let entry = &mut *entries.add(usize::from(self.tail & (COUNT - 1)));
            entry.set_addr(address);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(entries).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

impl<const SIZE: usize> Drop for ProvidedBuffers<SIZE> {
    fn drop(&mut self) {
        if self.taken == 0 {
            // SAFETY: nobody has a slice of it, and it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl Deref for Filled {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filled").field("id", &self.id).field("len", &self.bytes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_become_more_with_what_arrives_at_once_up_to_the_largest_number() {
        let Ok(ring) = IoUring::new(8) else { return };
        let Ok(mut buffers) = ProvidedBuffers::<4096>::register(&ring) else { return };
        assert_eq!(buffers.provided, COUNT_MIN);
        buffers.provide_for(usize::from(COUNT_MIN / 2));
        assert_eq!(buffers.provided, COUNT_MIN);
        buffers.provide_for(usize::from(COUNT_MIN / 2) + 1);
        assert_eq!(buffers.provided, 2 * COUNT_MIN);
        (0..9).for_each(|_| buffers.provide_for(usize::from(COUNT)));
        assert_eq!((buffers.provided, buffers.tail), (COUNT, COUNT));
    }
}
