//! The provided-buffer ring: memory that the kernel picks from when bytes arrive (io_uring_register_buf_ring(3)).

use std::{
    io, slice,
    sync::atomic::{AtomicU16, Ordering},
};

use io_uring::{IoUring, types::BufRingEntry};
use memmap2::{MmapMut, MmapOptions};

/// The group that receives name.
pub(super) const GROUP: u16 = 0;
/// A power of two.
const COUNT: u16 = 512;
const SIZE: usize = 8 * 1024;

pub(super) struct BufferRing {
    /// `COUNT` entries, shared with the kernel.
    entries: MmapMut,
    /// `COUNT` buffers of `SIZE` bytes.
    memory: MmapMut,
    tail: u16,
}

impl BufferRing {
    pub(super) fn register(ring: &IoUring) -> io::Result<Self> {
        let entries = MmapOptions::new().len(usize::from(COUNT) * size_of::<BufRingEntry>()).map_anon()?;
        let memory = MmapOptions::new().len(usize::from(COUNT) * SIZE).map_anon()?;
        // SAFETY: a page-aligned mapping of COUNT entries, which `Ring` keeps until the kernel is done with the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, COUNT, GROUP, 0)? };
        let mut this = Self { entries, memory, tail: 0 };
        (0..COUNT).for_each(|id| this.give_back(id));
        Ok(this)
    }

    /// What the kernel put into a buffer, until it is given back.
    pub(super) fn filled(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < COUNT && len <= SIZE);
        // SAFETY: in bounds of `memory`. The kernel does not write to a buffer between its completion and
        // `give_back`, which needs `&mut self`.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(usize::from(id) * SIZE), len) }
    }

    pub(super) fn give_back(&mut self, id: u16) {
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
