//! Commands that write.

use store::{Attributes, OutOfMemory, Store};
use wire::memcached::{Expiry, KEY_BYTES_MAX, MetaKey, Refusal, StoreMode};

use super::{
    Call,
    entry::{CLAIMED, STALE, expires_at},
};
use crate::state::UNIQUE_NUMBER;

/// Value that a client wants to store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreRequest<'a> {
    pub(super) mode: StoreMode,
    pub(super) flags: u32,
    pub(super) expiry: Expiry,
    pub(super) value: &'a [u8],
    /// Unique number that an item must have to be appended or prepended to.
    pub(super) cas: Option<u64>,
    /// True if a value with an outdated number is stored as stale instead of refused.
    pub(super) should_invalidate: bool,
    /// True if the new item gets a unique number.
    pub(super) should_number: bool,
}

impl<'a> StoreRequest<'a> {
    pub(super) fn new(value: &'a [u8]) -> Self {
        Self {
            mode: StoreMode::Set,
            flags: 0,
            expiry: Expiry::Never,
            value,
            cas: None,
            should_invalidate: false,
            should_number: false,
        }
    }
}

/// Outcome of a request to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    Stored,
    NotStored,
    Exists,
    NotFound,
    TooLarge,
    NoMemory,
}

impl StoreOutcome {
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

impl From<OutOfMemory> for StoreOutcome {
    fn from(_: OutOfMemory) -> Self {
        Self::NoMemory
    }
}

impl<S: Store + 'static> Call<'_, '_, S> {
    /// Stores a value. Returns the outcome, and the unique number of the item, or 0 if it was not asked for.
    pub(super) fn store(&mut self, key: &[u8], request: &StoreRequest<'_>) -> (StoreOutcome, u64) {
        let counters = &self.memcached.counters;
        counters.cmd_set.add();
        let old = self.item(key).attributes();
        let (outcome, number) = match self.decide(key, request, old) {
            Ok(number) => (StoreOutcome::Stored, number),
            Err(outcome) => (outcome, 0),
        };
        match (request.mode, outcome) {
            (_, StoreOutcome::NoMemory) => counters.store_no_memory.add(),
            (_, StoreOutcome::TooLarge) => counters.store_too_large.add(),
            (StoreMode::Cas(_), StoreOutcome::Stored) => counters.cas_hits.add(),
            (StoreMode::Cas(_), StoreOutcome::Exists) => counters.cas_badval.add(),
            (StoreMode::Cas(_), StoreOutcome::NotFound) => counters.cas_misses.add(),
            (_, StoreOutcome::Stored | StoreOutcome::NotStored | StoreOutcome::Exists | StoreOutcome::NotFound) => {}
        }
        (outcome, number)
    }

    fn decide(&mut self, key: &[u8], request: &StoreRequest<'_>, old: Option<Attributes>) -> Result<u64, StoreOutcome> {
        let fresh = Attributes { flags: request.flags, ..Attributes::default() };
        match (request.mode, old) {
            (StoreMode::Set, _) | (StoreMode::Add, None) | (StoreMode::Replace, Some(_)) => {
                self.write(key, request.value, fresh, Some(request.expiry), request)
            }
            (StoreMode::Add, Some(_)) => {
                self.item(key).touch();
                Err(StoreOutcome::NotStored)
            }
            // In the version of memcached that this follows, the `N` flag of `ms` makes no difference.
            (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => Err(StoreOutcome::NotStored),
            (StoreMode::Cas(_), None) => Err(StoreOutcome::NotFound),
            (StoreMode::Cas(cas), Some(old)) => {
                let number = old.version & UNIQUE_NUMBER;
                if cas != 0 && cas == number {
                    return self.write(key, request.value, fresh, Some(request.expiry), request);
                }
                // No number has been assigned since the last write: any assigned number is older.
                let is_older = cas != 0 && self.memcached.numbers.has_assigned(cas) && (number == 0 || cas < number);
                if !(request.should_invalidate && is_older) {
                    return Err(StoreOutcome::Exists);
                }
                let version = STALE | old.version & CLAIMED;
                self.write(
                    key,
                    request.value,
                    Attributes { version, expires_at: old.expires_at, ..fresh },
                    None,
                    request,
                )
            }
            (StoreMode::Append | StoreMode::Prepend, Some(old)) => self.extend(key, request, old),
        }
    }

    /// Appends or prepends; flags and expiry stay.
    fn extend(&mut self, key: &[u8], request: &StoreRequest<'_>, old: Attributes) -> Result<u64, StoreOutcome> {
        if request.cas.is_some_and(|cas| cas != 0 && cas != old.version & UNIQUE_NUMBER) {
            return Err(StoreOutcome::Exists);
        }
        let limits = self.memcached.limits;
        let whole = match self.item(key).peek().unwrap_or_default() {
            None => return Err(StoreOutcome::NotStored),
            Some(value) if !limits.has_room_for(key.len(), value.bytes.len() + request.value.len()) => {
                return Err(StoreOutcome::TooLarge);
            }
            Some(value) if request.mode == StoreMode::Append => [&*value.bytes, request.value].concat(),
            Some(value) => [request.value, &*value.bytes].concat(),
        };
        self.write(key, &whole, Attributes { version: 0, ..old }, None, request)
    }

    fn write(
        &mut self,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        expiry: Option<Expiry>,
        request: &StoreRequest<'_>,
    ) -> Result<u64, StoreOutcome> {
        let number = if request.should_number { self.memcached.numbers.next() } else { 0 };
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

    /// Returns the unique number of the item, assigned now if it has none. `None` means that there is no item.
    pub(super) fn assign_number(&mut self, key: &[u8]) -> Result<Option<u64>, OutOfMemory> {
        let memcached = self.memcached;
        let mut item = self.item(key);
        let Some(attributes) = item.attributes() else { return Ok(None) };
        let number = attributes.version & UNIQUE_NUMBER;
        if number != 0 {
            return Ok(Some(number));
        }
        let number = memcached.numbers.next();
        item.set_attributes(Attributes { version: attributes.version | number, ..attributes })?;
        Ok(Some(number))
    }

    pub(super) fn too_large(&mut self, outdated: Option<MetaKey<'_>>, noreply: bool) {
        let mut buffer = [0; KEY_BYTES_MAX];
        self.note_too_large(outdated.as_ref().map(|key| key.bytes(&mut buffer)));
        self.write_line(noreply, StoreOutcome::TooLarge.word());
    }

    /// Counts a value that is too large, and removes the item that a client believes it has replaced.
    pub(super) fn note_too_large(&mut self, outdated: Option<&[u8]>) {
        self.memcached.counters.store_too_large.add();
        if let Some(key) = outdated {
            self.item(key).remove();
        }
    }

    /// Empties all databases, now or later.
    pub(super) fn flush(&mut self, delay: Expiry) {
        self.memcached.counters.cmd_flush.add();
        match delay {
            Expiry::Never | Expiry::Immediately => self.keys.clear_by_shard(),
            Expiry::In(_) | Expiry::At(_) => match expires_at(delay, self.now_ms()) {
                Some(at) => self.memcached.flush.schedule(at),
                None => self.keys.clear_by_shard(),
            },
        }
    }
}
