//! Output buffers that belong to a loop.

/// Buffers kept.
const COUNT_MAX: usize = 32;
/// The largest one kept: all the output that an outbox takes, and the reply that filled it.
const CAPACITY_MAX: usize = 512 * 1024;
/// What all of them may hold.
const TOTAL_MAX: usize = 4 * 1024 * 1024;

/// Output buffers that a loop lends to whichever connection writes next, the one emptied last first: it is still in the
/// processor's cache, and a connection that has nothing to say holds none. See [`crate::Outbox::lend`].
#[derive(Debug, Default)]
pub struct Spares {
    buffers: Vec<Vec<u8>>,
    total: usize,
}

impl Spares {
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop()?;
        self.total -= buffer.capacity();
        Some(buffer)
    }

    /// Keeps an empty buffer, or lets go of it.
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
    fn the_buffer_emptied_last_is_lent_first_and_an_idle_outbox_holds_none() {
        let mut spares = Spares::default();
        let (mut one, mut other) = (Outbox::default(), Outbox::default());
        for (outbox, bytes) in [(&mut one, 10_000), (&mut other, 20_000)] {
            outbox.lend(&mut spares);
            outbox.inline().extend_from_slice(&vec![b'x'; bytes]);
            outbox.give_back(&mut spares);
            assert_eq!(outbox.held(), bytes, "what is still to be sent stays");
            outbox.advance(bytes);
        }
        one.give_back(&mut spares);
        other.give_back(&mut spares);
        assert_eq!((one.spare_capacity(), other.spare_capacity()), (0, 0));
        one.lend(&mut spares);
        assert!(one.inline().capacity() >= 20_000);
        one.lend(&mut spares);
        other.lend(&mut spares);
        assert!((10_000..20_000).contains(&other.inline().capacity()), "one buffer each");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut spares = Spares::default();
        (0..2 * COUNT_MAX).for_each(|_| spares.keep(Vec::with_capacity(100)));
        assert_eq!(spares.buffers.len(), COUNT_MAX);
        let mut spares = Spares::default();
        (0..2 * COUNT_MAX).for_each(|_| spares.keep(Vec::with_capacity(CAPACITY_MAX)));
        spares.keep(Vec::with_capacity(CAPACITY_MAX + 1));
        spares.keep(Vec::new());
        assert_eq!((spares.buffers.len(), spares.total), (TOTAL_MAX / CAPACITY_MAX, TOTAL_MAX));
        while spares.take().is_some() {}
        assert_eq!(spares.total, 0);
    }
}
