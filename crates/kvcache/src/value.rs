//! Values as clients see them.

use std::borrow::Cow;

use bytes::Bytes;
use store::{
    Attributes, Cache, EntryView, Store,
    collections::{Kind, WrongType},
};

use crate::codec::Codec;

/// Decoded value of an entry.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) attributes: Attributes,
    /// The same bytes, when they can be shared instead of copied.
    pub(crate) shared: Option<&'a Bytes>,
}

impl<'a> Value<'a> {
    /// Decodes the value of an entry that has just been counted as a hit; if that fails, the hit becomes a miss. A
    /// collection stays a hit, as in Redis.
    #[inline]
    pub(crate) fn from_hit<S: Store>(
        codec: &Codec,
        cache: &'a mut Cache<S>,
        place: S::Location,
    ) -> Result<Option<Self>, WrongType> {
        let (store, counts) = cache.store_and_counts();
        let value = Self::decode(codec, store.view(place))?;
        if value.is_none() {
            counts.recount_hit_as_miss();
        }
        Ok(value)
    }

    /// Decodes the value of an entry. `None` means that it cannot be decoded, and counts as missing.
    pub(crate) fn decode(codec: &Codec, view: EntryView<'a>) -> Result<Option<Self>, WrongType> {
        let EntryView { value, attributes, shared, .. } = view;
        if Kind::of(attributes.encoding).is_some() {
            return Err(WrongType);
        }
        Ok(match codec.decode(value, attributes.encoding) {
            Some(Cow::Borrowed(bytes)) => Some(Self { bytes: Cow::Borrowed(bytes), attributes, shared }),
            Some(decoded) => Some(Self { bytes: decoded, attributes, shared: None }),
            None => None,
        })
    }

    /// Returns the bytes, to outlive the entry; those of a large value are shared, not copied.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.shared {
            Some(shared) => shared.clone(),
            None => Bytes::from(self.bytes.into_owned()),
        }
    }
}
