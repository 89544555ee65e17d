use proptest::prelude::*;

use super::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, HpackError> {
    let mut fields = Vec::new();
    decoder.decode(block, |field| fields.push((field.name.to_vec(), field.value.to_vec())))?;
    Ok(fields)
}

fn fields(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// RFC 7541, appendix C.4: three requests of one connection, in the Huffman code.
#[test]
fn requests_of_the_appendix_are_read() {
    let mut decoder = Decoder::default();
    let common = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    let first = hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
    assert_eq!(decoded(&mut decoder, &first), Ok(fields(&common)));
    let second = hex("8286 84be 5886 a8eb 1064 9cbf");
    let more = [&common[..], &[("cache-control", "no-cache")]].concat();
    assert_eq!(decoded(&mut decoder, &second), Ok(fields(&more)));
    let third = hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
    let other = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ];
    assert_eq!(decoded(&mut decoder, &third), Ok(fields(&other)));
}

/// RFC 7541, appendix C.6: responses under a table of 256 bytes, from which entries are evicted.
#[test]
fn responses_of_the_appendix_evict_entries() {
    let mut decoder = Decoder::with_table_bytes(256);
    let date = "Mon, 21 Oct 2013 20:13:21 GMT";
    let first = hex(
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
    );
    let location = ("location", "https://www.example.com");
    let common = [("cache-control", "private"), ("date", date), location];
    assert_eq!(decoded(&mut decoder, &first), Ok(fields(&[&[(":status", "302")][..], &common].concat())));
    let second = hex("4883 640e ffc1 c0bf");
    assert_eq!(decoded(&mut decoder, &second), Ok(fields(&[&[(":status", "307")][..], &common].concat())));
}

#[test]
fn malformed_blocks_are_refused() {
    for (block, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("41", HpackError::Truncated),
        ("ff", HpackError::Truncated),
        ("ff ff ff ff ff 0f", HpackError::Integer),
        ("00 03 61", HpackError::Truncated),
        ("00", HpackError::Truncated),
        ("00 81 ff 00", HpackError::Huffman),
        ("3f e2 1f", HpackError::SizeUpdate),
        ("82 20", HpackError::SizeUpdate),
    ] {
        assert_eq!(decoded(&mut Decoder::default(), &hex(block)), Err(error), "{block}");
    }
}

#[test]
fn a_smaller_table_is_allowed_first_in_a_block() {
    let mut decoder = Decoder::default();
    assert_eq!(decoded(&mut decoder, &hex("40 01 61 01 62")), Ok(fields(&[("a", "b")])));
    assert_eq!(decoded(&mut decoder, &hex("20 3f e1 1f 82")), Ok(fields(&[(":method", "GET")])));
    assert_eq!(decoded(&mut decoder, &hex("be")), Err(HpackError::Index), "emptied by the first of the two");
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(
        wanted in proptest::collection::vec(("[a-z-]{1,20}", proptest::collection::vec(any::<u8>(), 0..200)), 0..20),
        statuses in proptest::collection::vec(100..600_u16, 0..4),
    ) {
        let statuses = statuses.into_iter().map(|status| (b":status".to_vec(), status.to_string().into_bytes()));
        let wanted: Fields =
            statuses.chain(wanted.into_iter().map(|(name, value)| (name.into_bytes(), value))).collect();
        let mut block = Vec::new();
        push_size_update(&mut block);
        wanted.iter().for_each(|(name, value)| push_field(name, value, &mut block));
        let mut decoder = Decoder::default();
        prop_assert_eq!(decoded(&mut decoder, &block), Ok(wanted.clone()));
        // The same block again, on the same connection: it depends on nothing.
        prop_assert_eq!(decoded(&mut decoder, &block), Ok(wanted));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(blocks: Vec<Vec<u8>>) {
        let mut decoder = Decoder::default();
        for block in blocks {
            if decoded(&mut decoder, &block).is_err() {
                break;
            }
        }
    }
}
