//! Decoding of header blocks.

use super::{TABLE_BYTES, dynamic::DynamicTable, huffman, table::STATIC};

/// Longest continuation of an integer, in bytes: enough for 28 bits and what the prefix holds.
const INTEGER_BYTES_MAX: usize = 4;

/// A malformed header block. It leaves the table unusable: the connection has to end with COMPRESSION_ERROR.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HpackError {
    #[error("a header block ends within a field")]
    Truncated,
    #[error("an integer of a header block is too large")]
    Integer,
    #[error("a header block refers to a field that is not in the table")]
    Index,
    #[error("a string of a header block is no Huffman code")]
    Huffman,
    #[error("a header block makes the table larger than was announced, or does so behind a field")]
    SizeUpdate,
}

impl From<huffman::Malformed> for HpackError {
    fn from(_: huffman::Malformed) -> Self {
        Self::Huffman
    }
}

/// A field of a header block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// Decoder of all header blocks that one side of a connection sends.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// Largest table that the peer may ask for: what our SETTINGS announce.
    table_bytes_max: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_table_bytes(TABLE_BYTES)
    }
}

impl Decoder {
    /// Decoder whose peer may keep `bytes` in its table.
    pub fn with_table_bytes(bytes: usize) -> Self {
        let table = DynamicTable::new(bytes.min(TABLE_BYTES));
        Self { table, table_bytes_max: bytes, name: Vec::new(), value: Vec::new() }
    }

    /// Decodes a whole header block (HEADERS and its CONTINUATIONs) and gives its fields to `visit`, in their order.
    ///
    /// # Errors
    /// The block is malformed.
    pub fn decode(&mut self, block: &[u8], mut visit: impl FnMut(Field<'_>)) -> Result<(), HpackError> {
        let mut rest = block;
        let mut may_resize = true;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                let (name, value) = self.field(index)?;
                visit(Field { name, value });
            } else if first & 0xe0 == 0x20 {
                let size = integer(&mut rest, 5)?;
                if !may_resize || size > self.table_bytes_max {
                    return Err(HpackError::SizeUpdate);
                }
                self.table.set_size_max(size);
                continue;
            } else {
                self.literal(first, &mut rest, &mut visit)?;
            }
            may_resize = false;
        }
        Ok(())
    }

    /// Returns a number that stays the same as long as the table does: a block that has left it so means the same again.
    pub fn revision(&self) -> u64 {
        self.table.revision()
    }

    /// Gives back what decoding has grown, besides the table.
    pub fn trim(&mut self) {
        self.name = Vec::new();
        self.value = Vec::new();
    }

    /// Reads a literal field. Its strings are copied only where they are decoded, or kept.
    fn literal(&mut self, first: u8, rest: &mut &[u8], visit: &mut impl FnMut(Field<'_>)) -> Result<(), HpackError> {
        let is_indexed = first & 0x40 != 0;
        let index = integer(rest, if is_indexed { 6 } else { 4 })?;
        let name = match index.checked_sub(1) {
            None => string(rest, &mut self.name)?,
            Some(place) => match STATIC.get(place) {
                Some(&(name, _)) => name,
                None => {
                    let (name, _) = self.table.get(place - STATIC.len()).ok_or(HpackError::Index)?;
                    self.name.clear();
                    self.name.extend_from_slice(name);
                    &self.name
                }
            },
        };
        let value = string(rest, &mut self.value)?;
        visit(Field { name, value });
        if is_indexed {
            self.table.insert(name, value);
        }
        Ok(())
    }

    /// Returns the field at an index of both tables, the static one first (section 2.3.3).
    fn field(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::Index)?;
        match STATIC.get(place) {
            Some(&field) => Ok(field),
            None => self.table.get(place - STATIC.len()).ok_or(HpackError::Index),
        }
    }
}

/// Reads an integer with a prefix of so many bits (section 5.1).
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, HpackError> {
    let (&first, mut behind) = rest.split_first().ok_or(HpackError::Truncated)?;
    let mask = (1_usize << prefix) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        for place in 0.. {
            if place == INTEGER_BYTES_MAX {
                return Err(HpackError::Integer);
            }
            let (&byte, next) = behind.split_first().ok_or(HpackError::Truncated)?;
            behind = next;
            value += usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = behind;
    Ok(value)
}

/// Reads a string literal (section 5.2): from where it lies, unless it has to be decoded into `buffer`.
fn string<'a, 'input: 'a>(rest: &mut &'input [u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(rest, 7)?;
    let (string, behind) = rest.split_at_checked(length).ok_or(HpackError::Truncated)?;
    *rest = behind;
    if !is_huffman {
        return Ok(string);
    }
    buffer.clear();
    huffman::decode(string, buffer)?;
    Ok(buffer)
}
