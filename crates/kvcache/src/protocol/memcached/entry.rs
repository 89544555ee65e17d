//! What memcached keeps of an item beside its value, in [`Attributes`]: the expiry and the client's flags as they are;
//! whether it has been fetched in the encoding; in the version its unique number and, above it, two marks.
//!
//! A unique number is given out when somebody asks for it, so that an entry nobody asks about pays nothing. Every
//! write takes the number away: who asks then is given a new one, and who still has the old one finds it outdated.

use std::sync::atomic::{AtomicU64, Ordering};

use store::{Attributes, OutOfMemory, Store};
use wire::memcached::Expiry;

use crate::codec::FETCHED;
use crate::state::space::Item;

/// The item is stale: `md` has said so, or it was set by somebody who was late.
pub(super) const STALE: u64 = 1 << 63;
/// A client has been told to renew the item.
pub(super) const CLAIMED: u64 = 1 << 62;
/// The unique number; 0: none has been given out.
pub(crate) const NUMBER: u64 = CLAIMED - 1;

/// The unique numbers given out so far.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn has_been_given(&self, number: u64) -> bool {
        number <= self.0.load(Ordering::Relaxed)
    }

    /// A version that comes from a snapshot must not be given out again.
    pub(crate) fn skip(&self, version: u64) {
        self.0.fetch_max(version & NUMBER, Ordering::Relaxed);
    }
}

/// Milliseconds since the Unix epoch, 0 for never; `None`: it is over already.
pub(super) fn expires_at(expiry: Expiry, now_ms: u64) -> Option<u64> {
    match expiry {
        Expiry::Never => Some(0),
        Expiry::Immediately => None,
        Expiry::In(seconds) => Some(now_ms + u64::from(seconds) * 1000),
        Expiry::At(unix) => u64::try_from(unix).ok().map(|unix| unix.saturating_mul(1000)).filter(|&at| at > now_ms),
    }
}

/// Whole seconds left, a part of one counted as one; `None` if it never expires.
pub(super) fn ttl_seconds(attributes: Attributes, now_ms: u64) -> Option<u64> {
    (attributes.expires_at != 0).then(|| attributes.expires_at.saturating_sub(now_ms).div_ceil(1000))
}

pub(super) fn was_fetched(attributes: Attributes) -> bool {
    attributes.encoding & FETCHED != 0
}

/// Remembers that an item with these attributes has been fetched.
pub(super) fn fetched<S: Store>(item: &mut Item<'_, '_, S>, attributes: Attributes) {
    if !was_fetched(attributes) {
        item.mark(attributes.encoding | FETCHED);
    }
}

/// Gives an item that is there another time to expire at.
pub(super) fn expire<S: Store>(item: &mut Item<'_, '_, S>, expiry: Expiry, now_ms: u64) -> Result<(), OutOfMemory> {
    match expires_at(expiry, now_ms) {
        Some(at) => item.set_expiry(at).map(|_| ()),
        None => {
            item.remove();
            Ok(())
        }
    }
}
