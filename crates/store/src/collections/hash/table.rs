//! Fields in a table: a list without gaps, from which one can be chosen at random, and an index of their names.

use std::{hash::BuildHasher, ops::Range};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::{super::Text, Field, FieldExpiry};
use crate::slotted::allocated;

/// The fields of a large hash.
#[derive(Clone, Debug, Default)]
pub struct FieldTable {
    fields: Vec<StoredField>,
    /// Positions in `fields`.
    index: HashTable<u32>,
    hasher: RandomState,
    /// Bytes allocated for names and values.
    held: usize,
    /// Number of fields with a time of expiry.
    expiring: usize,
}

#[derive(Clone, Debug)]
struct StoredField {
    /// Name and value.
    text: Box<[u8]>,
    name_len: u32,
    expires_at: u64,
}

impl StoredField {
    fn new(name: &[u8], value: &[u8], expires_at: u64) -> Self {
        let name_len = u32::try_from(name.len()).expect("a request is shorter than 4 GiB");
        Self { text: [name, value].concat().into_boxed_slice(), name_len, expires_at }
    }

    fn name(&self) -> &[u8] {
        &self.text[..self.name_len as usize]
    }

    fn view(&self) -> Field<'_> {
        let (name, value) = self.text.split_at(self.name_len as usize);
        Field { name: Text::Bytes(name), value: Text::Bytes(value), expires_at: self.expires_at }
    }
}

impl FieldTable {
    pub(super) fn new<'f>(fields: impl Iterator<Item = Field<'f>>) -> Self {
        let mut table = Self::default();
        for field in fields {
            table.set(&field.name.to_bytes(), &field.value.to_bytes(), FieldExpiry::At(field.expires_at));
        }
        table
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn has_expiries(&self) -> bool {
        self.expiring > 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.held
            + allocated(self.fields.capacity() * size_of::<StoredField>())
            + allocated(self.index.allocation_size())
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Field<'_>> {
        self.position(name).map(|at| self.fields[at].view())
    }

    /// Returns the fields at these positions.
    pub(super) fn fields(&self, range: Range<usize>) -> impl Iterator<Item = Field<'_>> {
        self.fields.get(range).unwrap_or_default().iter().map(StoredField::view)
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(name);
        self.index.find(hash, |&at| self.fields[at as usize].name() == name).map(|&at| at as usize)
    }

    /// Sets the value of a field. True: the field is new.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8], expiry: FieldExpiry) -> bool {
        let Some(at) = self.position(name) else {
            let expires_at = if let FieldExpiry::At(at) = expiry { at } else { 0 };
            self.add(StoredField::new(name, value, expires_at));
            return true;
        };
        let field = &mut self.fields[at];
        let before = (allocated(field.text.len()), usize::from(field.expires_at != 0));
        if field.text.len() == name.len() + value.len() {
            field.text[name.len()..].copy_from_slice(value);
        } else {
            *field = StoredField::new(name, value, field.expires_at);
        }
        if let FieldExpiry::At(at) = expiry {
            field.expires_at = at;
        }
        self.held = self.held - before.0 + allocated(field.text.len());
        self.expiring = self.expiring - before.1 + usize::from(field.expires_at != 0);
        false
    }

    fn add(&mut self, field: StoredField) {
        self.held += allocated(field.text.len());
        self.expiring += usize::from(field.expires_at != 0);
        let Self { fields, index, hasher, .. } = self;
        let at = u32::try_from(fields.len()).expect("memory for fewer fields");
        index.insert_unique(hasher.hash_one(field.name()), at, |&at| hasher.hash_one(fields[at as usize].name()));
        fields.push(field);
    }

    /// Removes a field; the last one takes its place. False: there was none.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(at) = self.position(name) else { return false };
        let last = self.fields.len() - 1;
        let hash_of_last = self.hasher.hash_one(self.fields[last].name());
        let hash = self.hasher.hash_one(name);
        if let Ok(entry) = self.index.find_entry(hash, |&found| found as usize == at) {
            entry.remove();
        }
        if let Some(moved) = self.index.find_mut(hash_of_last, |&found| found as usize == last) {
            *moved = at as u32;
        }
        let removed = self.fields.swap_remove(at);
        self.held -= allocated(removed.text.len());
        self.expiring -= usize::from(removed.expires_at != 0);
        self.shrink();
        true
    }

    /// Gives memory back once most of it is unused.
    fn shrink(&mut self) {
        let Self { fields, index, hasher, .. } = self;
        if fields.len() < fields.capacity() / 4 {
            fields.shrink_to(fields.len() * 2);
            index.shrink_to(fields.len() * 2, |&at| hasher.hash_one(fields[at as usize].name()));
        }
    }

    /// Sets the time of expiry of a field; 0: never. False: there is no such field.
    pub(super) fn set_expiry(&mut self, name: &[u8], expires_at: u64) -> bool {
        let Some(at) = self.position(name) else { return false };
        let field = &mut self.fields[at];
        self.expiring = self.expiring - usize::from(field.expires_at != 0) + usize::from(expires_at != 0);
        field.expires_at = expires_at;
        true
    }
}
