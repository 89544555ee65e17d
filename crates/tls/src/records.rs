//! Records as they lie in the input (RFC 8446, 5.1).

/// Bytes of a record's header.
const HEADER: usize = 5;
/// The most that follows it: TLS 1.2 allows 2048 bytes of expansion, TLS 1.3 fewer.
const FRAGMENT_MAX: usize = 16 * 1024 + 2048;
/// The least that a session outside must be willing to hold: a torn record.
pub const HELD_BYTES_MIN: usize = 32 * 1024;
/// Content types from change_cipher_spec to application_data.
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=23;
/// Limit of the records that are processed at a time, in bytes: all of them are copied first.
const BATCH_MAX: usize = 64 * 1024;

/// The whole records at the beginning of some input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) len: usize,
    /// Bytes that the torn record behind them misses, as far as is known.
    pub(crate) missing: usize,
}

/// True if the first byte is that of a handshake.
pub(crate) fn is_handshake(input: &[u8]) -> bool {
    input.first() == Some(&22)
}

/// Returns the length of the first record of some that are whole; of all of it where it is no record.
pub(crate) fn first_len(records: &[u8]) -> usize {
    let header = records.first_chunk::<HEADER>();
    let len = header.map_or(usize::MAX, |&[.., high, low]| HEADER + usize::from(u16::from_be_bytes([high, low])));
    len.min(records.len())
}

/// Finds the whole records at the beginning of `input`. What is no record counts as whole: it is rustls that says what
/// is wrong with it.
pub(crate) fn whole(input: &[u8]) -> Whole {
    let mut len = 0;
    while len < BATCH_MAX {
        let Some((&[kind, major, _, high, low], _)) = input[len..].split_first_chunk::<HEADER>() else {
            // A stranger's first byte is enough to know better than to wait for more.
            let is_record = input.get(len).is_none_or(|kind| CONTENT_TYPES.contains(kind));
            return if is_record { Whole { len, missing: 0 } } else { Whole { len: input.len(), missing: 0 } };
        };
        let fragment = usize::from(u16::from_be_bytes([high, low]));
        if !CONTENT_TYPES.contains(&kind) || major != 3 || fragment > FRAGMENT_MAX {
            return Whole { len: input.len(), missing: 0 };
        }
        let end = len + HEADER + fragment;
        if end > input.len() {
            return Whole { len, missing: end - input.len() };
        }
        len = end;
    }
    Whole { len, missing: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_is_left_and_its_rest_is_known() {
        let record = |len: u16| [&[23, 3, 3], &len.to_be_bytes()[..], &vec![7; usize::from(len)]].concat();
        let input = [record(10), record(0), record(300)].concat();
        assert_eq!(whole(&input), Whole { len: input.len(), missing: 0 });
        assert_eq!(whole(&input[..input.len() - 1]), Whole { len: 20, missing: 1 });
        assert_eq!(whole(&input[..24]), Whole { len: 20, missing: 0 });
        assert_eq!(whole(&[]), Whole::default());
        let many = record(16_000).repeat(10);
        assert_eq!(whole(&many).len, 5 * 16_005, "a bounded number at a time");
    }

    #[test]
    fn what_is_no_record_is_passed_on_at_once() {
        for garbage in [&b"G"[..], b"GET / HTTP/1.1\r\n", &[22, 9, 9, 0, 1], &[23, 3, 3, 0xff, 0xff], &[0]] {
            assert_eq!(whole(garbage), Whole { len: garbage.len(), missing: 0 }, "{garbage:?}");
        }
    }
}
