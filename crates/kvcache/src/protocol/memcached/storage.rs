//! Commands that write.

use std::sync::atomic::{AtomicU64, Ordering};

use proto::Now;
use store::{Attributes, OutOfMemory, Store};
use wire::memcached::{Expiry, KEY_BYTES_MAX, MetaKey, Refusal, StoreMode};

use super::{
    Call,
    entry::{CLAIMED, NUMBER, STALE, expires_at},
};
use crate::state::space::Space;

/// What a client wants to have stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer<'a> {
    pub(super) mode: StoreMode,
    pub(super) flags: u32,
    pub(super) expiry: Expiry,
    pub(super) value: &'a [u8],
    /// Appends and prepends only to an item with this unique number.
    pub(super) cas: Option<u64>,
    /// An outdated number does not refuse the value but makes it stale.
    pub(super) invalidates: bool,
    /// The unique number of the new item is asked for.
    pub(super) wants_number: bool,
}

impl<'a> Offer<'a> {
    pub(super) fn of(value: &'a [u8]) -> Self {
        Self {
            mode: StoreMode::Set,
            flags: 0,
            expiry: Expiry::Never,
            value,
            cas: None,
            invalidates: false,
            wants_number: false,
        }
    }
}

/// What has become of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stored,
    NotStored,
    Exists,
    NotFound,
    TooLarge,
    NoMemory,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stored => "STORED",
            Self::NotStored => "NOT_STORED",
            Self::Exists => "EXISTS",
            Self::NotFound => "NOT_FOUND",
            Self::TooLarge => Refusal::TooLarge.text(),
            Self::NoMemory => "SERVER_ERROR out of memory storing object",
        }
    }
}

impl From<OutOfMemory> for Verdict {
    fn from(_: OutOfMemory) -> Self {
        Self::NoMemory
    }
}

