//! The client's direction: requests out, answers in.

use memchr::memchr;

use super::SEPARATOR;

/// Appends `SET key value`. The key must have no blank, and neither key nor value a separator; see [`super`].
pub fn set(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for piece in [b"SET ".as_slice(), key, b" ", value] {
        out.extend_from_slice(piece);
    }
    out.push(SEPARATOR);
}

pub fn get(out: &mut Vec<u8>, key: &[u8]) {
    with_key(out, b"GET ", key);
}

pub fn del(out: &mut Vec<u8>, key: &[u8]) {
    with_key(out, b"DEL ", key);
}

fn with_key(out: &mut Vec<u8>, verb: &[u8], key: &[u8]) {
    out.extend_from_slice(verb);
    out.extend_from_slice(key);
    out.push(SEPARATOR);
}

/// An answer, borrowed from the input. The protocol cannot tell a value from a status with the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    Ok,
    Nil,
    Value(&'a [u8]),
}

/// Finds answers in a stream, and remembers how far a torn one has been searched.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyDecoder {
    searched: usize,
}

impl ReplyDecoder {
    /// Returns the answer at the start of `input` and its length in bytes with the separator, or `None` if it is torn.
    pub fn decode<'a>(&mut self, input: &'a [u8]) -> Option<(Reply<'a>, usize)> {
        let Some(found) = memchr(SEPARATOR, &input[self.searched..]) else {
            self.searched = input.len();
            return None;
        };
        let end = self.searched + found;
        self.searched = 0;
        let reply = match &input[..end] {
            b"OK" => Reply::Ok,
            b"(nil)" => Reply::Nil,
            value => Reply::Value(value),
        };
        Some((reply, end + 1))
    }
}
