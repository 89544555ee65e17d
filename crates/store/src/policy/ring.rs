//! A queue of handles.

use std::collections::VecDeque;

/// Handles per chunk: one page of them.
const CHUNK: usize = 1024;
const CHUNK_BYTES: usize = CHUNK * size_of::<u32>() + 16;

/// A queue that grows and shrinks by chunks, so that no push ever copies what is queued.
#[derive(Debug)]
pub(super) struct Ring {
    chunks: VecDeque<Box<[u32; CHUNK]>>,
    /// The first handle's place in the first chunk.
    head: usize,
    /// The place after the last handle in the last chunk; [`CHUNK`] when there is no room in it, or no chunk.
    tail: usize,
    /// A chunk that has become empty, for the next push.
    spare: Option<Box<[u32; CHUNK]>>,
}

impl Default for Ring {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), head: 0, tail: CHUNK, spare: None }
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
            let chunk = self.spare.take().unwrap_or_else(|| Box::new([0; CHUNK]));
            self.chunks.push_back(chunk);
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
            self.spare = self.chunks.pop_front();
            self.head = 0;
        }
        Some(handle)
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        (self.chunks.len() + usize::from(self.spare.is_some())) * CHUNK_BYTES + self.list_bytes()
    }

    fn list_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[u32; CHUNK]>>()
    }

    /// Bytes by which it grows at the next push.
    #[inline]
    pub(super) fn growth(&self) -> usize {
        /// What the list of chunks begins with.
        const LIST_MIN_BYTES: usize = 64;
        if self.tail < CHUNK || self.spare.is_some() {
            return 0;
        }
        CHUNK_BYTES + self.list_bytes().max(LIST_MIN_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_comes_out_in_order_and_takes_no_more_than_announced() {
        let (mut ring, mut expected) = (Ring::default(), VecDeque::new());
        let mut random = fastrand::Rng::with_seed(1);
        for turn in 0..200_000 {
            let limit = if turn < 100_000 { 60 } else { 40 };
            if random.u32(..100) < limit {
                let allowed = ring.bytes() + ring.growth();
                ring.push(turn);
                expected.push_back(turn);
                assert!(ring.bytes() <= allowed);
            } else {
                assert_eq!(ring.pop(), expected.pop_front());
            }
            assert_eq!(ring.len(), expected.len());
        }
        while let Some(handle) = ring.pop() {
            assert_eq!(Some(handle), expected.pop_front());
        }
        assert!(expected.is_empty() && ring.bytes() < 4 * CHUNK_BYTES);
    }
}
