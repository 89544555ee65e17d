//! Sets: sorted integers, a sequence, or a table.
//!
//! ```text
//! packed   = integers or sequence
//! integers = width u8 (2, 4 or 8), integers of so many bytes in ascending order
//! sequence = 1 u8, entry*
//! entry    = length u8, bytes
//! ```
//!
//! A set is packed while it has at most [`INTEGERS_MAX`] integers, which Redis has by default and shows as an encoding, or
//! at most [`PACKED_LEN_MAX`] members that are not longer than [`MEMBER_BYTES_MAX`], one of which is no integer.

mod ints;

use std::{borrow::Cow, slice};

use super::{
    Collection, Kind, Object, Text,
    dense::{Dense, Keyed},
    entries::{self, Entries, MEMBER_BYTES_MAX, PACKED_LEN_MAX},
    member::Member,
    parse_integer,
};

/// Limit of the integers of a packed set, if it has no other members.
pub const INTEGERS_MAX: usize = 512;
/// First byte of a table in a snapshot.
const TABLE: u8 = 0;
/// First byte of a packed sequence; sets of integers begin with their width.
const SEQUENCE: u8 = 1;

impl Keyed for Member {
    fn key(&self) -> &[u8] {
        self
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

/// Table of a large set.
#[derive(Clone, Debug, Default)]
pub struct SetTable(Dense<Member>);

/// A set that can change.
///
/// A set that has had another member than integers stays a sequence or a table, and a table stays one, as in Redis.
#[derive(Clone, Debug)]
pub enum Set {
    Packed(Vec<u8>),
    Table(Box<SetTable>),
}

/// A set that is only read.
#[derive(Clone, Copy, Debug)]
pub enum SetView<'a> {
    Packed(&'a [u8]),
    Table(&'a SetTable),
}

impl Default for Set {
    fn default() -> Self {
        Self::Packed(ints::empty())
    }
}

impl SetTable {
    fn insert(&mut self, member: &[u8]) -> bool {
        let is_new = self.0.find(member).is_none();
        if is_new {
            self.0.push(Member::new(member));
        }
        is_new
    }
}

impl Set {
    /// Adds a member. False if it was there.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        let Self::Packed(bytes) = self else { return self.table().insert(member) };
        let is_integers = is_integers(bytes);
        if is_integers && let Some(value) = parse_integer(member) {
            if ints::len(bytes) < INTEGERS_MAX {
                return ints::insert(bytes, value);
            }
            return ints::find(bytes, value).is_err() && self.table().insert(member);
        }
        let view = SetView::Packed(bytes);
        if !is_integers && view.contains(member) {
            return false;
        }
        if view.len() >= PACKED_LEN_MAX || member.len() > MEMBER_BYTES_MAX {
            return self.table().insert(member);
        }
        if is_integers {
            *bytes = sequence(view);
        }
        let end = bytes.len();
        entries::insert(bytes, end, member, &[]);
        true
    }

    /// Returns the table; makes one if there is none.
    fn table(&mut self) -> &mut SetTable {
        if let Self::Packed(bytes) = self {
            let mut table = Box::<SetTable>::default();
            SetView::Packed(bytes).iter().for_each(|member| table.0.push(member.with_bytes(Member::new)));
            *self = Self::Table(table);
        }
        match self {
            Self::Table(table) => table,
            Self::Packed(_) => unreachable!("a table has just been made"),
        }
    }

    /// Removes a member. False if it was not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self {
            Self::Packed(bytes) if is_integers(bytes) => {
                parse_integer(member).is_some_and(|value| ints::remove(bytes, value))
            }
            Self::Packed(bytes) => {
                let found = sequence_entries(bytes).find(|entry| entry.member == member);
                found.map(|entry| entry.range).map(|range| drop(bytes.drain(range))).is_some()
            }
            Self::Table(table) => table.0.find(member).map(|position| table.0.swap_remove(position)).is_some(),
        }
    }
}

impl Collection for Set {
    const KIND: Kind = Kind::Set;

    type View<'a> = SetView<'a>;

    fn view_packed(packed: &[u8]) -> SetView<'_> {
        SetView::Packed(packed)
    }

    fn view(&self) -> SetView<'_> {
        match self {
            Self::Packed(packed) => SetView::Packed(packed),
            Self::Table(table) => SetView::Table(table),
        }
    }

    fn unpack(packed: &[u8]) -> Self {
        Self::Packed(packed.to_vec())
    }

    fn pack(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Packed(packed) => Some(Cow::Borrowed(packed)),
            Self::Table(_) => None,
        }
    }

    fn write(&self, packed: &mut Vec<u8>) {
        match self {
            Self::Packed(whole) => packed.extend_from_slice(whole),
            Self::Table(_) => {
                packed.push(TABLE);
                self.view().iter().for_each(|member| member.pack(packed));
            }
        }
    }

    fn parse(packed: &[u8], is_object: bool) -> Option<Self> {
        if !is_object {
            return is_packed(packed).then(|| Self::unpack(packed));
        }
        let mut rest = packed.strip_prefix(&[TABLE])?;
        let mut table = Box::<SetTable>::default();
        while !rest.is_empty() {
            if !Text::parse(&mut rest)?.with_bytes(|member| table.insert(member)) {
                return None;
            }
        }
        Some(Self::Table(table))
    }

    fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Packed(packed) => packed.capacity(),
                Self::Table(table) => size_of::<SetTable>() + table.0.bytes(),
            }
    }

    fn encoding_name(view: SetView<'_>) -> &'static str {
        if view.is_integers() { "intset" } else { "hashtable" }
    }

    fn into_object(self) -> Object {
        Object::Set(Box::new(self))
    }

    fn of_object(object: &Object) -> Option<&Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }

    fn of_object_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Set(set) = object { Some(set) } else { None }
    }
}

