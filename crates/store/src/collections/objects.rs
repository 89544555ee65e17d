//! The objects of a cache.

use slab::Slab;

use super::{Collection, OBJECT, Object};
use crate::EntryView;

/// Objects by number. The value of an entry with the bit [`OBJECT`] and a kind in its encoding is such a number.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    slab: Slab<Object>,
    /// Bytes of all objects.
    held: usize,
}

/// Value of an entry that stands for an object.
pub(crate) type ObjectNumber = [u8; 4];

impl Objects {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.held + self.slab.capacity() * size_of::<Object>()
    }

    /// Adds an object, and returns the encoding and the value of the entry that stands for it.
    pub(crate) fn add(&mut self, object: Object) -> (u8, ObjectNumber) {
        let encoding = object.kind() as u8 | OBJECT;
        self.held += object.bytes();
        let number = u32::try_from(self.slab.insert(object)).expect("there are fewer objects than entries");
        (encoding, number.to_ne_bytes())
    }

    /// Returns the object that an entry stands for, if it does.
    pub(crate) fn get(&self, entry: EntryView<'_>) -> Option<&Object> {
        self.slab.get(number(entry)?)
    }

    /// Takes out the object that an entry stands for, if it does.
    pub(crate) fn take(&mut self, number: usize) -> Option<Object> {
        let object = self.slab.try_remove(number)?;
        self.held -= object.bytes();
        if self.slab.is_empty() {
            self.slab = Slab::new();
        }
        Some(object)
    }

    /// Changes an object. `None`: there is none of this number and kind.
    pub(crate) fn change<C: Collection, R>(&mut self, number: usize, change: impl FnOnce(&mut C) -> R) -> Option<R> {
        let collection = C::of_object_mut(self.slab.get_mut(number)?)?;
        let before = collection.bytes();
        let result = change(collection);
        self.held = self.held - before + collection.bytes();
        Some(result)
    }
}

/// Returns the number of the object that an entry stands for.
pub(crate) fn number(entry: EntryView<'_>) -> Option<usize> {
    let is_object = entry.attributes.encoding & OBJECT != 0 && super::Kind::of(entry.attributes.encoding).is_some();
    let number = entry.value.try_into().ok().filter(|_| is_object);
    number.map(|number| u32::from_ne_bytes(number) as usize)
}
