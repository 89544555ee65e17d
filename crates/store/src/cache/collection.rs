//! Entries that hold collections: packed into the value, or beside the store as objects.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{Cache, Moment, OutOfMemory, Size};
use crate::{
    Attributes, EntryView, Store,
    collections::{ChangeError, Collection, Kind, OBJECT, Object, WrongType, object_number},
};

/// Value and attributes of an entry, and its object if it has one: to be put back, or under another key.
#[derive(Clone, Debug)]
pub struct EntryCopy {
    value: SmallVec<[u8; 32]>,
    pub attributes: Attributes,
    object: Option<Object>,
}

impl EntryCopy {
    /// Returns the memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.value.len() + self.object.as_ref().map_or(0, Object::bytes)
    }
}

impl<S: Store> Cache<S> {
    /// Returns the location of an entry, without counting or noting a use.
    pub fn locate(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<S::Location> {
        self.find(hash, key, now)
    }

    /// Returns the collection of an entry.
    pub fn collection<C: Collection>(&self, location: S::Location) -> Result<C::View<'_>, WrongType> {
        let view = self.store.view(location);
        if Kind::of(view.attributes.encoding) != Some(C::KIND) {
            return Err(WrongType);
        }
        match object_number(view) {
            None => Ok(C::view_packed(view.value)),
            Some(_) => self.objects.get(view).and_then(C::of_object).map(C::view).ok_or(WrongType),
        }
    }

    /// Changes the collection under a key, or a new one if there is none. `change` returns true if it has changed it, and a
    /// result. An error means that nothing has been changed. An empty collection is removed.
    ///
    /// `growth` is about the number of bytes that may be added; 0 means none, and then memory cannot run out.
    pub fn change_collection<C: Collection, R>(
        &mut self,
        hash: u64,
        key: &[u8],
        growth: usize,
        now: Moment,
        change: impl FnOnce(&mut C) -> (bool, R),
    ) -> Result<R, ChangeError> {
        if let Some(location) = self.find(hash, key, now)
            && Kind::of(self.store.view(location).attributes.encoding) != Some(C::KIND)
        {
            return Err(ChangeError::WrongType);
        }
        if growth > 0 {
            self.make_room_beside(Size::default(), growth, now)?;
        }
        // Making room may have evicted it.
        let Some(location) = self.store.find(hash, key) else {
            let mut collection = C::default();
            let (has_changed, result) = change(&mut collection);
            if has_changed && !collection.is_empty() {
                self.store_collection(hash, key, collection, Attributes::default(), growth, now)?;
            }
            return Ok(result);
        };
        if let Some(number) = object_number(self.store.view(location)) {
            let before = self.bytes();
            let result = self.change_object((hash, key), location, number, now, change);
            if growth > 0 {
                self.evict_excess(before, now);
            }
            return result;
        }
        let EntryView { value, attributes, .. } = self.store.view(location);
        let mut collection = C::unpack(value);
        let (has_changed, result) = change(&mut collection);
        if has_changed && collection.is_empty() {
            self.remove_entry(hash, location);
            self.note_change(hash, key);
        } else if has_changed {
            self.store_collection(hash, key, collection, Attributes { version: 0, ..attributes }, growth, now)?;
        }
        Ok(result)
    }

    /// Gives a key this collection, which is not empty, in the place of whatever it has. The new value has no time of expiry.
    /// An error means that nothing has been changed.
    pub fn replace_collection<C: Collection>(
        &mut self,
        hash: u64,
        key: &[u8],
        collection: C,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        // An entry that has expired is not one that is replaced.
        self.find(hash, key, now);
        let growth = collection.bytes().max(1);
        self.store_collection(hash, key, collection, Attributes::default(), growth, now)
    }

