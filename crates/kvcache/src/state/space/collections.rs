//! The commands' view of collections, and of entries as wholes.
//!
//! A command that reads a collection asks for its view with [`Item::into_collection`], one that changes it hands a function to
//! [`Item::change`]. Both refuse a key of another kind, and neither knows whether the collection is packed into the entry
//! or an object beside it: see [`store::collections`].

use store::{
    Cache, EntryCopy, OutOfMemory, Store,
    collections::{ChangeError, Collection, Kind, WrongType},
};

use super::Item;

impl<'a, S: Store> Item<'a, '_, S> {
    /// Returns the kind of the key's collection; `None`: there is a string, or nothing.
    pub(crate) fn kind(&mut self) -> Option<Kind> {
        self.attributes().and_then(|attributes| Kind::of(attributes.encoding))
    }

    /// Returns the collection, for a client that reads it: counted as a hit or a miss, and as a use.
    pub(crate) fn into_collection<C: Collection>(self) -> Result<Option<C::View<'a>>, WrongType> {
        let Self { cache, hash, key, is_no_touch, now, .. } = self;
        let location = match is_no_touch {
            true => cache.count_entry(S::Hint::default(), hash, &key, now),
            false => cache.use_entry(S::Hint::default(), hash, &key, now),
        };
        let cache: &'a Cache<S> = cache;
        location.map(|location| cache.collection::<C>(location)).transpose()
    }

    /// Returns the collection, for a command that changes it; not counted.
    pub(crate) fn peek_collection<C: Collection>(&mut self) -> Result<Option<C::View<'_>>, WrongType> {
        let location = self.cache.locate(self.hash, &self.key, self.now);
        location.map(|location| self.cache.collection::<C>(location)).transpose()
    }

    /// Changes the collection, or a new one if there is none. `change` returns true if it has changed it, and a result. An
    /// error means that nothing has been changed; an empty collection is removed.
    ///
    /// `growth` is about the number of bytes that may be added, such as the length of the arguments and some bytes for each
    /// part. 0 means that nothing is added, and then memory cannot run out.
    pub(crate) fn change<C: Collection, R>(
        &mut self,
        growth: usize,
        change: impl FnOnce(&mut C) -> (bool, R),
    ) -> Result<R, ChangeError> {
        self.cache.change_collection(self.hash, &self.key, growth, self.now, change)
    }

    /// Notes that a field of the key's hash expires at a time, in milliseconds since the Unix epoch.
    pub(crate) fn note_field_expiry(&mut self, at: u64) {
        self.cache.note_field_expiry(self.hash, &self.key, at);
    }

    /// Gives the key this collection in the place of whatever it has; an empty one removes the key. The new value has no
    /// time of expiry.
    pub(crate) fn replace<C: Collection>(&mut self, collection: C) -> Result<(), ChangeError> {
        if collection.is_empty() {
            self.remove();
            return Ok(());
        }
        Ok(self.cache.replace_collection(self.hash, &self.key, collection, self.now)?)
    }

    /// Returns Redis's name of the encoding of a collection; `None`: there is a string, or nothing.
    pub(crate) fn encoding_name(&mut self) -> Option<&'static str> {
        let location = self.cache.locate(self.hash, &self.key, self.now)?;
        self.cache.encoding_name(location)
    }

    /// Returns a copy of the entry.
    pub(crate) fn copy(&mut self) -> Option<EntryCopy> {
        self.cache.copy_entry(self.hash, &self.key, self.now)
    }

    /// Removes the entry, and returns it.
    pub(crate) fn take(&mut self) -> Option<EntryCopy> {
        self.cache.take_entry(self.hash, &self.key, self.now)
    }

    /// Gives the key the entry of another one. It has no version: a memcached client that knows one must find it outdated.
    pub(crate) fn put(&mut self, mut entry: EntryCopy) -> Result<(), OutOfMemory> {
        entry.attributes.version = 0;
        self.cache.put_entry(self.hash, &self.key, entry, self.now)
    }

    /// [`Item::put`] of an entry that has just been taken, for which there is memory.
    pub(crate) fn put_moved(&mut self, entry: EntryCopy) {
        self.cache.set_allowance(entry.bytes().saturating_mul(2).saturating_add(super::PAGES_BYTES));
        // The allowance has room for it.
        let _ = self.put(entry);
        self.cache.set_allowance(0);
    }
}
