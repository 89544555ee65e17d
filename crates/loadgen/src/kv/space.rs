//! Keys, and the value that belongs to each: a reply can be checked without having kept anything.

use super::{ScriptError, ValueSizes};

/// Prefixes of keys that are written and of keys that never are; shortened where a key has no room for them.
const PREFIX: &[u8; 4] = b"key:";
const PREFIX_MISSING: &[u8; 4] = b"mis:";
/// No separator of any protocol: no blank, no control character.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const WORDS: [&str; 16] = [
    "cache", "value", "north", "river", "stone", "light", "paper", "green", "seven", "winter", "market", "silver",
    "garden", "yellow", "letter", "simple",
];
/// The shortest JSON document has room for its fixed part.
pub const JSON_BYTES_MIN: usize = 64;

/// Content of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Letters and digits that depend on the key.
    Letters,
    /// A JSON object that depends on the key, without line breaks.
    Json,
    /// `x`, as often as the size says: what `loadgen null` answers.
    Constant,
}

/// All keys `0..keys`, and their values. Neither depends on a seed, so what one run stored another can verify.
#[derive(Clone, Debug)]
pub struct KeySpace {
    keys: u32,
    key_bytes: usize,
    prefix_bytes: usize,
    values: Values,
    sizes: ValueSizes,
}

impl KeySpace {
    /// `keys` different keys of `key_bytes` each, with values as long as `sizes` says.
    ///
    /// # Errors
    /// The keys are too short to differ, or JSON does not fit the values.
    pub fn new(keys: u32, key_bytes: usize, values: Values, sizes: impl Into<ValueSizes>) -> Result<Self, ScriptError> {
        let sizes = sizes.into();
        let digits = keys.saturating_sub(1).to_string().len();
        let prefix_bytes = key_bytes.saturating_sub(digits).min(PREFIX.len());
        if prefix_bytes == 0 {
            return Err(ScriptError::KeysTooShort { keys, key_bytes_min: digits + 1 });
        }
        if values == Values::Json && sizes.min() < JSON_BYTES_MIN {
            return Err(ScriptError::JsonTooShort);
        }
        Ok(Self { keys, key_bytes, prefix_bytes, values, sizes })
    }

    #[must_use]
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The longest value.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.sizes.max()
    }

    /// Replaces `out` by a key: `key:000000000042`.
    pub fn key(&self, key: u32, out: &mut Vec<u8>) {
        self.write_key(PREFIX, key, out);
    }

    /// Replaces `out` by a key of the same length that is never written.
    pub fn missing_key(&self, key: u32, out: &mut Vec<u8>) {
        self.write_key(PREFIX_MISSING, key, out);
    }

    fn write_key(&self, prefix: &[u8], key: u32, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&prefix[..self.prefix_bytes]);
        out.resize(self.key_bytes, b'0');
        let mut number = key;
        for digit in out[self.prefix_bytes..].iter_mut().rev() {
            if number == 0 {
                break;
            }
            *digit += u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
        }
    }

    /// The length of a key's value.
    #[must_use]
    pub fn value_length(&self, key: u32) -> usize {
        self.sizes.length(key)
    }

    /// Replaces `out` by a key's value.
    pub fn value(&self, key: u32, out: &mut Vec<u8>) {
        out.clear();
        let length = self.value_length(key);
        let mut noise = Noise(u64::from(key));
        match self.values {
            Values::Constant => out.resize(length, b'x'),
            Values::Letters => {
                while out.len() < length {
                    let bits = noise.next();
                    // Ten letters of six bits each.
                    out.extend((0..10).map(|place| LETTERS[(bits >> (6 * place) & 63) as usize]));
                }
                out.truncate(length);
            }
            Values::Json => write_json(key, length, &mut noise, out),
        }
    }
}

fn write_json(key: u32, length: usize, noise: &mut Noise, out: &mut Vec<u8>) {
    let (active, score) = (noise.below(2) == 1, noise.below(1_000));
    out.extend_from_slice(format!("{{\"id\":{key},\"active\":{active},\"score\":{score},\"text\":\"").as_bytes());
    let end = length - 2;
    while out.len() < end {
        out.extend_from_slice(WORDS[noise.below(WORDS.len())].as_bytes());
        out.push(b' ');
    }
    out.truncate(end);
    out.extend_from_slice(b"\"}");
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). A generator of our own,
/// because values must be the same in every version of this program.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number from 0 to less than 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a double has")]
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, ops::RangeInclusive};

    use super::*;

    fn space(keys: u32, key_bytes: usize, values: Values, value_bytes: RangeInclusive<usize>) -> KeySpace {
        KeySpace::new(keys, key_bytes, values, value_bytes).expect("it fits")
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"left over".to_vec();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn keys_are_those_of_redis_benchmark_as_far_as_they_have_room() {
        let cases = [
            (16, "key:000000000042", "mis:000000000042"),
            (8, "key:0042", "mis:0042"),
            (4, "ke42", "mi42"),
            (3, "k42", "m42"),
        ];
        for (bytes, key, missing) in cases {
            let space = space(100, bytes, Values::Letters, 1..=1);
            assert_eq!(text(|out| space.key(42, out)), key);
            assert_eq!(text(|out| space.missing_key(42, out)), missing);
        }
        assert!(KeySpace::new(101, 3, Values::Letters, 1..=1).is_err());
    }

    #[test]
    fn values_differ_between_keys_and_not_between_runs() {
        let space = space(1_000_000, 16, Values::Letters, 12..=12);
        assert_eq!(text(|out| space.value(7, out)), text(|out| space.value(7, out)));
        let values: HashSet<_> = (0..10_000).map(|key| text(|out| space.value(key, out))).collect();
        assert_eq!(values.len(), 10_000);
        // What is stored today must verify tomorrow.
        assert_eq!(text(|out| space.value(0, out)), "v2cH7lDqgI0X");
    }

    #[test]
    fn lengths_cover_the_whole_range() {
        let space = space(10_000, 16, Values::Letters, 0..=9);
        let lengths: HashSet<_> = (0..10_000).map(|key| text(|out| space.value(key, out)).len()).collect();
        assert_eq!(lengths, (0..=9).collect());
        assert!((0..100).all(|key| space.value_length(key) == text(|out| space.value(key, out)).len()));
    }

    #[test]
    fn documents_are_json_without_separators() {
        let space = space(u32::MAX, 16, Values::Json, JSON_BYTES_MIN..=300);
        for key in (0..2_000).chain([u32::MAX - 1]) {
            let document = text(|out| space.value(key, out));
            assert_eq!(document.len(), space.value_length(key));
            let parsed: serde_json::Value = serde_json::from_str(&document).expect("JSON");
            assert_eq!(parsed["id"], key);
            assert!(document.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
        assert!(KeySpace::new(1, 16, Values::Json, 12..=12).is_err());
    }
}
