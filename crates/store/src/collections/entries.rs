//! Compact sequence of members: the length in one byte, the bytes, and a trailer of fixed length.

use std::ops::Range;

/// Limit of the members of a packed collection.
pub const PACKED_LEN_MAX: usize = 128;
/// Limit of the length of a member of a packed collection, in bytes.
pub const MEMBER_BYTES_MAX: usize = 64;

/// One entry of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Bytes of the sequence that the entry takes.
    pub(super) range: Range<usize>,
    pub(super) member: &'a [u8],
    pub(super) trailer: &'a [u8],
}

/// Entries of a sequence, from its start; `TRAILER` bytes follow each member.
#[derive(Clone, Debug)]
pub(super) struct Entries<'a, const TRAILER: usize> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a, const TRAILER: usize> Entries<'a, TRAILER> {
    /// Returns the entries behind the first `skip` bytes.
    pub(super) fn new(bytes: &'a [u8], skip: usize) -> Self {
        Self { bytes, at: skip }
    }
}

impl<'a, const TRAILER: usize> Iterator for Entries<'a, TRAILER> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let start = self.at;
        let len = usize::from(*self.bytes.get(start)?);
        let end = start + 1 + len;
        let entry = Entry {
            range: start..end + TRAILER,
            member: self.bytes.get(start + 1..end)?,
            trailer: self.bytes.get(end..end + TRAILER)?,
        };
        self.at = entry.range.end;
        Some(entry)
    }
}

/// Inserts an entry at an offset of the sequence. The member has at most [`MEMBER_BYTES_MAX`] bytes.
pub(super) fn insert(bytes: &mut Vec<u8>, at: usize, member: &[u8], trailer: &[u8]) {
    debug_assert!(member.len() <= MEMBER_BYTES_MAX);
    let entry = [&[member.len() as u8], member, trailer].concat();
    bytes.splice(at..at, entry);
}
