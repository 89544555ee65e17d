//! Options of SET and GETEX.

use store::Store;

use super::call::{Call, parse_integer};
use crate::reply::Refusal;

/// Unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// Time at which an entry is to expire, not yet parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry<'a> {
    /// Duration from now.
    In(Unit, &'a [u8]),
    /// Time since the Unix epoch.
    At(Unit, &'a [u8]),
}

/// Condition of SET about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Absent,
    Present,
}

/// Options of SET: `[NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`, in any order and case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SetOptions<'a> {
    pub(super) condition: Option<Condition>,
    pub(super) has_get: bool,
    pub(super) has_keep_ttl: bool,
    pub(super) expiry: Option<Expiry<'a>>,
}

/// Options of GETEX: `[EX s | PX ms | EXAT s | PXAT ms | PERSIST]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GetOptions<'a> {
    pub(super) has_persist: bool,
    pub(super) expiry: Option<Expiry<'a>>,
}

impl<'a> SetOptions<'a> {
    /// # Errors
    /// A syntax error. An option may be repeated, and the last expiry counts; options that contradict each other are an
    /// error.
    pub(super) fn parse(args: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = args;
        while let Some((&option, after)) = rest.split_first() {
            rest = after;
            match &*option.to_ascii_lowercase() {
                b"nx" if options.condition != Some(Condition::Present) => options.condition = Some(Condition::Absent),
                b"xx" if options.condition != Some(Condition::Absent) => options.condition = Some(Condition::Present),
                b"get" => options.has_get = true,
                b"keepttl" if options.expiry.is_none() => options.has_keep_ttl = true,
                name if !options.has_keep_ttl => options.expiry = Some(expiry(name, options.expiry, &mut rest)?),
                _ => return Err(Refusal::SYNTAX),
            }
        }
        Ok(options)
    }

    /// True if the outcome depends on the current entry.
    pub(super) fn has_condition(&self) -> bool {
        self.condition.is_some() || self.has_keep_ttl
    }

    /// True if the condition holds.
    pub(super) fn is_met(&self, exists: bool) -> bool {
        match self.condition {
            None => true,
            Some(Condition::Absent) => !exists,
            Some(Condition::Present) => exists,
        }
    }
}

impl<'a> GetOptions<'a> {
    /// # Errors
    /// A syntax error.
    pub(super) fn parse(args: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = args;
        while let Some((&option, after)) = rest.split_first() {
            rest = after;
            match &*option.to_ascii_lowercase() {
                b"persist" if options.expiry.is_none() => options.has_persist = true,
                name if !options.has_persist => options.expiry = Some(expiry(name, options.expiry, &mut rest)?),
                _ => return Err(Refusal::SYNTAX),
            }
        }
        Ok(options)
    }
}

/// Parses an expiry from an option and the argument behind it; one of another kind must not have come before.
fn expiry<'a>(name: &[u8], before: Option<Expiry<'a>>, rest: &mut &[&'a [u8]]) -> Result<Expiry<'a>, Refusal> {
    let (&time, after) = rest.split_first().ok_or(Refusal::SYNTAX)?;
    *rest = after;
    let expiry = match name {
        b"ex" => Expiry::In(Unit::Seconds, time),
        b"px" => Expiry::In(Unit::Milliseconds, time),
        b"exat" => Expiry::At(Unit::Seconds, time),
        b"pxat" => Expiry::At(Unit::Milliseconds, time),
        _ => return Err(Refusal::SYNTAX),
    };
    let is_same_kind = |before: Expiry<'_>| match (before, expiry) {
        (Expiry::In(a, _), Expiry::In(b, _)) | (Expiry::At(a, _), Expiry::At(b, _)) => a == b,
        (Expiry::In(..), Expiry::At(..)) | (Expiry::At(..), Expiry::In(..)) => false,
    };
    if before.is_some_and(|before| !is_same_kind(before)) {
        return Err(Refusal::SYNTAX);
    }
    Ok(expiry)
}

