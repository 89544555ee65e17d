//! Input that could not be parsed in place: the torn request at the end, or more than there was room to answer.

/// The smallest read worth a system call.
const SPACE_MIN: usize = 4 * 1024;
/// The largest read that is made room for because the last one was large.
const SPACE_USUAL_MAX: usize = 64 * 1024;
/// Limit of the room made for missing bytes that a protocol has announced, before they arrive.
const HINT_MAX: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes the protocol said are missing.
    need: usize,
    /// Bytes of the last read: a peer that sends much at once gets room for more.
    recent: usize,
}

impl Inbox {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn filled(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, n: usize, need: usize) {
        self.start += n;
        self.need = need;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Room for a read of at most `max` bytes, at least one.
    pub(crate) fn space(&mut self, max: usize) -> &mut [u8] {
        let usual = (2 * self.recent).clamp(SPACE_MIN, SPACE_USUAL_MAX);
        let hint = self.need.min(HINT_MAX).max(usual);
        self.reserve(hint.min(max.max(1)));
        let end = self.buffer.len().min(self.end + max.max(1));
        &mut self.buffer[self.end..end]
    }

    pub(crate) fn received(&mut self, n: usize) {
        assert!(self.end + n <= self.buffer.len(), "received more than there was space for");
        self.end += n;
        self.recent = n;
        self.need = self.need.saturating_sub(n);
    }

    /// Holds the end of a read that was made elsewhere, or all of it.
    pub(crate) fn extend(&mut self, read: &[u8], from: usize, need: usize) {
        let data = &read[from..];
        self.recent = read.len();
        self.reserve(data.len());
        self.buffer[self.end..self.end + data.len()].copy_from_slice(data);
        self.end += data.len();
        self.need = need;
    }

    fn reserve(&mut self, want: usize) {
        if self.buffer.len() - self.end >= want {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() - self.end < want {
            // It doubles, so that little is copied, but not beyond the end of a request whose length is known.
            let doubled = self.buffer.len() * 2;
            let len = if self.need > want { doubled.min(self.end + self.need) } else { doubled };
            self.buffer.resize(len.max(self.end + want), 0);
        }
    }

    pub(crate) fn spare_capacity(&self) -> usize {
        if self.is_empty() { self.buffer.capacity() } else { 0 }
    }
}
