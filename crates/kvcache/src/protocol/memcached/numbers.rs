//! `incr` and `decr`.

use store::{Attributes, Store};
use wire::memcached::{Direction, parse_unsigned, reply};

use super::{Call, Verdict, entry};

const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
const NO_MEMORY: &str = "SERVER_ERROR out of memory in incr";

/// Why a number has not been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    NotFound,
    NotANumber,
    /// It has another unique number than the one asked for.
    Outdated,
    NoMemory,
}

impl Unchanged {
    pub(super) fn line(self) -> &'static str {
        match self {
            Self::NotFound => Verdict::NotFound.word(),
            Self::NotANumber => NOT_A_NUMBER,
            Self::Outdated => Verdict::Exists.word(),
            Self::NoMemory => NO_MEMORY,
        }
    }
}

impl<S: Store + 'static> Call<'_, '_, S> {
    pub(super) fn arithmetic(&mut self, key: &[u8], direction: Direction, delta: u64, noreply: bool) {
        match self.add(key, direction, delta, None) {
            Ok(_) if noreply => {}
            Ok(value) => reply::number(self.out.inline(), value),
            Err(unchanged) => self.say(noreply, unchanged.line()),
        }
    }

    /// Counts up, round the end of 64 bits, or down, to 0 at the least. What has become shorter is padded with blanks,
    /// which are part of the value as every other command sees it.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        direction: Direction,
        delta: u64,
        cas: Option<u64>,
    ) -> Result<u64, Unchanged> {
        let counters = &self.memcached.counters;
        let mut item = self.keys.item(key);
        let is_up = direction == Direction::Increment;
        let Some(old) = item.peek() else {
            counters.counted(is_up, false);
            return Err(Unchanged::NotFound);
        };
        // memcached looks at an empty value before, and at any other after it has looked at the unique number.
        let is_outdated = cas.is_some_and(|cas| cas != 0 && cas != old.attributes.version & entry::NUMBER);
        if is_outdated && !old.bytes.is_empty() {
            return Err(Unchanged::Outdated);
        }
        let before = number(&old.bytes).ok_or(Unchanged::NotANumber)?;
        let (width, attributes) = (old.bytes.len(), old.attributes);
        let after = if is_up { before.wrapping_add(delta) } else { before.saturating_sub(delta) };
        let digits = format!("{after:<width$}");
        // Longer than before, it is a new item to memcached, and neither stale nor claimed.
        let marks = if digits.len() > width { 0 } else { entry::STALE | entry::CLAIMED };
        let attributes = Attributes { version: attributes.version & marks, ..attributes };
        item.set_with_version(digits.as_bytes(), attributes).map_err(|_| Unchanged::NoMemory)?;
        if marks != 0
            && entry::was_fetched(attributes)
            && let Some(written) = item.attributes()
        {
            entry::fetched(&mut item, written);
        }
        counters.counted(is_up, true);
        Ok(after)
    }
}

/// As C reads it: up to a NUL, and what stands behind a blank does not matter.
fn number(value: &[u8]) -> Option<u64> {
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
            assert_eq!(number(value), read, "{value:?}");
        }
    }
}
