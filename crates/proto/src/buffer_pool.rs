//! Output buffers that belong to a loop.

/// Buffers kept.
const COUNT_MAX: usize = 32;
/// The largest one kept: all the output that an outbox takes, and the reply that filled it.
const CAPACITY_MAX: usize = 512 * 1024;
/// Bytes that all of them may hold.
const TOTAL_MAX: usize = 4 * 1024 * 1024;

/// Output buffers that a loop lends to whichever connection writes next, the one emptied last first: it is still in the
/// processor's cache, and a connection that has nothing to say holds none. See [`crate::Outbox::borrow_buffer`].
#[derive(Debug, Default)]
pub struct BufferPool {
    buffers: Vec<Vec<u8>>,
    total: usize,
}

impl BufferPool {
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.total -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps an empty buffer if there is room for it.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let fits = capacity > 0 && capacity <= CAPACITY_MAX && self.total + capacity <= TOTAL_MAX;
        if fits && self.buffers.len() < COUNT_MAX {
            self.total += capacity;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outbox;

    #[test]
    fn the_buffer_emptied_last_is_borrowed_first() {
        let mut pool = BufferPool::default();
        let (mut one, mut other) = (Outbox::default(), Outbox::default());
        for (outbox, bytes) in [(&mut one, 10_000), (&mut other, 20_000)] {
            outbox.borrow_buffer(&mut pool);
            outbox.inline().extend_from_slice(&vec![b'x'; bytes]);
            outbox.return_buffer(&mut pool);
            assert_eq!(outbox.held_bytes(), bytes, "what is still to be sent stays");
            outbox.advance(bytes);
        }
        one.return_buffer(&mut pool);
        other.return_buffer(&mut pool);
        assert_eq!((one.spare_capacity(), other.spare_capacity()), (0, 0));
        one.borrow_buffer(&mut pool);
        assert!(one.inline().capacity() >= 20_000);
        one.borrow_buffer(&mut pool);
        other.borrow_buffer(&mut pool);
        assert!((10_000..20_000).contains(&other.inline().capacity()), "one buffer each");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = BufferPool::default();
        (0..2 * COUNT_MAX).for_each(|_| pool.keep(Vec::with_capacity(100)));
        assert_eq!(pool.buffers.len(), COUNT_MAX);
        let mut pool = BufferPool::default();
        (0..2 * COUNT_MAX).for_each(|_| pool.keep(Vec::with_capacity(CAPACITY_MAX)));
        pool.keep(Vec::with_capacity(CAPACITY_MAX + 1));
        pool.keep(Vec::new());
        assert_eq!((pool.buffers.len(), pool.total), (TOTAL_MAX / CAPACITY_MAX, TOTAL_MAX));
        while pool.take().is_some() {}
        assert_eq!(pool.total, 0);
    }
}
