//! The key, value and attributes of an entry in one allocation.

use bytes::Bytes;

use crate::{Attributes, EntryView, SHARED_MIN};

/// Returns the memory that the allocator takes for an allocation (glibc: a header of 8 bytes, multiples of 16, at least 32).
pub(crate) const fn allocated(len: usize) -> usize {
    match len {
        0 => 0,
        1..=24 => 32,
        _ => (len + 8).next_multiple_of(16),
    }
}

const EXPIRES_AT_LEN: usize = 8;
const TAGS_LEN: usize = 12;

/// The attributes that stand before the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// True if `expires_at` is there, 8 bytes.
    has_expiry: bool,
    /// True if `version` and `flags` are there, 12 bytes.
    has_client_tags: bool,
    encoding: u8,
}

impl Shape {
    fn of(attributes: Attributes) -> Self {
        let has_client_tags = attributes.version != 0 || attributes.flags != 0;
        Self { has_expiry: attributes.expires_at != 0, has_client_tags, encoding: attributes.encoding }
    }

    #[inline]
    fn head_len(self) -> usize {
        EXPIRES_AT_LEN * usize::from(self.has_expiry) + TAGS_LEN * usize::from(self.has_client_tags)
    }
}

#[derive(Debug)]
enum Body {
    /// Attributes, key, value.
    Small(Box<[u8]>),
    Large(Box<Large>),
}

#[derive(Debug)]
struct Large {
    /// Attributes, key.
    block: Box<[u8]>,
    value: Bytes,
}

#[derive(Debug)]
pub(super) struct Record {
    body: Body,
    key_len: u32,
    shape: Shape,
}

impl Record {
    pub(super) fn new(key: &[u8], value: &[u8], attributes: Attributes) -> Self {
        let body = match value.len() < SHARED_MIN {
            true => Body::Small(block(attributes, key, value)),
            false => {
                let value = Bytes::copy_from_slice(value);
                Body::Large(Box::new(Large { block: block(attributes, key, &[]), value }))
            }
        };
        let key_len = u32::try_from(key.len()).expect("keys are shorter than 4 GiB");
        Self { body, key_len, shape: Shape::of(attributes) }
    }

    #[inline]
    fn block(&self) -> &[u8] {
        match &self.body {
            Body::Small(block) => block,
            Body::Large(large) => &large.block,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        let start = self.shape.head_len();
        &self.block()[start..start + self.key_len as usize]
    }

    #[inline]
    pub(super) fn view(&self) -> EntryView<'_> {
        let (key, rest) = self.block()[self.shape.head_len()..].split_at(self.key_len as usize);
        let (value, shared) = match &self.body {
            Body::Small(_) => (rest, None),
            Body::Large(large) => (&large.value[..], Some(&large.value)),
        };
        EntryView { key, value, attributes: self.attributes(), shared }
    }

    #[inline]
    fn attributes(&self) -> Attributes {
        let (mut head, encoding) = (self.block(), self.shape.encoding);
        let expires_at = if self.shape.has_expiry { take(&mut head, u64::from_le_bytes) } else { 0 };
        let (version, flags) = match self.shape.has_client_tags {
            true => (take(&mut head, u64::from_le_bytes), take(&mut head, u32::from_le_bytes)),
            false => (0, 0),
        };
        Attributes { expires_at, flags, version, encoding }
    }

    /// Returns the time of expiry alone: most entries have none, and then the block need not be read.
    #[inline]
    pub(super) fn expires_at(&self) -> u64 {
        if self.shape.has_expiry { take(&mut self.block(), u64::from_le_bytes) } else { 0 }
    }

    #[inline]
    pub(super) fn expires(&self) -> bool {
        self.shape.has_expiry
    }

    /// Overwrites value and attributes if they need exactly the same room. False: nothing has been done.
    pub(super) fn overwrite(&mut self, value: &[u8], attributes: Attributes) -> bool {
        let shape = Shape::of(attributes);
        if shape.head_len() != self.shape.head_len() || shape.has_expiry != self.shape.has_expiry {
            return false;
        }
        let key_end = shape.head_len() + self.key_len as usize;
        let block = match &mut self.body {
            Body::Small(block) if block.len() == key_end + value.len() && value.len() < SHARED_MIN => {
                block[key_end..].copy_from_slice(value);
                block
            }
            Body::Large(large) if value.len() >= SHARED_MIN => {
                large.value = Bytes::copy_from_slice(value);
                &mut large.block
            }
            Body::Small(_) | Body::Large(_) => return false,
        };
        write_head(block, attributes);
        self.shape = shape;
        true
    }

    pub(super) fn set_encoding(&mut self, encoding: u8) {
        self.shape.encoding = encoding;
    }

    /// Changes the time of expiry without copying the value. False: nothing has been done.
    pub(super) fn set_expiry(&mut self, expires_at: u64) -> bool {
        let attributes = Attributes { expires_at, ..self.attributes() };
        let shape = Shape::of(attributes);
        if shape == self.shape {
            match &mut self.body {
                Body::Small(block) => write_head(block, attributes),
                Body::Large(large) => write_head(&mut large.block, attributes),
            }
            return true;
        }
        let block = match &self.body {
            Body::Small(_) => return false,
            Body::Large(_) => block(attributes, self.key(), &[]),
        };
        if let Body::Large(large) = &mut self.body {
            large.block = block;
        }
        self.shape = shape;
        true
    }

    /// Returns the bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Small(block) => allocated(block.len()),
            Body::Large(large) => Self::large_bytes(large.block.len(), large.value.len()),
        }
    }

    /// Returns the bytes that such a record would allocate.
    pub(super) fn bytes_of(key_len: usize, value_len: usize, attributes: Attributes) -> usize {
        let block_len = Shape::of(attributes).head_len() + key_len;
        match value_len < SHARED_MIN {
            true => allocated(block_len + value_len),
            false => Self::large_bytes(block_len, value_len),
        }
    }

    fn large_bytes(block_len: usize, value_len: usize) -> usize {
        /// Bytes that a `Bytes` allocates when it is shared for the first time.
        const SHARED_LEN: usize = 24;
        allocated(size_of::<Large>()) + allocated(block_len) + allocated(value_len) + allocated(SHARED_LEN)
    }
}

#[inline]
fn take<const LEN: usize, T>(head: &mut &[u8], read: fn([u8; LEN]) -> T) -> T {
    let (bytes, rest) = head.split_first_chunk().expect("the shape says that it is there");
    *head = rest;
    read(*bytes)
}

fn block(attributes: Attributes, key: &[u8], value: &[u8]) -> Box<[u8]> {
    let head_len = Shape::of(attributes).head_len();
    let mut block = Vec::with_capacity(head_len + key.len() + value.len());
    block.resize(head_len, 0);
    write_head(&mut block, attributes);
    block.extend_from_slice(key);
    block.extend_from_slice(value);
    block.into_boxed_slice()
}

fn write_head(block: &mut [u8], attributes: Attributes) {
    let Shape { has_expiry, has_client_tags, .. } = Shape::of(attributes);
    let (expires_at, rest) = block.split_at_mut(EXPIRES_AT_LEN * usize::from(has_expiry));
    if has_expiry {
        expires_at.copy_from_slice(&attributes.expires_at.to_le_bytes());
    }
    if has_client_tags {
        let (version, flags) = rest[..TAGS_LEN].split_at_mut(8);
        version.copy_from_slice(&attributes.version.to_le_bytes());
        flags.copy_from_slice(&attributes.flags.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_costs_no_more_than_the_fields_it_needs() {
        assert_eq!(size_of::<Option<Record>>(), 24);
    }
}
