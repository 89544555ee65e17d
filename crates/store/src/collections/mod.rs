//! Collections: values with parts, such as the fields of a hash.
//!
//! A small collection is *packed*: its parts are the bytes of the entry's value, and everything that holds for a string
//! holds for it. A large one is an *object* beside the store: the entry's value is the number of the object, and the
//! [`crate::Cache`] frees the object with its entry. The entry's encoding says which it is, and so a reader of strings
//! finds out where it looks at the encoding anyway:
//!
//! | encoding | value |
//! |---|---|
//! | 0 to 3, 8 to 11 | a string, as the caller encodes it |
//! | 4 to 7 | a packed collection, see [`Kind`] |
//! | 12 to 15 | the number of an object, the kind plus [`OBJECT`] |
//!
//! A packed collection that grows too large becomes an object, and an object stays one. An empty collection does not
//! exist: its entry is removed.
//!
//! To add a kind: implement [`Collection`], and add a line to the list at the end of this file.

mod dense;
mod entries;
mod hash;
mod member;
mod objects;
mod set;
mod sorted_set;
mod text;

use std::borrow::Cow;

pub(crate) use self::objects::{Objects, number as object_number};
pub use self::{
    entries::{MEMBER_BYTES_MAX as PACKED_MEMBER_BYTES_MAX, PACKED_LEN_MAX},
    hash::{
        FIELDS_MAX as PACKED_FIELDS_MAX, Field, FieldExpiry, FieldTable, Hash, HashView,
        TEXT_BYTES_MAX as PACKED_TEXT_BYTES_MAX,
    },
    set::{INTEGERS_MAX as PACKED_INTEGERS_MAX, Set, SetIter, SetTable, SetView},
    sorted_set::{SortedSet, SortedSetTable, SortedSetView},
    text::{Text, parse_integer},
};

/// Bit of the encoding of an entry whose value is the number of an object.
pub const OBJECT: u8 = 0b1000;
/// Bits of an encoding that name the kind of a collection.
const KIND: u8 = 0b0111;
/// Least of these bits that is a kind.
const FIRST: u8 = 4;

/// Kind of collection that a command works on: all its parts, packed or not.
pub trait Collection: Clone + Default {
    const KIND: Kind;

    /// The collection as a command reads it, wherever its parts are.
    type View<'a>
    where
        Self: 'a;

    /// Returns the view of a packed collection, without copying or parsing all of it.
    fn view_packed(packed: &[u8]) -> Self::View<'_>;

    fn view(&self) -> Self::View<'_>;

    /// Makes a collection of its packed form, to be changed.
    fn unpack(packed: &[u8]) -> Self;

    /// Returns the packed form, or `None` if the collection is too large for it, or once was.
    fn pack(&self) -> Option<Cow<'_, [u8]>>;

    /// Appends the packed form of a collection of any size, for a snapshot.
    fn write(&self, packed: &mut Vec<u8>);

    /// Makes a collection of what [`Collection::write`] has written, or `None` if it has not. `is_object` is true if it was
    /// an object, which it becomes again.
    fn parse(packed: &[u8], is_object: bool) -> Option<Self>;

    fn is_empty(&self) -> bool;

    /// Returns the memory that an object takes, in bytes; in constant time.
    fn bytes(&self) -> usize;

    /// Returns the name that Redis has for the encoding of such a value.
    fn encoding_name(view: Self::View<'_>) -> &'static str;

    fn into_object(self) -> Object;

    fn of_object(object: &Object) -> Option<&Self>;

    fn of_object_mut(object: &mut Object) -> Option<&mut Self>;
}

/// The key has a value of another kind than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// Reason why a collection has not been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    WrongType,
    OutOfMemory,
}

impl From<WrongType> for ChangeError {
    fn from(_: WrongType) -> Self {
        Self::WrongType
    }
}

impl From<crate::OutOfMemory> for ChangeError {
    fn from(_: crate::OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

macro_rules! collections {
    ($($(#[$doc:meta])* $kind:ident = $encoding:literal, $name:literal;)+) => {
        /// Kinds of collections, each with the encoding of an entry that holds a packed one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $kind = $encoding,)+
        }

        /// A collection that is not packed.
        #[derive(Clone, Debug)]
        pub enum Object {
            $($kind(Box<$kind>),)+
        }

        impl Kind {
            /// Returns the kind of the collection that an entry of this encoding holds; `None`: it holds a string.
            #[inline]
            pub fn of(encoding: u8) -> Option<Self> {
                match encoding & KIND {
                    $($encoding => Some(Self::$kind),)+
                    _ => None,
                }
            }

            /// True if a later version may have a kind with this encoding.
            pub(crate) fn is_reserved(encoding: u8) -> bool {
                encoding & KIND >= FIRST && Self::of(encoding).is_none()
            }

            /// Returns Redis's name of the type.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// Returns Redis's name of the encoding of a packed collection.
            pub(crate) fn packed_encoding_name(self, packed: &[u8]) -> &'static str {
                match self { $(Self::$kind => $kind::encoding_name($kind::view_packed(packed)),)+ }
            }

            /// True if a packed collection is one: nobody else has to look at each byte.
            pub(crate) fn is_packed(self, packed: &[u8]) -> bool {
                match self { $(Self::$kind => $kind::parse(packed, false).is_some_and(|it| !it.is_empty() && it.pack().is_some()),)+ }
            }

            /// Makes the object that [`Object::write`] has written.
            pub(crate) fn parse_object(self, packed: &[u8]) -> Option<Object> {
                match self { $(Self::$kind => $kind::parse(packed, true).filter(|it| !it.is_empty()).map($kind::into_object),)+ }
            }
        }

        impl Object {
            pub(crate) fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)+ }
            }

            /// Returns the memory that the object takes, in bytes.
            pub fn bytes(&self) -> usize {
                match self { $(Self::$kind(it) => it.bytes(),)+ }
            }

            /// Appends the packed form.
            pub(crate) fn write(&self, packed: &mut Vec<u8>) {
                match self { $(Self::$kind(it) => it.write(packed),)+ }
            }

            /// Returns Redis's name of the encoding.
            pub(crate) fn encoding_name(&self) -> &'static str {
                match self { $(Self::$kind(it) => $kind::encoding_name(it.view()),)+ }
            }
        }
    };
}

collections! {
    /// Fields with values.
    Hash = 4, "hash";
    /// Members.
    Set = 5, "set";
    /// Members with scores.
    SortedSet = 6, "zset";
}
