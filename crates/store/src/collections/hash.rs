//! Hashes: fields with values, each field perhaps with a time of expiry of its own.
//!
//! ```text
//! packed = flags u8 (1: fields have times of expiry), number of fields u8, field*
//! field  = name text, value text, time of expiry text if the flag says so (milliseconds since the Unix epoch; 0: never)
//! ```
//!
//! A hash is packed while it has at most [`FIELDS_MAX`] fields and no name or value is longer than [`TEXT_BYTES_MAX`]: the
//! limits that Redis has by default, so that it says what Redis would say of its encoding. Fields keep their order while
//! they are packed, as in Redis.

mod table;

use std::{borrow::Cow, ops::Range};

pub use self::table::FieldTable;
use super::{Collection, Kind, Object, Text};

/// Most fields of a packed hash.
pub const FIELDS_MAX: usize = 128;
/// Longest name or value in a packed hash, in bytes.
pub const TEXT_BYTES_MAX: usize = 64;
/// Bytes in front of the fields.
const HEAD_BYTES: usize = 2;
/// Flag of a packed hash whose fields have times of expiry.
const EXPIRES: u8 = 1;
/// Limit of a hash of any size in its packed form: the number of fields behind the head.
const MANY: u8 = u8::MAX;

/// A hash, packed or as a table.
#[derive(Clone, Debug)]
pub enum Hash {
    Packed(Vec<u8>),
    Table(FieldTable),
}

/// One field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: Text<'a>,
    pub value: Text<'a>,
    /// Time of expiry in milliseconds since the Unix epoch; 0: never.
    pub expires_at: u64,
}

impl Field<'_> {
    /// True if the field has expired, and is as good as gone.
    #[inline]
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at != 0 && self.expires_at <= now_ms
    }
}

/// Time of expiry of a field whose value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// It stays what it was; a new field has none.
    Keep,
    /// Milliseconds since the Unix epoch; 0: never.
    At(u64),
}

/// A hash as commands read it. Fields that have expired are in it until [`Hash::purge`] removes them.
#[derive(Clone, Copy, Debug)]
pub enum HashView<'a> {
    Packed(&'a [u8]),
    Table(&'a FieldTable),
}

impl Default for Hash {
    fn default() -> Self {
        Self::Packed(vec![0; HEAD_BYTES])
    }
}

impl Hash {
    /// Sets the value of a field. True: the field is new.
    pub fn set(&mut self, name: &[u8], value: &[u8], expiry: FieldExpiry) -> bool {
        if let Self::Packed(packed) = self {
            let found = find_packed(packed, Text::new(name));
            let fits = name.len().max(value.len()) <= TEXT_BYTES_MAX;
            if fits && (found.is_some() || usize::from(packed[1]) < FIELDS_MAX) {
                return set_packed(packed, name, value, expiry);
            }
            *self = Self::Table(FieldTable::new(self.view().fields()));
        }
        let Self::Table(table) = self else { return false };
        table.set(name, value, expiry)
    }

    /// Removes a field. False: there was none.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        match self {
            Self::Packed(packed) => {
                let range = find_packed(packed, Text::new(name)).map(|(_, range)| range);
                range.map(|range| remove_packed(packed, range)).is_some()
            }
            Self::Table(table) => table.remove(name),
        }
    }

    /// Sets the time of expiry of a field; 0: never. False: there is no such field.
    pub fn set_expiry(&mut self, name: &[u8], expires_at: u64) -> bool {
        match self {
            Self::Packed(packed) => {
                let found = find_packed(packed, Text::new(name));
                let value = found.map(|(field, _)| field.value.to_bytes().into_owned());
                value.map(|value| set_packed(packed, name, &value, FieldExpiry::At(expires_at))).is_some()
            }
            Self::Table(table) => table.set_expiry(name, expires_at),
        }
    }

    /// Removes the fields that have expired, and returns their number.
    pub fn purge(&mut self, now_ms: u64) -> usize {
        if !self.view().has_expiries() {
            return 0;
        }
        let expired = self.view().fields().filter(|field| field.has_expired(now_ms));
        let expired: Vec<Vec<u8>> = expired.map(|field| field.name.to_bytes().into_owned()).collect();
        expired.iter().filter(|name| self.remove(name)).count()
    }
}

