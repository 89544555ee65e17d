//! `incr` and `decr`.

use store::{Attributes, Store};
use wire::memcached::{Direction, parse_unsigned, reply};

use super::{Call, StoreOutcome, entry};
use crate::state::UNIQUE_NUMBER;

const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
const NO_MEMORY: &str = "SERVER_ERROR out of memory in incr";

/// Reason why a number has not been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArithmeticError {
    NotFound,
    NotANumber,
    /// The item has another unique number than the given one.
    Outdated,
    NoMemory,
}

impl ArithmeticError {
    pub(super) fn line(self) -> &'static str {
        match self {
            Self::NotFound => StoreOutcome::NotFound.word(),
            Self::NotANumber => NOT_A_NUMBER,
            Self::Outdated => StoreOutcome::Exists.word(),
            Self::NoMemory => NO_MEMORY,
        }
    }
}

impl<S: Store + 'static> Call<'_, '_, S> {
    pub(super) fn arithmetic(&mut self, key: &[u8], direction: Direction, delta: u64, noreply: bool) {
        match self.add(key, direction, delta, None) {
            Ok(_) if noreply => {}
            Ok(value) => reply::number(self.out.inline(), value),
            Err(error) => self.write_line(noreply, error.line()),
        }
    }

    /// Adds, modulo 2^64, or subtracts, down to 0. A number that has become shorter is padded with blanks, which are part of
    /// the value for every other command.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        direction: Direction,
        delta: u64,
        cas: Option<u64>,
    ) -> Result<u64, ArithmeticError> {
        let counters = &self.memcached.counters;
        let mut item = self.keys.item(key);
        let is_up = direction == Direction::Increment;
        let Ok(Some(old)) = item.peek() else {
            counters.add_arithmetic(is_up, false);
            return Err(ArithmeticError::NotFound);
        };
        // memcached checks an empty value before the unique number, and any other after it.
        let is_outdated = cas.is_some_and(|cas| cas != 0 && cas != old.attributes.version & UNIQUE_NUMBER);
        if is_outdated && !old.bytes.is_empty() {
            return Err(ArithmeticError::Outdated);
        }
        let before = parse_number(&old.bytes).ok_or(ArithmeticError::NotANumber)?;
        let (width, attributes) = (old.bytes.len(), old.attributes);
        let after = if is_up { before.wrapping_add(delta) } else { before.saturating_sub(delta) };
        let digits = format!("{after:<width$}");
        // A longer number is a new item for memcached, neither stale nor claimed.
        let marks = if digits.len() > width { 0 } else { entry::STALE | entry::CLAIMED };
        let attributes = Attributes { version: attributes.version & marks, ..attributes };
        item.set_with_version(digits.as_bytes(), attributes).map_err(|_| ArithmeticError::NoMemory)?;
        if marks != 0
            && entry::is_fetched(attributes)
            && let Some(written) = item.attributes()
        {
            entry::mark_fetched(&mut item, written);
        }
        counters.add_arithmetic(is_up, true);
        Ok(after)
    }
}

/// Parses a number as C does: up to a NUL, and without what stands behind a blank.
fn parse_number(value: &[u8]) -> Option<u64> {
    let end = memchr::memchr(0, value).unwrap_or(value.len());
    parse_unsigned(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        for (value, read) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b" 12\t x", Some(12)),
            (b"+5", Some(5)),
            (b"-5", None),
            (b"1\x002", Some(1)),
            (b"5a", None),
            (b"", None),
            (b" ", None),
        ] {
            assert_eq!(parse_number(value), read, "{value:?}");
        }
    }
}
