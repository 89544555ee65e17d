//! The static table (RFC 7541, appendix A).

/// Fields by index; index 1 is the first.
#[rustfmt::skip]
pub(super) const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"), (b":path", b"/index.html"),
    (b":scheme", b"http"), (b":scheme", b"https"), (b":status", b"200"), (b":status", b"204"), (b":status", b"206"),
    (b":status", b"304"), (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""), (b"accept", b""),
    (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""), (b"authorization", b""),
    (b"cache-control", b""), (b"content-disposition", b""), (b"content-encoding", b""), (b"content-language", b""),
    (b"content-length", b""), (b"content-location", b""), (b"content-range", b""), (b"content-type", b""),
    (b"cookie", b""), (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""), (b"if-range", b""),
    (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""), (b"location", b""),
    (b"max-forwards", b""), (b"proxy-authenticate", b""), (b"proxy-authorization", b""), (b"range", b""),
    (b"referer", b""), (b"refresh", b""), (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""), (b"vary", b""),
    (b"via", b""), (b"www-authenticate", b""),
];

/// Position of a field in the static table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Position {
    /// Index of the name and the value.
    Field(usize),
    /// Least index of the name.
    Name(usize),
}

/// Finds a field, or else its name.
pub(super) fn position(name: &[u8], value: &[u8]) -> Option<Position> {
    // Entries of one name are neighbours.
    let first = STATIC.iter().position(|&(known, _)| known == name)?;
    let alike = STATIC[first..].iter().take_while(|&&(known, _)| known == name);
    let exact = alike.enumerate().find(|&(_, &(_, known))| known == value);
    Some(exact.map_or(Position::Name(first + 1), |(offset, _)| Position::Field(first + offset + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_at_its_index() {
        for (index, (name, value)) in STATIC.iter().enumerate() {
            assert_eq!(position(name, value), Some(Position::Field(index + 1)));
        }
        assert_eq!(position(b":status", b"416"), Some(Position::Name(8)));
        assert_eq!(position(b"x-none", b""), None);
    }
}
