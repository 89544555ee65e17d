//! Copies and comparisons of short strings.
//!
//! They read no byte beyond the end: it could lie in the next cache line, which has not been prefetched, and would cost more
//! than all the rest. Two loads that overlap in the middle need neither a loop nor a call.

/// Longest string that is copied without a call.
const SHORT: usize = 32;

/// Copies all of `from` to the beginning of `to`.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    match from.len() {
        0 => {}
        1 => to[0] = from[0],
        2..4 => copy_ends::<2>(from, to),
        4..8 => copy_ends::<4>(from, to),
        8..16 => copy_ends::<8>(from, to),
        16..=SHORT => copy_ends::<16>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes of a string of at most `2 * N`.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(&first), Some(&last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        let end = to.len() - N;
        to[..N].copy_from_slice(&first);
        to[end..].copy_from_slice(&last);
    }
}

/// True if `other` begins with `one`.
#[inline(always)]
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let other = &other[..one.len()];
    match one.len() {
        0 => true,
        1 => one[0] == other[0],
        2..4 => difference::<2>(one, other) == 0,
        4..8 => difference::<4>(one, other) == 0,
        8..=16 => difference::<8>(one, other) == 0,
        17..=SHORT => {
            difference::<8>(&one[..16], &other[..16]) | difference::<8>(&one[16..], &other[16..]) == 0
                && difference_of_last::<8>(one, other) == 0
        }
        _ => one == other,
    }
}

#[inline(always)]
fn difference<const N: usize>(one: &[u8], other: &[u8]) -> u64 {
    match (one.first_chunk::<N>(), other.first_chunk::<N>()) {
        (Some(first), Some(second)) => (number(first) ^ number(second)) | difference_of_last::<N>(one, other),
        // Less than N bytes: those before them have been compared, and the last N overlap them.
        _ => 0,
    }
}

#[inline(always)]
fn difference_of_last<const N: usize>(one: &[u8], other: &[u8]) -> u64 {
    match (one.last_chunk::<N>(), other.last_chunk::<N>()) {
        (Some(first), Some(second)) => number(first) ^ number(second),
        _ => 0,
    }
}

#[inline(always)]
fn number<const N: usize>(bytes: &[u8; N]) -> u64 {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(bytes);
    u64::from_ne_bytes(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_are_copied_and_nothing_else() {
        for len in 0..200 {
            let from: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
            let mut to = vec![0xff_u8; len + 16];
            copy(&from, &mut to);
            assert_eq!(to[..len], from, "{len}");
            assert!(to[len..].iter().all(|&byte| byte == 0xff), "{len}");
        }
    }

    #[test]
    fn a_difference_in_any_byte_is_seen() {
        for len in 0..100 {
            let one: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut other = one.clone();
            assert!(is_same(&one, &other), "{len}");
            for at in 0..len {
                other[at] ^= 0x80;
                assert!(!is_same(&one, &other), "byte {at} of {len}");
                other[at] ^= 0x80;
            }
        }
    }
}
