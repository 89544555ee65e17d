//! Items whose bytes are on their way out of a connection, in order.

use std::collections::VecDeque;

/// Items that an idle connection keeps memory for.
const KEPT: usize = 8;

/// Items, each of which has queued so many bytes, until these have been sent.
#[derive(Debug)]
pub struct Departures<T> {
    queue: VecDeque<(T, u64)>,
    /// Sum of the bytes in `queue`.
    queued: u64,
    /// Bytes that have not been sent, as far as is known.
    unsent: u64,
}

impl<T> Default for Departures<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), queued: 0, unsent: 0 }
    }
}

impl<T> Departures<T> {
    /// Adds an item whose bytes have been queued behind those of all others.
    pub fn push(&mut self, item: T, bytes: u64) {
        self.queue.push_back((item, bytes));
        self.queued += bytes;
        self.unsent += bytes;
    }

    /// Notes that so many bytes have not been sent: see [`proto::Outbox::unsent_bytes`].
    pub fn set_unsent(&mut self, bytes: u64) {
        self.unsent = bytes;
    }

    /// Removes the first item if all of its bytes have been sent. Returns it with their number.
    pub fn pop_sent(&mut self) -> Option<(T, u64)> {
        let &(_, bytes) = self.queue.front()?;
        // What has not been sent are the last bytes.
        if self.queued - bytes < self.unsent {
            return None;
        }
        self.queued -= bytes;
        let first = self.queue.pop_front();
        if self.queue.is_empty() {
            self.queue.shrink_to(KEPT);
        }
        first
    }

    /// Returns the first item if some of its bytes have been sent.
    pub fn leaving(&mut self) -> Option<&mut T> {
        if self.queued <= self.unsent {
            return None;
        }
        self.queue.front_mut().map(|(item, _)| item)
    }

    /// Removes the first item at the end of the connection. Returns it, the bytes that it has queued and those of them that
    /// have been sent.
    pub fn pop_unsent(&mut self) -> Option<(T, u64, u64)> {
        let (item, bytes) = self.queue.pop_front()?;
        let sent = self.queued.saturating_sub(self.unsent).min(bytes);
        self.queued -= bytes;
        self.unsent = self.unsent.saturating_sub(bytes - sent);
        Some((item, bytes, sent))
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the item at this place.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.queue.get(at).map(|(item, _)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Departures<char> {
        let mut departures = Departures::default();
        for (item, bytes) in [('a', 100), ('b', 10), ('c', 1)] {
            departures.push(item, bytes);
        }
        departures
    }

    #[test]
    fn an_item_leaves_with_its_last_byte() {
        let mut departures = three();
        assert_eq!(departures.pop_sent(), None);
        for (unsent, expected) in [(12, None), (11, Some(('a', 100))), (2, None), (0, Some(('b', 10)))] {
            departures.set_unsent(unsent);
            assert_eq!(departures.pop_sent(), expected, "{unsent} unsent");
        }
        assert_eq!((departures.pop_sent(), departures.pop_sent(), departures.is_empty()), (Some(('c', 1)), None, true));
    }

    /// Bytes that belong to no item hold up those before them, as nobody knows where they are.
    #[test]
    fn unknown_bytes_never_make_an_item_leave_early() {
        let mut departures = three();
        departures.set_unsent(1_000);
        assert_eq!(departures.pop_sent(), None);
    }

    #[test]
    fn the_end_shares_out_what_was_sent() {
        let mut departures = three();
        departures.set_unsent(6);
        assert_eq!(departures.pop_sent(), Some(('a', 100)));
        assert_eq!(departures.pop_unsent(), Some(('b', 10, 5)));
        assert_eq!(departures.pop_unsent(), Some(('c', 1, 0)));
        assert_eq!(departures.pop_unsent(), None);
    }
}