    fn change_object<C: Collection, R>(
        &mut self,
        (hash, key): (u64, &[u8]),
        location: S::Location,
        number: usize,
        now: Moment,
        change: impl FnOnce(&mut C) -> (bool, R),
    ) -> Result<R, ChangeError> {
        let changed = self.objects.change(number, |collection: &mut C| (change(collection), collection.is_empty()));
        self.note_objects();
        let Some(((has_changed, result), is_empty)) = changed else { return Err(ChangeError::WrongType) };
        if is_empty {
            self.remove_entry(hash, location);
        } else if has_changed {
            self.touch_location(location, now);
        }
        if has_changed {
            self.note_change(hash, key);
        }
        Ok(result)
    }

    /// Evicts what an object has grown beyond what was foreseen: its table may have doubled. A limit that has been lowered is
    /// approached in other ways.
    fn evict_excess(&mut self, before: usize, now: Moment) {
        let goal = before.max(self.limit.saturating_add(self.allowance));
        while self.bytes() > goal && self.evict(now) {}
    }

    /// Gives a key a collection, which is not empty.
    fn store_collection<C: Collection>(
        &mut self,
        hash: u64,
        key: &[u8],
        collection: C,
        attributes: Attributes,
        growth: usize,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        let Some(packed) = collection.pack() else {
            return self.store_object(hash, key, collection.into_object(), attributes, growth, now);
        };
        let attributes = Attributes { encoding: C::KIND as u8, ..attributes };
        let size = Size { key_len: key.len(), value_len: packed.len(), attributes };
        let made = self.make_room(hash, key, size, now);
        if growth > 0 || !self.is_addressable(size) {
            made?;
        }
        let location = self.store.find(hash, key);
        self.write(location, hash, key, &packed, attributes, now);
        Ok(())
    }

    fn store_object(
        &mut self,
        hash: u64,
        key: &[u8],
        object: Object,
        attributes: Attributes,
        growth: usize,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        let size = Size { key_len: key.len(), value_len: size_of::<u32>(), attributes };
        let made = self.make_room_beside(size, object.bytes(), now);
        if growth > 0 || !self.is_addressable(size) {
            made?;
        }
        let (encoding, number) = self.objects.add(object);
        self.note_objects();
        let location = self.store.find(hash, key);
        self.write(location, hash, key, &number, Attributes { encoding, ..attributes }, now);
        Ok(())
    }

    /// Evicts entries until one of this size fits and objects may grow by `growth` bytes.
    fn make_room_beside(&mut self, size: Size, growth: usize, now: Moment) -> Result<(), OutOfMemory> {
        let bytes = self.bytes_with(size).saturating_add(growth);
        if (self.limit == usize::MAX || bytes <= self.limit) && self.has_room(size) {
            return Ok(());
        }
        match growth > self.limit {
            true => Err(OutOfMemory),
            false => self.evict_until(size, growth, now),
        }
        .or_else(|error| {
            let bytes = self.bytes_with(size).saturating_add(growth);
            let is_allowed = self.allowance > 0 && bytes <= self.limit.saturating_add(self.allowance);
            if is_allowed && self.is_addressable(size) { Ok(()) } else { Err(error) }
        })
    }

    // --- the ends of objects --------------------------------------------------------------

    /// Removes an entry, and its object.
    #[inline]
    pub(super) fn remove_entry(&mut self, hash: u64, location: S::Location) {
        if !self.objects.is_empty() {
            self.free_object(location);
        }
        self.store.remove(hash, location);
    }

    /// Frees the object of an entry, if it has one: the entry is about to be removed or overwritten.
    #[cold]
    pub(super) fn free_object(&mut self, location: S::Location) {
        drop(self.take_object(location));
    }

    fn take_object(&mut self, location: S::Location) -> Option<Object> {
        let object = self.objects.take(object_number(self.store.view(location))?);
        self.note_objects();
        object
    }

    /// Notes that there are more or fewer objects, or larger ones, or another limit.
    pub(super) fn note_objects(&mut self) {
        self.is_observed = !self.watched.is_empty() || !self.objects.is_empty();
        self.entries_limit = match self.limit {
            usize::MAX => usize::MAX,
            limit => limit.saturating_sub(self.objects.bytes()),
        };
    }