impl<'a> HashView<'a> {
    /// Returns the number of fields, those that have expired included.
    pub fn stored_len(self) -> usize {
        match self {
            Self::Packed(packed) => packed.get(1).copied().map_or(0, usize::from),
            Self::Table(table) => table.len(),
        }
    }

    /// Returns the number of fields.
    pub fn len(self, now_ms: u64) -> usize {
        match self.has_expiries() {
            true => self.fields().filter(|field| !field.has_expired(now_ms)).count(),
            false => self.stored_len(),
        }
    }

    /// Returns a field that has not expired.
    pub fn get(self, name: &[u8], now_ms: u64) -> Option<Field<'a>> {
        let field = match self {
            Self::Packed(packed) => find_packed(packed, Text::new(name)).map(|(field, _)| field),
            Self::Table(table) => table.get(name),
        };
        field.filter(|field| !field.has_expired(now_ms))
    }

    /// Returns all fields, those that have expired included: of a packed hash in the order in which they were added.
    pub fn fields(self) -> impl Iterator<Item = Field<'a>> {
        let (packed, table) = match self {
            Self::Packed(packed) => (Some(PackedFields::new(packed)), None),
            Self::Table(table) => (None, Some(table.fields(0..table.len()))),
        };
        let packed = packed.into_iter().flatten().map(|(field, _)| field);
        packed.chain(table.into_iter().flatten())
    }

    /// Visits about `count` fields, and returns the cursor to go on with; 0 begins and ends. Every field that is there from
    /// the first call to the last is visited at least once. A packed hash is visited at once.
    pub fn scan(self, cursor: u64, count: usize, visit: impl FnMut(Field<'a>)) -> u64 {
        match self {
            Self::Packed(_) => {
                self.fields().for_each(visit);
                0
            }
            // From the last to the first: where a field is removed, the last one takes its place, which has been visited.
            Self::Table(table) => {
                let end = match usize::try_from(cursor) {
                    Ok(0) | Err(_) => table.len(),
                    Ok(cursor) => cursor.min(table.len()),
                };
                let start = end.saturating_sub(count);
                table.fields(start..end).for_each(visit);
                start as u64
            }
        }
    }

    /// Returns the field at a position below [`HashView::stored_len`].
    pub fn nth(self, position: usize) -> Option<Field<'a>> {
        match self {
            Self::Packed(_) => self.fields().nth(position),
            Self::Table(table) => table.fields(position..position + 1).next(),
        }
    }

    /// True if fields may have times of expiry.
    pub fn has_expiries(self) -> bool {
        match self {
            Self::Packed(packed) => packed.first().is_some_and(|flags| flags & EXPIRES != 0),
            Self::Table(table) => table.has_expiries(),
        }
    }

    /// Returns the earliest time of expiry of a field, in milliseconds since the Unix epoch.
    pub fn next_expiry(self) -> Option<u64> {
        let fields = self.has_expiries().then(|| self.fields()).into_iter().flatten();
        fields.map(|field| field.expires_at).filter(|&at| at != 0).min()
    }
}

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;

    type View<'a> = HashView<'a>;

    fn view_packed(packed: &[u8]) -> HashView<'_> {
        HashView::Packed(packed)
    }

    fn view(&self) -> HashView<'_> {
        match self {
            Self::Packed(packed) => HashView::Packed(packed),
            Self::Table(table) => HashView::Table(table),
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
            Self::Table(table) => {
                packed.extend_from_slice(&[EXPIRES, MANY]);
                table.fields(0..table.len()).for_each(|field| pack_field(&field, true, packed));
            }
        }
    }

    fn parse(packed: &[u8], is_object: bool) -> Option<Self> {
        let (&[flags, count], mut rest) = packed.split_first_chunk::<HEAD_BYTES>()?;
        if flags & !EXPIRES != 0 || is_object != (count == MANY) {
            return None;
        }
        let mut table = FieldTable::default();
        while !rest.is_empty() {
            let (name, value) = (Text::parse(&mut rest)?, Text::parse(&mut rest)?);
            let expires_at = match flags & EXPIRES != 0 {
                true => u64::try_from(Text::parse(&mut rest)?.integer()?).ok()?,
                false => 0,
            };
            if !is_object && name.len().max(value.len()) > TEXT_BYTES_MAX {
                return None;
            }
            let is_new = table.set(&name.to_bytes(), &value.to_bytes(), FieldExpiry::At(expires_at));
            if !is_new {
                return None;
            }
        }
        match is_object {
            true => Some(Self::Table(table)),
            false if table.len() == usize::from(count) && table.len() <= FIELDS_MAX => Some(Self::unpack(packed)),
            false => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.view().stored_len() == 0
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Packed(packed) => packed.capacity(),
                Self::Table(table) => table.bytes(),
            }
    }

    fn encoding_name(view: HashView<'_>) -> &'static str {
        match view {
            HashView::Packed(_) if view.has_expiries() => "listpackex",
            HashView::Packed(_) => "listpack",
            HashView::Table(_) => "hashtable",
        }
    }

    fn into_object(self) -> Object {
        Object::Hash(Box::new(self))
    }

    fn of_object(object: &Object) -> Option<&Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }

    fn of_object_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Hash(hash) = object { Some(hash) } else { None }
    }
}