impl<S: Store + 'static> Call<'_, '_, S> {
    /// Stores it, or says why not, and the unique number of the item if that was asked for and there is one.
    pub(super) fn keep(&mut self, key: &[u8], offer: &Offer<'_>) -> (Verdict, u64) {
        let counters = &self.memcached.counters;
        counters.cmd_set.add();
        let old = self.item(key).attributes();
        let (verdict, number) = match self.decide(key, offer, old) {
            Ok(number) => (Verdict::Stored, number),
            Err(verdict) => (verdict, 0),
        };
        match (offer.mode, verdict) {
            (_, Verdict::NoMemory) => counters.store_no_memory.add(),
            (_, Verdict::TooLarge) => counters.store_too_large.add(),
            (StoreMode::Cas(_), Verdict::Stored) => counters.cas_hits.add(),
            (StoreMode::Cas(_), Verdict::Exists) => counters.cas_badval.add(),
            (StoreMode::Cas(_), Verdict::NotFound) => counters.cas_misses.add(),
            (_, Verdict::Stored | Verdict::NotStored | Verdict::Exists | Verdict::NotFound) => {}
        }
        (verdict, number)
    }

    fn decide(&mut self, key: &[u8], offer: &Offer<'_>, old: Option<Attributes>) -> Result<u64, Verdict> {
        let fresh = Attributes { flags: offer.flags, ..Attributes::default() };
        match (offer.mode, old) {
            (StoreMode::Set, _) | (StoreMode::Add, None) | (StoreMode::Replace, Some(_)) => {
                self.write(key, offer.value, fresh, Some(offer.expiry), offer)
            }
            (StoreMode::Add, Some(_)) => {
                self.item(key).touch();
                Err(Verdict::NotStored)
            }
            // The `N` flag of `ms` makes no difference yet in the version that we are.
            (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => Err(Verdict::NotStored),
            (StoreMode::Cas(_), None) => Err(Verdict::NotFound),
            (StoreMode::Cas(cas), Some(old)) => {
                let number = old.version & NUMBER;
                if cas != 0 && cas == number {
                    return self.write(key, offer.value, fresh, Some(offer.expiry), offer);
                }
                // No number has been given out since the last write: any number that has been is older.
                let is_older = cas != 0 && self.memcached.numbers.has_been_given(cas) && (number == 0 || cas < number);
                if !(offer.invalidates && is_older) {
                    return Err(Verdict::Exists);
                }
                let version = STALE | old.version & CLAIMED;
                self.write(key, offer.value, Attributes { version, expires_at: old.expires_at, ..fresh }, None, offer)
            }
            (StoreMode::Append | StoreMode::Prepend, Some(old)) => self.extend(key, offer, old),
        }
    }

    /// Appends or prepends; flags and expiry stay as they are.
    fn extend(&mut self, key: &[u8], offer: &Offer<'_>, old: Attributes) -> Result<u64, Verdict> {
        if offer.cas.is_some_and(|cas| cas != 0 && cas != old.version & NUMBER) {
            return Err(Verdict::Exists);
        }
        let value_bytes_max = self.memcached.limits.value_bytes_max;
        let whole = match self.item(key).peek() {
            None => return Err(Verdict::NotStored),
            Some(value) if value.bytes.len() + offer.value.len() > value_bytes_max => return Err(Verdict::TooLarge),
            Some(value) if offer.mode == StoreMode::Append => [&*value.bytes, offer.value].concat(),
            Some(value) => [offer.value, &*value.bytes].concat(),
        };
        self.write(key, &whole, Attributes { version: 0, ..old }, None, offer)
    }

    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expiry: Option<Expiry>,
        offer: &Offer<'_>,
    ) -> Result<u64, Verdict> {
        let number = if offer.wants_number { self.memcached.numbers.next() } else { 0 };
        let expires_at = match expiry {
            None => Some(attributes.expires_at),
            Some(expiry) => expires_at(expiry, self.now_ms()),
        };
        match expires_at {
            Some(expires_at) => {
                let version = attributes.version | number;
                self.item(key).set_with_version(value, Attributes { expires_at, version, ..attributes })?;
            }
            None => {
                self.item(key).remove();
            }
        }
        Ok(number)
    }

    /// The unique number of the item, given out now if need be; `None`: there is no item.
    pub(super) fn number_of(&mut self, key: &[u8]) -> Result<Option<u64>, OutOfMemory> {
        let memcached = self.memcached;
        let mut item = self.item(key);
        let Some(attributes) = item.attributes() else { return Ok(None) };
        let number = attributes.version & NUMBER;
        if number != 0 {
            return Ok(Some(number));
        }
        let number = memcached.numbers.next();
        item.annotate(Attributes { version: attributes.version | number, ..attributes })?;
        Ok(Some(number))
    }

    pub(super) fn too_large(&mut self, outdated: Option<MetaKey<'_>>, noreply: bool) {
        self.memcached.counters.store_too_large.add();
        if let Some(key) = outdated {
            self.item(key.bytes(&mut [0; KEY_BYTES_MAX])).remove();
        }
        self.say(noreply, Verdict::TooLarge.word());
    }

    pub(super) fn flush_all(&mut self, delay: Expiry, noreply: bool) {
        self.memcached.counters.cmd_flush.add();
        match delay {
            Expiry::Never | Expiry::Immediately => self.keys.each(|cache| cache.clear()),
            Expiry::In(_) | Expiry::At(_) => match expires_at(delay, self.now_ms()) {
                Some(at) => self.memcached.flush.at(at),
                None => self.keys.each(|cache| cache.clear()),
            },
        }
        self.say(noreply, "OK");
    }
}

/// A `flush_all` that is to come.
#[derive(Debug)]
pub(super) struct Flush {
    /// Milliseconds since the Unix epoch; `u64::MAX`: none is.
    at: AtomicU64,
}

impl Default for Flush {
    fn default() -> Self {
        Self { at: AtomicU64::new(u64::MAX) }
    }
}

impl Flush {
    /// The last one that was asked for counts.
    fn at(&self, unix_ms: u64) {
        self.at.store(unix_ms, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_due(&self, now: Now) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        at != u64::MAX && u128::from(at) <= now.unix.as_millis()
    }

    #[cold]
    pub(super) fn run<S: Store>(&self, space: &Space<S>) {
        // Of all threads that see it is due, one does it.
        if self.at.swap(u64::MAX, Ordering::Relaxed) != u64::MAX {
            space.each(|cache| cache.clear());
        }
    }
}
