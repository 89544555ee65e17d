//! Byte ranges (RFC 9110, section 14): the parts of a file that a request asks for.

use std::ops::Range;

use smallvec::SmallVec;

use super::{
    Method, Request,
    conditional::{Validators, only},
    date,
};

/// Most parts of one response; for more, the whole file is sent.
pub const PARTS_MAX: usize = 16;

/// The parts of a file in the order of the request, none of them empty, no byte in two of them.
pub type Parts = SmallVec<[Range<u64>; 2]>;

/// The part of a file that a response has to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The whole file: the request has no range, or none that makes sense.
    Whole,
    /// 206: at least one part.
    Parts(Parts),
    /// 416: no part that was asked for exists.
    Unsatisfiable,
}

/// Returns the part of a file of `size` bytes that `request` asks for, once its preconditions hold. `now` is in seconds
/// since the epoch.
///
/// Ranges are defined for GET alone. Two `Range` fields count as none.
pub fn select(request: &Request<'_>, validators: Validators<'_>, size: u64, now: u64) -> Selection {
    if !request.has_range || request.method != Method::Get || !is_unchanged(request, validators, now) {
        return Selection::Whole;
    }
    only(request.values("range")).map_or(Selection::Whole, |value| resolve(value, size))
}

/// True if the file is still the one that the client has a part of (RFC 9110, section 13.1.5).
fn is_unchanged(request: &Request<'_>, validators: Validators<'_>, now: u64) -> bool {
    let mut values = request.values("if-range");
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(tag), None) if tag.starts_with(b"\"") => tag == validators.etag,
        // A file may change twice in a second: only a second that is over tells two versions apart.
        (Some(date), None) => date::parse_date(date) == Some(validators.modified) && validators.modified < now,
        (Some(_), Some(_)) => false,
    }
}

/// Returns the part of `size` bytes that the value of a `Range` field selects. An unknown unit, a value that breaks the
/// grammar, more than [`PARTS_MAX`] ranges, and ranges that overlap select everything.
pub fn resolve(value: &[u8], size: u64) -> Selection {
    let Some(list) = strip_unit(value) else { return Selection::Whole };
    let (mut parts, mut count, mut is_met) = (Parts::new(), 0, false);
    for element in list.split(|&byte| byte == b',') {
        let element = element.trim_ascii();
        if element.is_empty() {
            continue;
        }
        let Some(spec) = Spec::parse(element) else { return Selection::Whole };
        count += 1;
        if count > PARTS_MAX {
            return Selection::Whole;
        }
        is_met |= spec.is_satisfied_by(size);
        let part = spec.within(size);
        if part.is_empty() {
            continue;
        }
        if parts.iter().any(|other| other.start < part.end && part.start < other.end) {
            return Selection::Whole;
        }
        parts.push(part);
    }
    match (count, parts.is_empty()) {
        (0, _) => Selection::Whole,
        (_, false) => Selection::Parts(parts),
        // The last bytes of an empty file: there are none, and no `Content-Range` could say so.
        (_, true) if is_met => Selection::Whole,
        (_, true) => Selection::Unsatisfiable,
    }
}

fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, list) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(list)
}

/// One range as it is written. Positions beyond 64 bits are beyond every file.
enum Spec {
    From(u64),
    Between { first: u64, last: u64 },
    Last(u64),
}

impl Spec {
    fn parse(element: &[u8]) -> Option<Self> {
        let hyphen = memchr::memchr(b'-', element)?;
        let (first, last) = (&element[..hyphen], &element[hyphen + 1..]);
        match (first.is_empty(), last.is_empty()) {
            (true, _) => Some(Self::Last(number(last)?)),
            (false, true) => Some(Self::From(number(first)?)),
            (false, false) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between { first, last })
            }
        }
    }

    fn is_satisfied_by(&self, size: u64) -> bool {
        match *self {
            Self::From(first) | Self::Between { first, .. } => first < size,
            Self::Last(count) => count > 0,
        }
    }

    /// Returns the part of a file of `size` bytes, which may be empty.
    fn within(&self, size: u64) -> Range<u64> {
        match *self {
            Self::From(first) => first.min(size)..size,
            Self::Between { first, last } => first.min(size)..last.saturating_add(1).min(size),
            Self::Last(count) => size.saturating_sub(count)..size,
        }
    }
}

