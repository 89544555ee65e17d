//! Compact set of integers: the width in bytes (2, 4 or 8), and the integers in ascending order, little endian.

/// Returns the integer at a position.
fn get(bytes: &[u8], index: usize) -> i64 {
    let width = width(bytes);
    let integer = bytes.get(1 + index * width..1 + (index + 1) * width).unwrap_or_default();
    match *integer {
        [a, b] => i16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        _ => integer.try_into().map_or(0, i64::from_le_bytes),
    }
}

fn width(bytes: &[u8]) -> usize {
    bytes.first().map_or(8, |&width| usize::from(width).max(1))
}

fn width_of(value: i64) -> u8 {
    match value {
        _ if i16::try_from(value).is_ok() => 2,
        _ if i32::try_from(value).is_ok() => 4,
        _ => 8,
    }
}

/// Returns the set without integers.
pub(super) fn empty() -> Vec<u8> {
    vec![2]
}

/// True if this is the width in front of a set of integers.
pub(super) fn is_width(byte: u8) -> bool {
    matches!(byte, 2 | 4 | 8)
}

pub(super) fn len(bytes: &[u8]) -> usize {
    bytes.len().saturating_sub(1) / width(bytes)
}

/// Iterates over the integers, in ascending order.
pub(super) fn iter(bytes: &[u8]) -> impl Iterator<Item = i64> {
    (0..len(bytes)).map(|index| get(bytes, index))
}

pub(super) fn nth(bytes: &[u8], index: usize) -> i64 {
    get(bytes, index)
}

/// Finds the position of an integer, or the one where it belongs.
pub(super) fn find(bytes: &[u8], value: i64) -> Result<usize, usize> {
    let (mut low, mut high) = (0, len(bytes));
    while low < high {
        let middle = low.midpoint(high);
        match get(bytes, middle).cmp(&value) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// Adds an integer. False if it was there.
pub(super) fn insert(bytes: &mut Vec<u8>, value: i64) -> bool {
    let Err(index) = find(bytes, value) else { return false };
    if usize::from(width_of(value)) > width(bytes) {
        *bytes = widened(bytes, width_of(value));
    }
    let width = width(bytes);
    let at = 1 + index * width;
    bytes.splice(at..at, value.to_le_bytes().into_iter().take(width));
    true
}

fn widened(bytes: &[u8], width: u8) -> Vec<u8> {
    let mut wide = Vec::with_capacity(1 + (len(bytes) + 1) * usize::from(width));
    wide.push(width);
    iter(bytes).for_each(|value| wide.extend(value.to_le_bytes().into_iter().take(width.into())));
    wide
}

/// Removes an integer. False if it was not there.
pub(super) fn remove(bytes: &mut Vec<u8>, value: i64) -> bool {
    let Ok(index) = find(bytes, value) else { return false };
    let width = width(bytes);
    bytes.drain(1 + index * width..1 + (index + 1) * width);
    true
}
