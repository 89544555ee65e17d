use wire::http1::coding::{AcceptedCodings, Coding, CodingSet};

/// A list of accepted codings means the same however it is split into fields and written, and the choice from it is a
/// coding that is offered and accepted. The first byte says what is offered.
pub fn accept_encoding(data: &[u8]) {
    let Some((&offered, list)) = data.split_first() else { return };
    let set = |bits: u8| Coding::ALL.into_iter().filter(|&coding| bits >> coding as u8 & 1 == 1).collect::<CodingSet>();
    let (preferred, others) = (set(offered & 15), set(offered >> 4));
    let accepted = AcceptedCodings::parse([list].into_iter());
    let in_fields = AcceptedCodings::parse(list.split(|&byte| byte == b','));
    assert_eq!(accepted, in_fields, "in one field, and each member in its own");
    let shouted = list.to_ascii_uppercase();
    assert_eq!(accepted, AcceptedCodings::parse([&shouted[..]].into_iter()), "names are case-insensitive");
    let longer = [b"compress;q=0.3,,", list, b" , deflate"].concat();
    assert_eq!(accepted, AcceptedCodings::parse([&longer[..]].into_iter()), "other codings change nothing");
    match accepted.choose(preferred, others) {
        Some(chosen) => {
            assert!(preferred.plus(others).contains(chosen), "{chosen:?} is not offered");
            let alone = CodingSet::EMPTY.with(chosen);
            assert_eq!(accepted.choose(alone, CodingSet::EMPTY), Some(chosen), "{chosen:?} is not accepted");
        }
        None => {
            for coding in Coding::ALL.into_iter().filter(|&coding| preferred.plus(others).contains(coding)) {
                let alone = CodingSet::EMPTY.with(coding);
                assert_eq!(accepted.choose(alone, CodingSet::EMPTY), None, "{coding:?} would do");
            }
        }
    }
}
