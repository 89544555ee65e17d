//! Encoding of header blocks that do not depend on each other.

use super::{
    huffman,
    table::{Position, position},
};

/// Index of `date` in the static table.
const DATE_INDEX: usize = 33;

/// Appends a field, whose name is in small letters: by its index in the static table if it is there, otherwise as a literal
/// that is not added to the peer's table.
pub fn push_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match position(name, value) {
        Some(Position::Field(index)) => push_integer(index, 7, 0x80, out),
        Some(Position::Name(index)) => {
            push_integer(index, 4, 0, out);
            push_string(value, out);
        }
        None => {
            out.push(0);
            push_string(name, out);
            push_string(value, out);
        }
    }
}

/// Appends a `date`, which is new every second: as it is, since the Huffman code would save seven bytes and cost a pass.
pub fn push_date(date: &[u8], out: &mut Vec<u8>) {
    push_integer(DATE_INDEX, 4, 0, out);
    push_integer(date.len(), 7, 0, out);
    out.extend_from_slice(date);
}

/// Appends a change of the table's size, which a peer that allows less than before must see first in the next block
/// (section 4.2). We keep nothing there, so the size is 0.
pub fn push_size_update(out: &mut Vec<u8>) {
    push_integer(0, 5, 0x20, out);
}

/// Appends an integer with a prefix of so many bits, below the bits of `kind` (section 5.1).
fn push_integer(value: usize, prefix: u32, kind: u8, out: &mut Vec<u8>) {
    let mask = (1_usize << prefix) - 1;
    if value < mask {
        out.push(kind | value as u8);
        return;
    }
    out.push(kind | mask as u8);
    let mut left = value - mask;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends a string literal, in the Huffman code unless that is longer.
fn push_string(string: &[u8], out: &mut Vec<u8>) {
    let encoded = huffman::encoded_len(string);
    if encoded < string.len() {
        push_integer(encoded, 7, 0x80, out);
        huffman::encode(string, out);
    } else {
        push_integer(string.len(), 7, 0, out);
        out.extend_from_slice(string);
    }
}
