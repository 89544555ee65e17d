//! A queue of handles.

use std::collections::VecDeque;

/// Handles per chunk.
const CHUNK: usize = 256;
/// A chunk, what the allocator adds, and its share of the list of chunks, of which a quarter may be in use.
const CHUNK_BYTES: usize = CHUNK * size_of::<u32>() + 16 + 4 * size_of::<usize>();
/// What the list of chunks begins with.
const LIST_MIN_BYTES: usize = 64;

/// A queue that grows and shrinks by chunks, so that no push ever copies what is queued.
#[derive(Debug)]
pub(super) struct Ring {
    chunks: VecDeque<Box<[u32; CHUNK]>>,
    /// The first handle's place in the first chunk.
    head: usize,
    /// The place after the last handle in the last chunk; [`CHUNK`] when there is no room in it, or no chunk.
    tail: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), head: 0, tail: CHUNK }
    }
}

impl Ring {
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

    /// The most memory that so many handles take in so many rings: the first and the last chunk may be all but empty.
    pub(super) fn bytes(handles: usize, rings: usize) -> usize {
        handles * CHUNK_BYTES / CHUNK + rings * (2 * CHUNK_BYTES + LIST_MIN_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_comes_out_in_order_and_takes_no_more_than_it_says() {
        let (mut ring, mut expected) = (Ring::default(), VecDeque::new());
        let mut random = fastrand::Rng::with_seed(1);
        let has_bounds = |ring: &Ring| {
            let held = ring.chunks.len() * (CHUNK * 4 + 16) + ring.chunks.capacity() * 8;
            held <= Ring::bytes(ring.len(), 1)
        };
        for turn in 0..200_000 {
            let limit = if turn < 100_000 { 60 } else { 40 };
            if random.u32(..100) < limit {
                ring.push(turn);
                expected.push_back(turn);
            } else {
                assert_eq!(ring.pop(), expected.pop_front());
            }
            assert!(ring.len() == expected.len() && has_bounds(&ring));
        }
        while let Some(handle) = ring.pop() {
            assert_eq!(Some(handle), expected.pop_front());
        }
        assert!(expected.is_empty() && has_bounds(&ring));
    }
}