/// True if the bytes are a packed set in every respect.
fn is_packed(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(&width) if ints::is_width(width) => {
            (bytes.len() - 1).is_multiple_of(width.into())
                && ints::len(bytes) <= INTEGERS_MAX
                && ints::iter(bytes).is_sorted_by(|a, b| a < b)
        }
        Some(&SEQUENCE) => {
            let end = sequence_entries(bytes).last().map_or(1, |entry| entry.range.end);
            let mut members: Vec<&[u8]> = sequence_entries(bytes).map(|entry| entry.member).collect();
            members.sort_unstable();
            end == bytes.len()
                && members.len() <= PACKED_LEN_MAX
                && members.iter().all(|member| member.len() <= MEMBER_BYTES_MAX)
                && members.is_sorted_by(|a, b| a < b)
        }
        _ => false,
    }
}

fn is_integers(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|&first| ints::is_width(first))
}

fn sequence_entries(bytes: &[u8]) -> Entries<'_, 0> {
    Entries::new(bytes, 1)
}

/// Makes a sequence of a set of few integers.
fn sequence(view: SetView<'_>) -> Vec<u8> {
    let mut bytes = vec![SEQUENCE];
    for member in view.iter() {
        let end = bytes.len();
        member.with_bytes(|member| entries::insert(&mut bytes, end, member, &[]));
    }
    bytes
}

impl<'a> SetView<'a> {
    /// True if the set has never had another member than integers, and few of them.
    pub fn is_integers(self) -> bool {
        match self {
            Self::Packed(bytes) => is_integers(bytes),
            Self::Table(_) => false,
        }
    }

    pub fn len(self) -> usize {
        match self {
            Self::Packed(bytes) if is_integers(bytes) => ints::len(bytes),
            Self::Packed(bytes) => sequence_entries(bytes).count(),
            Self::Table(table) => table.0.entries().len(),
        }
    }

    pub fn is_empty(self) -> bool {
        match self {
            Self::Packed(bytes) => bytes.len() <= 1,
            Self::Table(table) => table.0.entries().is_empty(),
        }
    }

    pub fn contains(self, member: &[u8]) -> bool {
        match self {
            Self::Packed(bytes) if is_integers(bytes) => {
                parse_integer(member).is_some_and(|value| ints::find(bytes, value).is_ok())
            }
            Self::Packed(bytes) => sequence_entries(bytes).any(|entry| entry.member == member),
            Self::Table(table) => table.0.find(member).is_some(),
        }
    }

    /// Returns the member at a position below [`SetView::len`], for a random one; `None` beyond.
    pub fn nth(self, position: usize) -> Option<Text<'a>> {
        match self {
            Self::Packed(bytes) if is_integers(bytes) => {
                (position < ints::len(bytes)).then(|| Text::Integer(ints::nth(bytes, position)))
            }
            Self::Packed(_) => self.iter().nth(position),
            Self::Table(table) => table.0.entries().get(position).map(|member| Text::Bytes(member)),
        }
    }

    pub fn iter(self) -> SetIter<'a> {
        match self {
            Self::Packed(bytes) if is_integers(bytes) => SetIter(Iter::Integers { bytes, next: 0 }),
            Self::Packed(bytes) => SetIter(Iter::Sequence(sequence_entries(bytes))),
            Self::Table(table) => SetIter(Iter::Table(table.0.entries().iter())),
        }
    }

    /// Visits some members and returns the next cursor; 0 begins and ends. A packed set is visited at once, of a table
    /// `count` members. Whatever is in the set from the first call to the last is visited at least once.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(Text<'_>)) -> u64 {
        match self {
            Self::Packed(_) => {
                self.iter().for_each(visit);
                0
            }
            Self::Table(table) => table.0.scan(cursor, count, |member| visit(Text::Bytes(member))),
        }
    }
}

/// Iterator over the members of a set.
#[derive(Clone, Debug)]
pub struct SetIter<'a>(Iter<'a>);

#[derive(Clone, Debug)]
enum Iter<'a> {
    Integers { bytes: &'a [u8], next: usize },
    Sequence(Entries<'a, 0>),
    Table(slice::Iter<'a, Member>),
}

impl<'a> Iterator for SetIter<'a> {
    type Item = Text<'a>;

    fn next(&mut self) -> Option<Text<'a>> {
        match &mut self.0 {
            Iter::Integers { bytes, next } => {
                let member = SetView::Packed(bytes).nth(*next)?;
                *next += 1;
                Some(member)
            }
            Iter::Sequence(entries) => entries.next().map(|entry| Text::Bytes(entry.member)),
            Iter::Table(members) => members.next().map(|member| Text::Bytes(member)),
        }
    }
}

#[cfg(test)]
mod tests;
