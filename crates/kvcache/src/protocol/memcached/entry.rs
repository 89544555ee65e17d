//! Attributes of a memcached item in those of an entry: [`Attributes`] hold the expiry and the client's flags as they are,
//! a bit of the encoding says that the item has been fetched, and the version holds its unique number and two marks.
//!
//! A unique number is assigned when a client asks for it, so that other entries cost nothing. Every write
//! removes the number: a client that asks afterwards gets a new one, and a client that has the old one finds it outdated.

use store::{Attributes, OutOfMemory, Store};
use wire::memcached::Expiry;

use crate::{codec::FETCHED, state::Item};

/// Mark of a stale item: `md` has invalidated it, or it was set with an outdated unique number.
pub(super) const STALE: u64 = 1 << 63;
/// Mark of an item that a client has been told to renew.
pub(super) const CLAIMED: u64 = 1 << 62;

/// Returns the time of expiry in milliseconds since the Unix epoch, 0 for never, or `None` if it is in the past.
pub(super) fn expires_at(expiry: Expiry, now_ms: u64) -> Option<u64> {
    match expiry {
        Expiry::Never => Some(0),
        Expiry::Immediately => None,
        Expiry::In(seconds) => Some(now_ms + u64::from(seconds) * 1000),
        Expiry::At(unix) => u64::try_from(unix).ok().map(|unix| unix.saturating_mul(1000)).filter(|&at| at > now_ms),
    }
}

/// Returns the seconds left, rounded up, or `None` if the item never expires.
pub(super) fn ttl_seconds(attributes: Attributes, now_ms: u64) -> Option<u64> {
    (attributes.expires_at != 0).then(|| attributes.expires_at.saturating_sub(now_ms).div_ceil(1000))
}

pub(super) fn is_fetched(attributes: Attributes) -> bool {
    attributes.encoding & FETCHED != 0
}

/// Marks an item with these attributes as fetched.
pub(super) fn mark_fetched<S: Store>(item: &mut Item<'_, '_, S>, attributes: Attributes) {
    if !is_fetched(attributes) {
        item.set_encoding(attributes.encoding | FETCHED);
    }
}

/// Changes when an existing item expires.
pub(super) fn set_expiry<S: Store>(item: &mut Item<'_, '_, S>, expiry: Expiry, now_ms: u64) -> Result<(), OutOfMemory> {
    match expires_at(expiry, now_ms) {
        Some(at) => item.set_expiry(at).map(|_| ()),
        None => {
            item.remove();
            Ok(())
        }
    }
}
