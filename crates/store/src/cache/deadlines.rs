//! Times at which fields of hashes expire: their memory is to come back without anybody asking for them.

use std::collections::{BTreeMap, HashMap};

use super::{Cache, Moment};
use crate::{
    Store,
    collections::{Collection, Hash},
};

/// Most hashes that are looked at in one step.
const STEP_HASHES: usize = 16;

/// One time for each key with such fields: when the first of them expires, or earlier.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Keys by time and hash.
    keys: BTreeMap<(u64, u64), Box<[u8]>>,
    /// Times by hash.
    times: HashMap<u64, u64>,
}

impl Deadlines {
    /// Notes a time, in milliseconds since the Unix epoch, unless there is an earlier one.
    fn note(&mut self, hash: u64, key: &[u8], at: u64) {
        match self.times.insert(hash, at) {
            Some(before) if before <= at => drop(self.times.insert(hash, before)),
            before => {
                before.and_then(|before| self.keys.remove(&(before, hash)));
                self.keys.insert((at, hash), key.into());
            }
        }
    }

    /// Takes out a key whose time has come.
    fn take_due(&mut self, now: Moment) -> Option<(u64, Box<[u8]>)> {
        let first = self.keys.first_entry().filter(|first| first.key().0 <= now.unix_ms)?;
        let hash = first.key().1;
        self.times.remove(&hash);
        Some((hash, first.remove()))
    }
}

impl<S: Store> Cache<S> {
    /// Notes that a field of the hash under a key expires at a time, in milliseconds since the Unix epoch.
    pub fn note_field_expiry(&mut self, hash: u64, key: &[u8], at: u64) {
        self.deadlines.note(hash, key, at);
    }

    /// Notes when the first field of a hash expires that has been stored as a whole.
    pub(super) fn note_field_expiries(&mut self, hash: u64, key: &[u8]) {
        let found = self.store.find(hash, key).and_then(|location| self.collection::<Hash>(location).ok());
        if let Some(at) = found.and_then(|view| view.next_expiry()) {
            self.deadlines.note(hash, key, at);
        }
    }

    /// Removes fields that have expired from some hashes. True: there are no more.
    pub(super) fn expire_fields(&mut self, now: Moment) -> bool {
        for _ in 0..STEP_HASHES {
            let Some((hash, key)) = self.deadlines.take_due(now) else { return true };
            let purge = |it: &mut Hash| {
                let has_purged = it.purge(now.unix_ms) > 0;
                (has_purged, (has_purged, it.view().next_expiry()))
            };
            // A key that is gone, or of another type by now, needs nothing.
            let Ok((has_purged, next)) = self.change_collection(hash, &key, 0, now, purge) else { continue };
            if let Some(next) = next {
                self.deadlines.note(hash, &key, next);
            }
            if has_purged && let Some(observer) = &self.watched.observer {
                observer.fields_expired(&key, self.store.find(hash, &key).is_none());
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyHasher, PolicyKind, StdStore, StoreOptions, collections::FieldExpiry};

    #[test]
    fn fields_expire_without_being_read_and_the_last_takes_the_key_along() {
        let options = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| (), release: |_| () };
        let mut cache = Cache::<StdStore>::new(options, PolicyKind::NoEviction, None, 1);
        let now = Moment { unix_ms: 1 };
        for number in 0..100_u32 {
            let key = number.to_be_bytes();
            let hash = cache.store().hash(&key);
            let set = |it: &mut Hash| {
                let ends = [(&b"a"[..], 1000), (b"b", 2000), (b"c", if number < 50 { 3000 } else { 0 })];
                ends.iter().for_each(|&(name, at)| assert!(it.set(name, b"1", FieldExpiry::At(at))));
                (true, ())
            };
            cache.change_collection(hash, &key, 100, now, set).unwrap();
            // The later time first: the earlier one counts.
            [2000, 1000, 3000].into_iter().for_each(|at| cache.note_field_expiry(hash, &key, at));
            let copy = cache.copy_entry(hash, &key, now).unwrap();
            let other = (number + 100).to_be_bytes();
            let hash = cache.store().hash(&other);
            cache.put_entry(hash, &other, copy, now).unwrap();
        }
        for (at, fields, keys) in [(999, 3, 200), (1000, 2, 200), (2500, 1, 200), (3000, 1, 100)] {
            while !cache.expire_some(Moment { unix_ms: at }) {}
            assert_eq!(cache.len(), keys, "at {at}");
            let location = cache.store().sample(5).unwrap();
            assert_eq!(cache.collection::<Hash>(location).unwrap().stored_len(), fields, "at {at}");
        }
        assert!(cache.deadlines.keys.is_empty() && cache.deadlines.times.is_empty());
    }
}