impl Expiry<'_> {
    /// Returns milliseconds since the Unix epoch, which are positive.
    ///
    /// # Errors
    /// `Some(refusal)` for text that is no integer, `None` for a time that no entry can expire at.
    fn resolve(self, now_unix_ms: u64) -> Result<u64, Option<Refusal>> {
        let (Self::In(unit, text) | Self::At(unit, text)) = self;
        let number = parse_integer(text).ok_or(Some(Refusal::NOT_AN_INTEGER))?;
        let number = Some(number).filter(|&number| number > 0);
        let ms = match unit {
            Unit::Seconds => number.and_then(|seconds| seconds.checked_mul(1000)),
            Unit::Milliseconds => number,
        };
        let at = match self {
            Self::In(..) => ms.and_then(|ms| ms.checked_add_unsigned(now_unix_ms)),
            Self::At(..) => ms,
        };
        at.and_then(|at| u64::try_from(at).ok()).ok_or(None)
    }
}

impl<S: Store> Call<'_, '_, S> {
    /// Returns the time of an expiry, in milliseconds since the Unix epoch.
    pub(super) fn expires_at(&self, expiry: Option<Expiry<'_>>) -> Result<Option<u64>, Refusal> {
        let resolve = |expiry: Expiry<'_>| match expiry.resolve(self.expiry_base_ms()) {
            Ok(at) => Ok(at),
            Err(refusal) => Err(refusal.unwrap_or_else(|| self.invalid_expiry())),
        };
        expiry.map(resolve).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(options: &str) -> Option<SetOptions<'_>> {
        let args: Vec<&[u8]> = options.split_ascii_whitespace().map(str::as_bytes).collect();
        SetOptions::parse(&args).ok()
    }

    fn get(options: &str) -> Option<GetOptions<'_>> {
        let args: Vec<&[u8]> = options.split_ascii_whitespace().map(str::as_bytes).collect();
        GetOptions::parse(&args).ok()
    }

    #[test]
    fn options_of_set_come_in_any_order_and_case() {
        let all = SetOptions {
            condition: Some(Condition::Absent),
            has_get: true,
            has_keep_ttl: false,
            expiry: Some(Expiry::In(Unit::Seconds, b"5")),
        };
        for options in ["nx GET ex 5", "Ex 5 get NX", "get get nx nx EX 4 ex 5"] {
            assert_eq!(set(options), Some(all), "{options}");
        }
        assert_eq!(set(""), Some(SetOptions::default()));
        assert_eq!(set("KeepTTL").unwrap(), SetOptions { has_keep_ttl: true, ..SetOptions::default() });
        assert_eq!(set("pxat 7").unwrap().expiry, Some(Expiry::At(Unit::Milliseconds, b"7")));
    }

    #[test]
    fn options_that_contradict_each_other_are_a_syntax_error() {
        for options in ["nx xx", "xx nx", "ex", "ex 1 px 1", "ex 1 exat 1", "keepttl ex 1", "ex 1 keepttl", "persist"] {
            assert_eq!(set(options), None, "{options}");
        }
        for options in ["nx", "get", "keepttl", "persist ex 1", "px 1 persist", "ex 1 px 2", "pxat"] {
            assert_eq!(get(options), None, "{options}");
        }
        assert!(get("persist PERSIST").unwrap().has_persist);
    }

    #[test]
    fn a_time_is_positive_and_does_not_overflow() {
        let now = 1_700_000_000_000;
        let resolve = |expiry: Expiry<'_>| expiry.resolve(now);
        assert_eq!(resolve(Expiry::In(Unit::Seconds, b"2")), Ok(now + 2000));
        assert_eq!(resolve(Expiry::In(Unit::Milliseconds, b"2")), Ok(now + 2));
        assert_eq!(resolve(Expiry::At(Unit::Seconds, b"2")), Ok(2000));
        assert_eq!(resolve(Expiry::At(Unit::Milliseconds, b"9223372036854775807")), Ok(i64::MAX as u64));
        for text in [&b"0"[..], b"-1", b"9223372036854775807"] {
            assert_eq!(resolve(Expiry::In(Unit::Seconds, text)), Err(None));
        }
        assert_eq!(resolve(Expiry::In(Unit::Milliseconds, b"9223372036854775807")), Err(None));
        assert_eq!(resolve(Expiry::In(Unit::Seconds, b"1.5")), Err(Some(Refusal::NOT_AN_INTEGER)));
    }
}
