//! Buffers of an outbox: its own, or those that a loop lends.

use std::{collections::VecDeque, mem};

use super::Outbox;
use crate::BufferPool;

/// The largest buffer that an outbox of its own keeps for the next reply.
const SPARE_CAPACITY_MAX: usize = 64 * 1024;

impl Outbox {
    /// Before a protocol writes: a buffer for its replies, unless there is one. A driver that never lends leaves each
    /// outbox its own.
    #[inline]
    pub fn borrow_buffer(&mut self, pool: &mut BufferPool) {
        self.is_pooled = true;
        if self.tail.capacity() == 0
            && let Some(buffer) = pool.take()
        {
            self.tail = buffer;
        }
    }

    /// After a flush: the buffer goes back, if it is empty.
    #[inline]
    pub fn return_buffer(&mut self, pool: &mut BufferPool) {
        if self.tail.is_empty() {
            pool.keep(mem::take(&mut self.tail));
        }
    }

    /// The largest buffer that is kept once it is empty.
    pub(super) fn capacity_max(&self) -> usize {
        if self.is_pooled { usize::MAX } else { SPARE_CAPACITY_MAX }
    }

    /// Bytes of buffers kept for later.
    pub(crate) fn spare_capacity(&self) -> usize {
        if self.is_empty() { self.tail.capacity() + self.spare.capacity() + self.queue.capacity() } else { 0 }
    }

    /// Gives spare buffers back to the allocator.
    pub(crate) fn trim(&mut self) {
        if self.is_empty() {
            (self.tail, self.spare, self.queue) = (Vec::new(), Vec::new(), VecDeque::new());
        }
    }
}
