//! Commands on a value as a string of bits, the highest of each byte first.

use store::{Attributes, Store};

use super::{
    call::{Call, parse_integer},
    ranges::{clamp, without_version},
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

pub(super) fn getbit<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let offset = call.bit_offset(2, None)?;
    let value = call.item(1).get()?.is_some_and(|value| bit(&value.bytes, offset));
    call.reply.integer(value.into());
    Ok(())
}

pub(super) fn setbit<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let offset = call.bit_offset(2, None)?;
    let on = match call.integer(3) {
        Ok(0) => false,
        Ok(1) => true,
        Ok(_) | Err(_) => return Err(Refusal::new("ERR bit is not an integer or out of range")),
    };
    let mut item = call.keys.item(call.args[1]);
    let (mut value, attributes) = match item.peek()? {
        None => (Vec::new(), Attributes::default()),
        Some(value) => (value.bytes.into_owned(), value.attributes),
    };
    let was_on = bit(&value, offset);
    let is_longer = grow(&mut value, offset);
    if is_longer || was_on != on {
        let mask = 0x80 >> (offset & 7);
        value[offset >> 3] = value[offset >> 3] & !mask | if on { mask } else { 0 };
        item.set(&value, without_version(attributes))?;
        call.notify(EventClass::String, "setbit", call.args[1]);
    }
    call.reply.integer(was_on.into());
    Ok(())
}

fn bit(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset >> 3).is_some_and(|byte| byte & (0x80 >> (offset & 7)) != 0)
}

/// Appends zeros until there is a bit at `offset`. False if there was one.
pub(super) fn grow(value: &mut Vec<u8>, offset: usize) -> bool {
    let len = value.len().max((offset >> 3) + 1);
    let is_longer = len > value.len();
    value.resize(len, 0);
    is_longer
}

pub(super) fn bitcount<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let args = call.args;
    let mut item = call.keys.item(args[1]);
    let Some(value) = item.get()? else {
        call.reply.integer(0);
        return Ok(());
    };
    let bytes = &*value.bytes;
    let count = match args {
        [_, _] => count_ones(bytes, 0, bits(bytes) - 1),
        [_, _, start, end] | [_, _, start, end, _] => {
            let start = parse_integer(start).ok_or(Refusal::NOT_AN_INTEGER)?;
            let end = parse_integer(end).ok_or(Refusal::NOT_AN_INTEGER)?;
            // Nothing more of an empty range is checked, not even its unit.
            let is_empty = start < 0 && end < 0 && start > end;
            let unit = if is_empty { 8 } else { bits_per_position(args.get(4))? };
            match clamp(start, end, bits(bytes) / unit) {
                None => 0,
                Some((start, end)) => count_ones(bytes, start * unit, end * unit + unit - 1),
            }
        }
        _ => return Err(Refusal::SYNTAX),
    };
    call.reply.integer(count);
    Ok(())
}

fn bits(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX / 8) * 8
}

fn bits_per_position(unit: Option<&&[u8]>) -> Result<i64, Refusal> {
    match unit {
        None => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"byte") => Ok(8),
        Some(unit) if unit.eq_ignore_ascii_case(b"bit") => Ok(1),
        Some(_) => Err(Refusal::SYNTAX),
    }
}

/// Counts the bits that are set from `first` to `last`, both included.
fn count_ones(bytes: &[u8], first: i64, last: i64) -> i64 {
    if first > last {
        return 0;
    }
    let (head, tail) = ((first >> 3) as usize, (last >> 3) as usize);
    let whole: i64 = bytes[head..=tail].iter().map(|byte| i64::from(byte.count_ones())).sum();
    let before = bytes[head] & !(0xff_u8 >> (first & 7));
    let behind = bytes[tail] & !(0xff_u8 << (7 - (last & 7)));
    whole - i64::from(before.count_ones()) - i64::from(behind.count_ones())
}

