//! BITFIELD: a value as integers of any width at any bit.

use store::{Attributes, Store};

use super::{
    bits::grow,
    call::{Call, parse_integer},
    ranges::without_version,
};
use crate::{
    reply::{Outcome, Refusal},
    state::EventClass,
};

/// Type of an integer: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_signed: bool,
    bits: u32,
}

/// Treatment of a number that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    kind: Kind,
    offset: usize,
    action: Action,
}

pub(super) fn bitfield<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let operations = parse(call)?;
    match operations.iter().filter(|operation| !matches!(operation.action, Action::Get)).map(Operation::last_bit).max()
    {
        None => read(call, &operations)?,
        Some(last_bit) => write(call, &operations, last_bit)?,
    }
    Ok(())
}

pub(super) fn bitfield_ro<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let operations = parse(call)?;
    if operations.iter().any(|operation| !matches!(operation.action, Action::Get)) {
        return Err(Refusal::new("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(call, &operations)
}

fn read<S: Store>(call: &mut Call<'_, '_, S>, operations: &[Operation]) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let value = item.get()?;
    let bytes = value.as_ref().map_or(&b""[..], |value| &value.bytes);
    call.reply.array(operations.len());
    for operation in operations {
        call.reply.integer(operation.kind.load(bytes, operation.offset));
    }
    Ok(())
}

fn write<S: Store>(call: &mut Call<'_, '_, S>, operations: &[Operation], last_bit: usize) -> Outcome {
    let mut item = call.keys.item(call.args[1]);
    let (mut value, attributes) = match item.peek()? {
        None => (Vec::new(), Attributes::default()),
        Some(value) => (value.bytes.into_owned(), value.attributes),
    };
    let mut is_changed = grow(&mut value, last_bit);
    let answers: Vec<Option<i64>> = operations
        .iter()
        .map(|&Operation { kind, offset, action }| {
            let old = kind.load(&value, offset);
            let (new, answer) = match action {
                Action::Get => return Some(old),
                Action::Set(new, overflow) => (kind.fit(kind.as_set(new, overflow), overflow)?, old),
                Action::Increment(by, overflow) => {
                    let sum = kind.fit(i128::from(old) + i128::from(by), overflow)?;
                    (sum, sum)
                }
            };
            is_changed |= old != new;
            kind.store(&mut value, offset, new);
            Some(answer)
        })
        .collect();
    if is_changed {
        item.set(&value, without_version(attributes))?;
        call.notify(EventClass::String, "setbit", call.args[1]);
    }
    call.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn parse<S: Store>(call: &Call<'_, '_, S>) -> Result<Vec<Operation>, Refusal> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while at < call.args.len() {
        let behind = call.args.len() - at - 1;
        if call.is(at, "OVERFLOW") && behind >= 1 {
            overflow = Overflow::parse(call.args[at + 1])?;
            at += 2;
            continue;
        }
        let is_get = call.is(at, "GET") && behind >= 2;
        let is_set = call.is(at, "SET") && behind >= 3;
        let is_increment = call.is(at, "INCRBY") && behind >= 3;
        if !is_get && !is_set && !is_increment {
            return Err(Refusal::SYNTAX);
        }
        let kind = Kind::parse(call.args[at + 1])?;
        let offset = call.bit_offset(at + 2, Some(kind.bits))?;
        let action = match is_get {
            true => Action::Get,
            false if is_set => Action::Set(call.integer(at + 3)?, overflow),
            false => Action::Increment(call.integer(at + 3)?, overflow),
        };
        operations.push(Operation { kind, offset, action });
        at += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

impl Operation {
    fn last_bit(&self) -> usize {
        self.offset + self.kind.bits as usize - 1
    }
}

impl Overflow {
    fn parse(name: &[u8]) -> Result<Self, Refusal> {
        match &*name.to_ascii_lowercase() {
            b"wrap" => Ok(Self::Wrap),
            b"sat" => Ok(Self::Saturate),
            b"fail" => Ok(Self::Fail),
            _ => Err(Refusal::new("ERR Invalid OVERFLOW type specified")),
        }
    }
}

impl Kind {
    fn parse(name: &[u8]) -> Result<Self, Refusal> {
        let parsed = match name {
            [b'i', bits @ ..] => parse_integer(bits).map(|bits| (true, bits, 64)),
            [b'u', bits @ ..] => parse_integer(bits).map(|bits| (false, bits, 63)),
            _ => None,
        };
        match parsed {
            Some((is_signed, bits, max)) if (1..=max).contains(&bits) => Ok(Self { is_signed, bits: bits as u32 }),
            _ => Err(Refusal::new(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            )),
        }
    }

    /// Reads the number at a bit; zeros follow the end.
    fn load(self, bytes: &[u8], offset: usize) -> i64 {
        let first = offset >> 3;
        let window =
            (first..first + 9).fold(0_u128, |sum, at| sum << 8 | u128::from(bytes.get(at).copied().unwrap_or(0)));
        let number = (window >> (72 - (offset & 7) as u32 - self.bits)) as u64 & self.mask();
        self.interpret(number)
    }

    /// Writes a number at a bit. All its bits must exist.
    fn store(self, bytes: &mut [u8], offset: usize, number: i64) {
        for bit in 0..self.bits {
            let position = offset + bit as usize;
            let is_on = number >> (self.bits - 1 - bit) & 1 == 1;
            let mask = 0x80_u8 >> (position & 7);
            let byte = &mut bytes[position >> 3];
            *byte = *byte & !mask | if is_on { mask } else { 0 };
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Interprets the bits as a number of this type.
    fn interpret(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.is_signed { (bits << unused).cast_signed() >> unused } else { bits.cast_signed() }
    }

    /// Converts a number that SET writes as Redis does: for an unsigned field a negative number is a large one, and for a
    /// signed field a number far too low counts as too high, since an addition in Redis overflows.
    fn as_set(self, number: i64, overflow: Overflow) -> i128 {
        let overflows = self.bits < 64 && number < self.max_signed() - i64::MAX;
        match self.is_signed {
            false => number.cast_unsigned().into(),
            true if overflows && overflow == Overflow::Saturate => i64::MAX.into(),
            true => number.into(),
        }
    }

    fn max_signed(self) -> i64 {
        i64::MAX >> (64 - self.bits)
    }

    /// Makes the number fit. `None` means that it does not, and that this is a failure.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = match self.is_signed {
            true => (-1_i128 << (self.bits - 1), self.max_signed().into()),
            false => (0, (1_i128 << self.bits) - 1),
        };
        match overflow {
            _ if (min..=max).contains(&number) => Some(number as i64),
            Overflow::Wrap => Some(self.interpret(number as u64 & self.mask())),
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stored_number_is_loaded_and_no_other_bit_changes(
            bytes in prop::collection::vec(any::<u8>(), 18), offset in 0_usize..70, bits in 1_u32..=64, number: i64, is_signed: bool
        ) {
            let kind = Kind { is_signed, bits: if is_signed { bits } else { bits.min(63) } };
            let number = kind.interpret(number as u64 & kind.mask());
            let mut changed = bytes.clone();
            kind.store(&mut changed, offset, number);
            prop_assert_eq!(kind.load(&changed, offset), number);
            kind.store(&mut changed, offset, kind.load(&bytes, offset));
            prop_assert_eq!(changed, bytes);
        }
    }

    #[test]
    fn numbers_for_set_are_converted_as_by_redis() {
        let kind = |is_signed, bits| Kind { is_signed, bits };
        for (kind, number, saturated) in [
            (kind(true, 5), -17, -16),
            (kind(true, 5), i64::MIN, 15),
            (kind(true, 5), 15 - i64::MAX, -16),
            (kind(true, 64), i64::MIN, i64::MIN),
            (kind(false, 8), -1, 255),
        ] {
            assert_eq!(
                kind.fit(kind.as_set(number, Overflow::Saturate), Overflow::Saturate),
                Some(saturated),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn numbers_that_do_not_fit_wrap_saturate_or_fail() {
        let (i8, u8) = (Kind { is_signed: true, bits: 8 }, Kind { is_signed: false, bits: 8 });
        for (kind, number, wrapped, saturated) in
            [(i8, 128, -128, 127), (i8, -129, 127, -128), (u8, 256, 0, 255), (u8, 300, 44, 255)]
        {
            assert_eq!(kind.fit(number, Overflow::Wrap), Some(wrapped));
            assert_eq!(kind.fit(number, Overflow::Saturate), Some(saturated));
            assert_eq!(kind.fit(number, Overflow::Fail), None);
            assert_eq!(kind.fit(100, Overflow::Fail), Some(100));
        }
    }
}