    // --- whole entries --------------------------------------------------------------------

    /// Returns a copy of an entry, its object included. Not a use of the entry.
    pub fn copy_entry(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryCopy> {
        let location = self.find(hash, key, now)?;
        let view = self.store.view(location);
        Some(EntryCopy {
            value: SmallVec::from_slice(view.value),
            attributes: view.attributes,
            object: self.objects.get(view).cloned(),
        })
    }

    /// Removes an entry and returns it; its object is moved.
    pub fn take_entry(&mut self, hash: u64, key: &[u8], now: Moment) -> Option<EntryCopy> {
        let location = self.find(hash, key, now)?;
        let object = self.take_object(location);
        let view = self.store.view(location);
        let entry = EntryCopy { value: SmallVec::from_slice(view.value), attributes: view.attributes, object };
        self.store.remove(hash, location);
        self.note_change(hash, key);
        Some(entry)
    }

    /// Gives a key the value, the attributes and the object of another entry.
    pub fn put_entry(&mut self, hash: u64, key: &[u8], entry: EntryCopy, now: Moment) -> Result<(), OutOfMemory> {
        match entry.object {
            Some(object) => self.store_object(hash, key, object, entry.attributes, usize::MAX, now)?,
            None => self.set(hash, key, &entry.value, entry.attributes, now)?,
        }
        if Kind::of(entry.attributes.encoding) == Some(Kind::Hash) {
            self.note_field_expiries(hash, key);
        }
        Ok(())
    }

    /// Returns the bytes of an entry's object, or 0 if it has none.
    pub fn object_bytes(&mut self, hash: u64, key: &[u8], now: Moment) -> usize {
        let Some(location) = self.find(hash, key, now) else { return 0 };
        self.objects.get(self.store.view(location)).map_or(0, Object::bytes)
    }

    /// Returns Redis's name of the encoding of an entry's collection; `None`: it holds a string.
    pub fn encoding_name(&self, location: S::Location) -> Option<&'static str> {
        let view = self.store.view(location);
        let kind = Kind::of(view.attributes.encoding)?;
        let object = self.objects.get(view);
        Some(object.map_or_else(|| kind.packed_encoding_name(view.value), Object::encoding_name))
    }

    // --- snapshots ------------------------------------------------------------------------

    /// Returns the value of an entry in a form that means something without this cache.
    pub fn portable_value<'a>(&'a self, view: EntryView<'a>) -> Cow<'a, [u8]> {
        match self.objects.get(view) {
            None => Cow::Borrowed(view.value),
            Some(object) => {
                let mut packed = Vec::new();
                object.write(&mut packed);
                Cow::Owned(packed)
            }
        }
    }

    /// [`Cache::set`] with what [`Cache::portable_value`] has returned, and [`is_portable`] has been asked about.
    pub fn set_portable(
        &mut self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        attributes: Attributes,
        now: Moment,
    ) -> Result<(), OutOfMemory> {
        let kind = Kind::of(attributes.encoding).filter(|_| attributes.encoding & OBJECT != 0);
        match kind.and_then(|kind| kind.parse_object(value)) {
            Some(object) => self.store_object(hash, key, object, attributes, usize::MAX, now)?,
            None => self.set(hash, key, value, attributes, now)?,
        }
        if Kind::of(attributes.encoding) == Some(Kind::Hash) {
            self.note_field_expiries(hash, key);
        }
        Ok(())
    }
}

/// True if [`Cache::portable_value`] may have returned this value for an entry of this encoding.
pub fn is_portable(value: &[u8], encoding: u8) -> bool {
    match Kind::of(encoding) {
        Some(kind) if encoding & OBJECT != 0 => kind.parse_object(value).is_some(),
        Some(kind) => kind.is_packed(value),
        None => !Kind::is_reserved(encoding),
    }
}

#[cfg(test)]
mod tests;