/// Parses `1*DIGIT`, at most `u64::MAX`.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number
        .then(|| digits.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http1::{HeadLimits, HeadParser, date::format_date};

    /// Makes a selection from starts and ends.
    fn parts(ranges: &[(u64, u64)]) -> Selection {
        Selection::Parts(ranges.iter().map(|&(start, end)| start..end).collect())
    }

    #[test]
    fn the_examples_of_the_rfc_and_its_corners() {
        use Selection::{Unsatisfiable, Whole};
        for (value, size, want) in [
            ("bytes=0-499", 10_000, parts(&[(0, 500)])),
            ("bytes=500-999", 10_000, parts(&[(500, 1_000)])),
            ("bytes=-500", 10_000, parts(&[(9_500, 10_000)])),
            ("bytes=9500-", 10_000, parts(&[(9_500, 10_000)])),
            ("bytes=0-0,-1", 10_000, parts(&[(0, 1), (9_999, 10_000)])),
            ("BYTES= 0-999, 4500-5499,, -1000 ,", 10_000, parts(&[(0, 1_000), (4_500, 5_500), (9_000, 10_000)])),
            ("bytes=5-6,0-1", 10, parts(&[(5, 7), (0, 2)])),
            ("bytes=0-4,5-9", 10, parts(&[(0, 5), (5, 10)])),
            ("bytes=0-", 10, parts(&[(0, 10)])),
            ("bytes=0-99999999999999999999999999", 10, parts(&[(0, 10)])),
            ("bytes=-99999999999999999999999999", 10, parts(&[(0, 10)])),
            ("bytes=0-1,99-", 10, parts(&[(0, 2)])),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=99999999999999999999999999-", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-0", 0, Unsatisfiable),
            ("bytes=-5", 0, Whole),
            ("bytes=0-4,4-9", 10, Whole),
            ("bytes=0-,-1", 10, Whole),
            ("bytes=2-1", 10, Whole),
            ("bytes=", 10, Whole),
            ("bytes=,", 10, Whole),
            ("bytes=-", 10, Whole),
            ("bytes=a-b", 10, Whole),
            ("bytes=+1-2", 10, Whole),
            ("bytes=1 - 2", 10, Whole),
            ("bytes=0-1;2-3", 10, Whole),
            ("bytes 0-1", 10, Whole),
            ("lines=0-1", 10, Whole),
            ("", 10, Whole),
        ] {
            assert_eq!(resolve(value.as_bytes(), size), want, "{value} of {size}");
        }
        let many = |count: u64| {
            let list: Vec<String> = (0..count).map(|at| format!("{}-{}", 2 * at, 2 * at)).collect();
            resolve(format!("bytes={}", list.join(",")).as_bytes(), 1_000)
        };
        assert!(matches!(many(16), Selection::Parts(parts) if parts.len() == PARTS_MAX));
        assert_eq!(many(17), Whole);
    }

    #[test]
    fn a_range_of_another_version_is_the_whole_file() {
        const MODIFIED: u64 = 784_111_777;
        let date = |seconds| String::from_utf8(format_date(seconds).to_vec()).unwrap();
        let ask = |method: &str, fields: &str, now| {
            let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let request = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
            select(&request, Validators { etag: b"\"a\"", modified: MODIFIED, changed: MODIFIED }, 10, now)
        };
        let (part, now) = (parts(&[(0, 2)]), MODIFIED + 1);
        for (if_range, now, is_same) in [
            ("\"a\"".to_owned(), now, true),
            ("\"b\"".into(), now, false),
            ("W/\"a\"".into(), now, false),
            (date(MODIFIED), now, true),
            (date(MODIFIED), MODIFIED, false),
            (date(MODIFIED - 1), now, false),
            (date(MODIFIED + 1), now + 1, false),
            ("yesterday".into(), now, false),
            ("\"a\"\r\nIf-Range: \"a\"".into(), now, false),
        ] {
            let got = ask("GET", &format!("Range: bytes=0-1\r\nIf-Range: {if_range}\r\n"), now);
            assert_eq!(got, if is_same { part.clone() } else { Selection::Whole }, "{if_range}");
        }
        assert_eq!(ask("GET", "range: bytes=0-1\r\n", now), part);
        assert_eq!(ask("GET", "If-Range: \"b\"\r\n", now), Selection::Whole);
        assert_eq!(ask("GET", "Range: bytes=0-1\r\nRange: bytes=0-1\r\n", now), Selection::Whole);
        assert_eq!(ask("HEAD", "Range: bytes=0-1\r\n", now), Selection::Whole);
    }

    /// Returns the bytes that a list of ranges names, one by one and in its order.
    fn model(specs: &[(Option<u64>, Option<u64>)], size: u64) -> Selection {
        let named = |spec: &(Option<u64>, Option<u64>)| -> Vec<u64> {
            (0..size)
                .filter(|&at| match *spec {
                    (Some(first), Some(last)) => (first..=last).contains(&at),
                    (Some(first), None) => at >= first,
                    (None, Some(count)) => size - at <= count,
                    (None, None) => false,
                })
                .collect()
        };
        let lists: Vec<Vec<u64>> = specs.iter().map(named).filter(|list| !list.is_empty()).collect();
        let mut all = lists.concat();
        all.sort_unstable();
        let is_nonsense = specs.iter().any(|&(first, last)| first > last && last.is_some() && first.is_some());
        let is_suffix = |spec: &(Option<u64>, Option<u64>)| matches!(spec, (None, Some(1..)));
        match () {
            () if is_nonsense || specs.len() > PARTS_MAX || all.windows(2).any(|two| two[0] == two[1]) => {
                Selection::Whole
            }
            () if lists.is_empty() && specs.iter().any(is_suffix) => Selection::Whole,
            () if lists.is_empty() => Selection::Unsatisfiable,
            () => Selection::Parts(lists.iter().map(|list| list[0]..list[list.len() - 1] + 1).collect()),
        }
    }

    proptest! {
        #[test]
        fn selections_agree_with_counting_bytes(
            specs in proptest::collection::vec((proptest::option::of(0..40_u64), 0..40_u64, any::<bool>()), 1..20),
            size in 0..36_u64,
        ) {
            let specs: Vec<_> = specs.into_iter()
                .map(|(first, last, is_open)| (first, (first.is_none() || !is_open).then_some(last)))
                .collect();
            let shown = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
            let list: Vec<String> = specs.iter().map(|&(first, last)| format!("{}-{}", shown(first), shown(last))).collect();
            prop_assert_eq!(resolve(format!("bytes={}", list.join(", ")).as_bytes(), size), model(&specs, size));
        }

        /// For every range, all bytes sent are within the file, and none is sent twice.
        #[test]
        fn no_range_selects_bytes_beyond_the_file(value in "(bytes=)?[-0-9, =a]{0,30}", size in any::<u64>()) {
            if let Selection::Parts(parts) = resolve(value.as_bytes(), size) {
                prop_assert!(!parts.is_empty() && parts.len() <= PARTS_MAX);
                prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
                prop_assert!(parts.iter().map(|part| u128::from(part.end - part.start)).sum::<u128>() <= u128::from(size));
            }
        }
    }
}
