use proptest::prelude::*;

use super::*;

fn codecs() -> impl Iterator<Item = Codec> {
    Compression::value_variants().iter().map(|&compression| Codec::new(compression, 30))
}

/// Values that compress well, values that do not, and values around the threshold.
fn values() -> impl Strategy<Value = Vec<u8>> {
    let repeated = (proptest::collection::vec(any::<u8>(), 1..40), 1..400_usize).prop_map(|(piece, n)| piece.repeat(n));
    prop_oneof![proptest::collection::vec(any::<u8>(), 0..2000), repeated]
}

proptest! {
    #[test]
    fn every_codec_decodes_what_any_codec_has_encoded(value in values()) {
        for codec in codecs() {
            let (encoded, encoding) = codec.encode(&value);
            for other in codecs() {
                for encoding in [encoding, encoding | FETCHED] {
                    let decoded = other.decode(&encoded, encoding);
                    prop_assert_eq!(decoded.as_deref(), Some(&value[..]));
                }
            }
            let is_worth_it = encoded.len() <= value.len() - value.len() / 16;
            prop_assert!(encoding == RAW || is_worth_it, "{} of {} bytes", encoded.len(), value.len());
        }
    }

    #[test]
    fn decoding_never_exceeds_the_length_in_front(mut encoded in values(), encoding in 0_u8..16) {
        let codec = Codec::default();
        if let Some(length) = encoded.first_chunk_mut::<4>() {
            *length = (u32::from_le_bytes(*length) % 100_000).to_le_bytes();
        }
        let len = decoded_len(&encoded);
        match codec.decode(&encoded, encoding) {
            Some(value) if encoding & ALGORITHM != RAW => prop_assert_eq!(Some(value.len()), len),
            Some(value) => prop_assert_eq!(&*value, &encoded[..]),
            None => prop_assert_eq!(DecodeError::ALL.iter().map(|&error| codec.failures(error)).sum::<u64>(), 1),
        }
    }
}

#[test]
fn a_value_with_a_wrong_length_is_not_decoded() {
    let value = b"0123456789".repeat(1000);
    for codec in codecs().filter(|codec| codec.compression() != Compression::None) {
        let (encoded, encoding) = codec.encode(&value);
        assert_ne!(encoding, RAW, "{:?}", codec.compression());
        for len in [0, 1, 9_999, 10_001, u32::MAX] {
            let mut encoded = encoded.to_vec();
            encoded[..4].copy_from_slice(&len.to_le_bytes());
            assert_eq!(codec.decode(&encoded, encoding), None, "{:?} as {len}", codec.compression());
        }
        assert_eq!(codec.decode(&encoded[..3], encoding), None);
        assert_eq!(codec.decode(&encoded, ALGORITHM), None);
        assert_eq!(DecodeError::ALL.iter().map(|&error| codec.failures(error)).collect::<Vec<_>>(), [1, 2, 4]);
    }
}

#[test]
fn a_value_that_does_not_shrink_is_kept_as_it_is() {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: Vec<u8> = (0..5000).map(|_| random.u8(..)).collect();
    for codec in codecs() {
        assert_eq!(codec.encode(&noise), (Cow::Borrowed(&noise[..]), RAW), "{:?}", codec.compression());
        assert_eq!(codec.encode(&[b'a'; 29]).1, RAW, "{:?}", codec.compression());
    }
}

#[test]
fn every_choice_has_an_encoding_of_its_own() {
    for (at, &kind) in Compression::value_variants().iter().enumerate() {
        assert_eq!(usize::from(kind.encoding()), at);
        assert!(kind.encoding() <= ALGORITHM);
    }
}
