//! A queue of handles.

use std::collections::VecDeque;

/// Handles per chunk.
const CHUNK: usize = 256;
/// Bytes of a chunk, of its allocator header, and of its share of the list of chunks, of which a quarter may be in use.
const CHUNK_BYTES: usize = CHUNK * size_of::<u32>() + 16 + 4 * size_of::<usize>();
/// Bytes of an empty list of chunks.
const LIST_MIN_BYTES: usize = 64;

/// A queue that grows and shrinks by chunks, so that no push ever copies what is queued.
#[derive(Debug)]
pub(super) struct HandleQueue {
    chunks: VecDeque<Box<[u32; CHUNK]>>,
    /// Index of the first handle in the first chunk.
    head: usize,
    /// Index behind the last handle in the last chunk; [`CHUNK`] if that chunk is full, or if there is none.
    tail: usize,
}

impl Default for HandleQueue {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), head: 0, tail: CHUNK }
    }
}

impl HandleQueue {
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.chunks.len() * CHUNK + self.tail).saturating_sub(CHUNK + self.head)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn push(&mut self, handle: u32) {
        if self.tail == CHUNK {
            self.chunks.push_back(Box::new([0; CHUNK]));
            self.tail = 0;
        }
        if let Some(last) = self.chunks.back_mut() {
            last[self.tail] = handle;
            self.tail += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let handle = self.chunks.front()?[self.head];
        self.head += 1;
        if self.head == CHUNK {
            self.chunks.pop_front();
            self.head = 0;
            if self.chunks.len() < self.chunks.capacity() / 4 {
                self.chunks.shrink_to(self.chunks.len() * 2);
            }
        }
        Some(handle)
    }

    /// Returns the most memory that `handles` take in `queues`: the first and the last chunk of each may be almost empty.
    pub(super) fn bytes(handles: usize, queues: usize) -> usize {
        handles * CHUNK_BYTES / CHUNK + queues * (2 * CHUNK_BYTES + LIST_MIN_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_come_out_in_order_within_the_stated_memory() {
        let (mut queue, mut expected) = (HandleQueue::default(), VecDeque::new());
        let mut random = fastrand::Rng::with_seed(1);
        let has_bounds = |queue: &HandleQueue| {
            let held = queue.chunks.len() * (CHUNK * 4 + 16) + queue.chunks.capacity() * 8;
            held <= HandleQueue::bytes(queue.len(), 1)
        };
        for turn in 0..200_000 {
            let limit = if turn < 100_000 { 60 } else { 40 };
            if random.u32(..100) < limit {
                queue.push(turn);
                expected.push_back(turn);
            } else {
                assert_eq!(queue.pop(), expected.pop_front());
            }
            assert!(queue.len() == expected.len() && has_bounds(&queue));
        }
        while let Some(handle) = queue.pop() {
            assert_eq!(Some(handle), expected.pop_front());
        }
        assert!(expected.is_empty() && has_bounds(&queue));
    }
}
