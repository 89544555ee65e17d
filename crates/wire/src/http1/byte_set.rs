//! Sets of bytes that may stand in one place.

/// Bytes of a token (RFC 9110, section 5.6.2).
pub(super) const IN_TOKEN: [bool; 256] = byte_set(b"!#$%&'*+-.^_`|~");

/// True for the bytes of a token: of methods and of the names of fields.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    IN_TOKEN[byte as usize]
}

/// Returns the set of ASCII letters, digits and `others`.
pub(super) const fn byte_set(others: &[u8]) -> [bool; 256] {
    let mut set = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        set[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        set[others[at] as usize] = true;
        at += 1;
    }
    set
}
