//! Commands on parts of a value.

use store::{Attributes, Store};

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

pub(super) fn strlen<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let len = call.item(1).get()?.map_or(0, |value| value.bytes.len());
    call.reply.count(len);
    Ok(())
}

/// GETRANGE, and SUBSTR, its old name.
pub(super) fn getrange<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let mut item = call.keys.item(call.args[1]);
    match item.get()? {
        None => call.reply.bulk(b""),
        Some(value) => {
            let range = byte_range(start, end, value.bytes.len());
            call.reply.part(&value, range);
        }
    }
    Ok(())
}

/// Returns the bytes from `start` to `end`, both included; a negative position counts from the end.
fn byte_range(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    let Some((start, end)) = clamp(start, end, i64::try_from(len).unwrap_or(i64::MAX)) else { return 0..0 };
    start as usize..end as usize + 1
}

/// Converts positions that may be negative into positions among `len`. `None` means that the range is empty.
pub(super) fn clamp(start: i64, end: i64, len: i64) -> Option<(i64, i64)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let from_start = |position: i64| if position < 0 { (len + position).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    (start <= end).then_some((start, end))
}

pub(super) fn append<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (added, max) = (call.args[2], call.string_bytes_max());
    let mut item = call.keys.item(call.args[1]);
    let (joined, attributes) = match item.peek()? {
        None => (added.to_vec(), Attributes::default()),
        Some(value) => {
            let len = whole_len(value.bytes.len(), added.len(), max)?;
            let mut joined = Vec::with_capacity(len);
            joined.extend_from_slice(&value.bytes);
            joined.extend_from_slice(added);
            (joined, value.attributes)
        }
    };
    item.set(&joined, without_version(attributes))?;
    call.notify(EventClass::String, "append", call.args[1]);
    call.reply.count(joined.len());
    Ok(())
}

pub(super) fn setrange<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let offset = call.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| Refusal::new("ERR offset is out of range"))?;
    let (part, max) = (call.args[3], call.string_bytes_max());
    let mut item = call.keys.item(call.args[1]);
    let old = item.peek()?;
    if part.is_empty() {
        let len = old.map_or(0, |value| value.bytes.len());
        call.reply.count(len);
        return Ok(());
    }
    let end = whole_len(offset, part.len(), max)?;
    let attributes = old.as_ref().map_or_else(Attributes::default, |value| value.attributes);
    let old = old.as_ref().map_or(&b""[..], |value| &value.bytes);
    let mut value = Vec::with_capacity(old.len().max(end));
    value.extend_from_slice(old);
    value.resize(old.len().max(end), 0);
    value[offset..end].copy_from_slice(part);
    item.set(&value, without_version(attributes))?;
    call.notify(EventClass::String, "setrange", call.args[1]);
    call.reply.count(value.len());
    Ok(())
}

/// Returns the attributes of a changed value: all but its version stay.
pub(super) fn without_version(attributes: Attributes) -> Attributes {
    Attributes { version: 0, ..attributes }
}

fn whole_len(len: usize, added: usize, max: usize) -> Result<usize, Refusal> {
    let whole = len.checked_add(added).filter(|&whole| whole <= max);
    whole.ok_or_else(|| Refusal::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_count_from_either_end() {
        for (start, end, range) in [
            (0, -1, 0..5),
            (1, 3, 1..4),
            (-3, -2, 2..4),
            (-2, -3, 0..0),
            (3, 1, 0..0),
            (0, 100, 0..5),
            (5, 9, 0..0),
            (-100, 1, 0..2),
            (i64::MIN, i64::MAX, 0..5),
            (-100, -99, 0..1), // As in Redis: both ends are moved to the first byte.
        ] {
            assert_eq!(byte_range(start, end, 5), range, "{start} {end}");
        }
        assert_eq!(byte_range(0, -1, 0), 0..0);
    }
}