/// Fields of a packed hash, each with the positions of its bytes.
struct PackedFields<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
    has_expiries: bool,
}

impl<'a> PackedFields<'a> {
    fn new(packed: &'a [u8]) -> Self {
        let has_expiries = packed.first().is_some_and(|flags| flags & EXPIRES != 0);
        Self { whole: packed, rest: packed.get(HEAD_BYTES..).unwrap_or_default(), has_expiries }
    }
}

impl<'a> Iterator for PackedFields<'a> {
    type Item = (Field<'a>, Range<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.whole.len() - self.rest.len();
        let (name, value) = (Text::unpack(&mut self.rest)?, Text::unpack(&mut self.rest)?);
        let expires_at = match self.has_expiries {
            true => Text::unpack(&mut self.rest)?.integer().map_or(0, i64::cast_unsigned),
            false => 0,
        };
        Some((Field { name, value, expires_at }, start..self.whole.len() - self.rest.len()))
    }
}

fn find_packed<'a>(packed: &'a [u8], name: Text<'_>) -> Option<(Field<'a>, Range<usize>)> {
    PackedFields::new(packed).find(|(field, _)| field.name == name)
}

fn pack_field(field: &Field<'_>, has_expiries: bool, packed: &mut Vec<u8>) {
    field.name.pack(packed);
    field.value.pack(packed);
    if has_expiries {
        Text::Integer(field.expires_at.cast_signed()).pack(packed);
    }
}

/// Sets a field of a packed hash, which must have room for it. True: the field is new.
fn set_packed(packed: &mut Vec<u8>, name: &[u8], value: &[u8], expiry: FieldExpiry) -> bool {
    if matches!(expiry, FieldExpiry::At(1..)) && packed[0] & EXPIRES == 0 {
        let mut with_expiries = vec![EXPIRES, packed[1]];
        PackedFields::new(packed).for_each(|(field, _)| pack_field(&field, true, &mut with_expiries));
        *packed = with_expiries;
    }
    let found = find_packed(packed, Text::new(name));
    let expires_at = match expiry {
        FieldExpiry::At(at) => at,
        FieldExpiry::Keep => found.as_ref().map_or(0, |(field, _)| field.expires_at),
    };
    let (is_new, range) = match found {
        Some((_, range)) => (false, range),
        None => (true, packed.len()..packed.len()),
    };
    let mut bytes = Vec::with_capacity(name.len() + value.len() + 16);
    let field = Field { name: Text::new(name), value: Text::new(value), expires_at };
    pack_field(&field, packed[0] & EXPIRES != 0, &mut bytes);
    packed.splice(range, bytes);
    packed[1] += u8::from(is_new);
    is_new
}

fn remove_packed(packed: &mut Vec<u8>, range: Range<usize>) {
    packed.drain(range);
    packed[1] -= 1;
}

#[cfg(test)]
mod tests;
