//! Pushes: output that no request asked for, on its way from a mailbox into the queue.

use super::{FLATTEN_MAX, Outbox};
use crate::{
    push::{Pusher, Source},
    segment::Segment,
};

impl Outbox {
    /// Takes what is pushed through this handle, until the connection ends. Only for protocols that raise
    /// [`crate::Protocol::PUSHES`]. A connection has one handle: a second one is ignored.
    pub fn take_pushes_of(&mut self, pusher: &Pusher) {
        self.source.get_or_insert_with(|| Source::new(pusher, false));
    }

    /// Gives the protocol a turn whenever something is pushed into an outbox whose bytes leave through this one: for a
    /// layer, which raises [`crate::Protocol::STREAMS`], too.
    pub fn follow_pushes(&mut self, inner: &Self) {
        if let (None, Some(source)) = (&self.source, &inner.source) {
            self.source = Some(Source::new(source.pusher(), true));
        }
    }

    /// True if pushes are taken, so that there may be output at any time.
    #[inline]
    pub fn takes_pushes(&self) -> bool {
        self.source.is_some()
    }

    /// True if something has been pushed that there was no room for.
    pub(crate) fn has_pushes(&self) -> bool {
        self.source.as_ref().is_some_and(Source::has_pushes)
    }

    /// True if more has been pushed than the limit allows: it has been dropped.
    pub(crate) fn has_dropped_pushes(&self) -> bool {
        self.source.as_ref().is_some_and(Source::is_overrun)
    }

    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Moves what has been pushed and what there is room for behind the queue. True if that is anything.
    pub(crate) fn collect_pushes(&mut self) -> bool {
        let Some(source) = self.source.take() else { return false };
        let has_moved = source.move_into(self);
        self.source = Some(source);
        has_moved
    }

    pub(crate) fn push_segment(&mut self, segment: Segment) {
        // Many small ones leave in one piece.
        if let Segment::Owned(bytes) = &segment
            && bytes.len() <= FLATTEN_MAX
        {
            self.tail.extend_from_slice(bytes);
        } else {
            self.push(segment);
        }
    }
}