pub(super) fn bitpos<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let args = call.args;
    let wanted = match call.integer(2)? {
        0 => false,
        1 => true,
        _ => return Err(Refusal::new("ERR The bit argument must be 1 or 0.")),
    };
    let mut item = call.keys.item(args[1]);
    let Some(value) = item.get()? else {
        // A missing value is a string of zeros without an end.
        call.reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let bytes = &*value.bytes;
    if args.len() > 6 {
        return Err(Refusal::SYNTAX);
    }
    let start = args.get(3).map_or(Some(0), |start| parse_integer(start)).ok_or(Refusal::NOT_AN_INTEGER)?;
    let unit = bits_per_position(args.get(5))?;
    let end = args.get(4).map_or(Some(i64::MAX), |end| parse_integer(end)).ok_or(Refusal::NOT_AN_INTEGER)?;
    let len = bits(bytes) / unit;
    let from_start = |position: i64| if position < 0 { (len + position).max(0) } else { position };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    let found = match start <= end {
        true => find(bytes, wanted, start * unit, end * unit + unit - 1),
        false => None,
    };
    let position = match found {
        Some(position) => position,
        // Zeros follow the end, unless an end was given.
        None if !wanted && args.len() < 5 && start <= end => len * unit,
        None => -1,
    };
    call.reply.integer(position);
    Ok(())
}

/// Returns the position of the first bit that is `wanted`, from `first` to `last`, both included.
fn find(bytes: &[u8], wanted: bool, first: i64, last: i64) -> Option<i64> {
    let (head, tail) = ((first >> 3) as usize, (last >> 3) as usize);
    let flip = if wanted { 0 } else { 0xff };
    let hits = |at: usize| {
        let first = if at == head { 0xff_u8 >> (first & 7) } else { 0xff };
        let last = if at == tail { 0xff_u8 << (7 - (last & 7)) } else { 0xff };
        (bytes[at] ^ flip) & first & last
    };
    let at = (head..=tail).find(|&at| hits(at) != 0)?;
    Some(at as i64 * 8 + i64::from(hits(at).leading_zeros()))
}

pub(super) fn bitop<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let combine: fn(u8, u8) -> u8 = match &*call.args[1].to_ascii_lowercase() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" => |a, _| a,
        _ => return Err(Refusal::SYNTAX),
    };
    let is_not = call.is(1, "NOT");
    if is_not && call.args.len() != 4 {
        return Err(Refusal::new("ERR BITOP NOT must be called with a single source key."));
    }
    call.lock_all();
    let args = call.args;
    let mut longest = 0;
    for key in &args[3..] {
        longest = call.keys.item(key).peek()?.map_or(0, |value| value.bytes.len()).max(longest);
    }
    let mut result = Vec::new();
    for (number, key) in args[3..].iter().enumerate() {
        let mut item = call.keys.item(key);
        let value = item.get()?;
        let bytes = value.as_ref().map_or(&b""[..], |value| &value.bytes);
        if number == 0 {
            result = Vec::with_capacity(longest);
            result.extend_from_slice(bytes);
            result.resize(longest, 0);
            continue;
        }
        let padded = bytes.iter().copied().chain(std::iter::repeat(0));
        result.iter_mut().zip(padded).for_each(|(byte, other)| *byte = combine(*byte, other));
    }
    if is_not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut target = call.keys.item(args[2]);
    match longest {
        0 if target.remove() => call.notify(EventClass::Generic, "del", call.args[2]),
        0 => {}
        _ => {
            target.set(&result, Attributes::default())?;
            call.notify(EventClass::String, "set", call.args[2]);
        }
    }
    call.reply.count(longest);
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Parses argument `index` as the position of a bit that a string may have; of fields of `width` bits, `#n` is the n-th.
    pub(super) fn bit_offset(&self, index: usize, width: Option<u32>) -> Result<usize, Refusal> {
        let parse = || match (self.args[index], width) {
            ([b'#', number @ ..], Some(width)) => parse_integer(number)?.checked_mul(width.into()),
            (number, _) => parse_integer(number),
        };
        let offset = parse().and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.filter(|offset| offset >> 3 < self.string_bytes_max());
        offset.ok_or_else(|| Refusal::new("ERR bit offset is not an integer or out of range"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counting_and_finding_agree_with_a_loop_over_all_bits(
            bytes in prop::collection::vec(any::<u8>(), 1..6), a in 0_i64..48, b in 0_i64..48, wanted: bool
        ) {
            let last = bytes.len() as i64 * 8 - 1;
            let (first, last) = (a.min(b).min(last), a.max(b).min(last));
            let is_on = |&position: &i64| bit(&bytes, position as usize);
            prop_assert_eq!(count_ones(&bytes, first, last), (first..=last).filter(is_on).count() as i64);
            prop_assert_eq!(find(&bytes, wanted, first, last), (first..=last).find(|position| is_on(position) == wanted));
        }
    }
}
