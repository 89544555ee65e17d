//! Request heads of HTTP/2 (RFC 9113, sections 8.2 and 8.3), and the form in which HTTP/1 has them.

use crate::hpack::{self, Field};

/// Bytes that a field counts beside its name and value (section 6.5.2).
const FIELD_OVERHEAD: usize = 32;

/// More than what the form of HTTP/1 has beside the names and values.
const LINES_MAX: usize = 128;

/// Fields that are about one connection, and have no meaning here (section 8.2.2).
const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Head of a request while its fields arrive, and then the whole of it.
///
/// One is used for all requests of a connection: its buffers are kept.
#[derive(Debug, Default)]
pub struct RequestHead {
    /// `:method`; never empty in a valid head.
    method: Vec<u8>,
    /// `:path`; for CONNECT `:authority`.
    target: Vec<u8>,
    /// Lines of the fields, each ended by CRLF, without `host` and `cookie`. Names are in small letters.
    fields: Vec<u8>,
    /// `:authority`, or else `host`.
    authority: Vec<u8>,
    /// Values of all `cookie` fields, joined (section 8.2.3).
    cookies: Vec<u8>,
    /// Value of `content-length`.
    pub content_length: Option<u64>,
    /// True if the fields are larger than was announced. Those behind the limit are missing.
    pub is_too_large: bool,
    has_scheme: bool,
    has_path: bool,
    has_host: bool,
    has_fields: bool,
    is_malformed: bool,
    bytes: usize,
}

impl RequestHead {
    /// Forgets the last request.
    pub(super) fn clear(&mut self) {
        let Self { method, target, fields, authority, cookies, .. } = self;
        [method, target, fields, authority, cookies].into_iter().for_each(Vec::clear);
        self.content_length = None;
        self.bytes = 0;
        self.is_too_large = false;
        self.is_malformed = false;
        (self.has_scheme, self.has_path, self.has_host, self.has_fields) = (false, false, false, false);
    }

    /// Adds a field. What breaks a rule is remembered until [`RequestHead::finish`].
    pub(super) fn push(&mut self, Field { name, value }: Field<'_>, bytes_max: usize) {
        self.bytes += name.len() + value.len() + FIELD_OVERHEAD;
        if self.bytes > bytes_max {
            self.is_too_large = true;
            return;
        }
        let is_valid = match name {
            [b':', ..] => !self.has_fields && self.push_pseudo(name, value),
            _ => {
                self.has_fields = true;
                is_name(name) && is_value(value) && self.push_field(name, value)
            }
        };
        self.is_malformed |= !is_valid;
    }

    fn push_pseudo(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b":method" => {
                replace_empty(&mut self.method, value) && value.iter().all(|&byte| crate::http1::is_token_byte(byte))
            }
            b":path" => {
                let is_first = !self.has_path;
                self.has_path = true;
                is_first
                    && replace_empty(&mut self.target, value)
                    && !has_any(value, |byte| byte <= b' ' || byte == 0x7f)
            }
            b":authority" => replace_empty(&mut self.authority, value) && is_value(value),
            b":scheme" => !std::mem::replace(&mut self.has_scheme, true) && !value.is_empty(),
            _ => false,
        }
    }

    fn push_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b"te" if value != b"trailers" => return false,
            b"content-length" => {
                let length = parse_length(value);
                if length.is_none() || self.content_length.is_some() {
                    return false;
                }
                self.content_length = length;
            }
            b"host" => {
                // It may repeat what `:authority` says, and nothing else.
                if self.has_host || (!self.authority.is_empty() && self.authority != value) {
                    return false;
                }
                self.has_host = true;
                if self.authority.is_empty() {
                    self.authority.extend_from_slice(value);
                }
                return true;
            }
            b"cookie" => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                return true;
            }
            _ if OF_CONNECTIONS.contains(&name) => return false,
            _ => {}
        }
        self.push_line(name, value);
        true
    }

    fn push_line(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, b": ", value, b"\r\n"] {
            self.fields.extend_from_slice(part);
        }
    }

    /// Ends the head. `is_last` is true if no body follows. Returns false if the request is malformed.
    pub(super) fn finish(&mut self, is_last: bool) -> bool {
        if self.is_too_large {
            // Nobody knows what is missing.
            return !self.is_malformed;
        }
        let has_target = match &self.method[..] {
            b"" => false,
            b"CONNECT" => {
                self.target.clone_from(&self.authority);
                !self.has_path && !self.has_scheme && !self.target.is_empty()
            }
            _ => {
                let is_path = self.target.starts_with(b"/") || (self.method == b"OPTIONS" && self.target == b"*");
                is_path && self.has_scheme && (self.has_host || !self.authority.is_empty())
            }
        };
        let has_body = !is_last || matches!(self.content_length, None | Some(0));
        has_target && has_body && !self.is_malformed
    }

    /// Appends the head in the form of HTTP/1, in which the rest of a server reads it, with HTTP/2.0 as its version. A body of
    /// unknown length is said to be chunked where `is_chunked` says so.
    pub fn push_http1(&self, is_chunked: bool, out: &mut Vec<u8>) {
        out.reserve(self.bytes + LINES_MAX);
        for part in
            [&self.method[..], b" ", &self.target, b" HTTP/2.0\r\nhost: ", &self.authority, b"\r\n", &self.fields]
        {
            out.extend_from_slice(part);
        }
        if !self.cookies.is_empty() {
            for part in [b"cookie: ", &self.cookies[..], b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        if is_chunked {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Gives the memory back.
    pub(super) fn trim(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn method_and_target(&self) -> (&[u8], &[u8]) {
        (&self.method, &self.target)
    }
}

/// Appends the head of a response as a header block, of its status and the lines of a head of HTTP/1. What is about the
/// connection is left out.
pub fn push_response_block(status: u16, lines: &[u8], out: &mut Vec<u8>) {
    hpack::push_field(b":status", status.to_string().as_bytes(), out);
    let mut name = Vec::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        name.clear();
        name.extend(line[..colon].iter().map(u8::to_ascii_lowercase));
        if !OF_CONNECTIONS.contains(&&name[..]) {
            hpack::push_field(&name, line[colon + 1..].trim_ascii(), out);
        }
    }
}

/// True for the fields that may follow a body (section 8.1).
pub(super) fn is_trailer(Field { name, value }: Field<'_>) -> bool {
    is_name(name) && is_value(value) && !OF_CONNECTIONS.contains(&name)
}

fn replace_empty(place: &mut Vec<u8>, value: &[u8]) -> bool {
    let is_first = place.is_empty();
    place.extend_from_slice(value);
    is_first && !value.is_empty()
}

/// True for tokens without capital letters (section 8.2.1).
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| crate::http1::is_token_byte(byte) && !byte.is_ascii_uppercase())
}

/// True for values without line ends and NUL, and without blanks around them (section 8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !has_any(value, |byte| matches!(byte, 0 | b'\r' | b'\n')) && !is_blank(value.first()) && !is_blank(value.last())
}

/// Looks at every byte, which compilers make instructions for many at a time of.
fn has_any(value: &[u8], is_one: impl Fn(u8) -> bool) -> bool {
    value.iter().fold(false, |found, &byte| found | is_one(byte))
}

fn parse_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "h")];

    fn head(fields: &[(&str, &str)], is_last: bool) -> Option<RequestHead> {
        let mut head = RequestHead::default();
        for (name, value) in fields {
            head.push(Field { name: name.as_bytes(), value: value.as_bytes() }, 1000);
        }
        head.finish(is_last).then_some(head)
    }

    fn text(head: &RequestHead, is_chunked: bool) -> String {
        let mut text = Vec::new();
        head.push_http1(is_chunked, &mut text);
        String::from_utf8(text).unwrap()
    }

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], more].concat()
    }

    #[test]
    fn a_head_has_the_form_of_http_1() {
        let fields = [("accept", "*/*"), ("cookie", "a=1"), ("content-length", "0"), ("cookie", "b=2")];
        let head = head(&with(&fields), true).unwrap();
        let lines = "GET / HTTP/2.0\r\nhost: h\r\naccept: */*\r\ncontent-length: 0\r\ncookie: a=1; b=2\r\n";
        assert_eq!(text(&head, false), format!("{lines}\r\n"));
        assert_eq!(text(&head, true), format!("{lines}transfer-encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn nothing_of_the_last_request_is_left() {
        let mut used = head(&with(&[("a", "b"), ("content-length", "7")]), false).unwrap();
        used.clear();
        for (name, value) in GET {
            used.push(Field { name: name.as_bytes(), value: value.as_bytes() }, 1000);
        }
        assert!(used.finish(true));
        assert_eq!((&text(&used, false)[..], used.content_length), ("GET / HTTP/2.0\r\nhost: h\r\n\r\n", None));
    }

    #[test]
    fn host_stands_for_authority_and_may_repeat_it() {
        let without = [GET[0], GET[1], GET[2], ("host", "h")];
        for fields in [&without[..], &with(&[("host", "h")])] {
            assert_eq!(text(&head(fields, true).unwrap(), false), "GET / HTTP/2.0\r\nhost: h\r\n\r\n");
        }
        assert!(head(&with(&[("host", "other")]), true).is_none());
        assert!(head(&without[..3], true).is_none());
    }

    #[test]
    fn malformed_requests_are_refused() {
        for more in [
            ("Accept", "a"),
            ("", "a"),
            ("a b", "a"),
            ("a", "b\r\nc"),
            ("a", "b\0"),
            ("a", " b"),
            ("a", "b\t"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h3"),
            ("te", "gzip"),
            (":protocol", "websocket"),
            (":status", "200"),
            (":method", "GET"),
            (":path", "/"),
            (":scheme", "https"),
            (":authority", "h"),
            ("content-length", "x"),
            ("content-length", "-1"),
        ] {
            assert!(head(&with(&[more]), false).is_none(), "{more:?}");
        }
        assert!(head(&with(&[("content-length", "5")]), true).is_none(), "no body follows");
        assert!(head(&with(&[("content-length", "5"), ("content-length", "5")]), false).is_none());
        for (missing, _) in &GET[..3] {
            let fields: Vec<_> = GET.into_iter().filter(|(name, _)| name != missing).collect();
            assert!(head(&fields, true).is_none(), "without {missing}");
        }
        let late = [GET[0], GET[1], GET[3], ("a", "b"), GET[2]];
        assert!(head(&late, true).is_none(), "a pseudo-field behind a field");
        for target in ["", "x", "*", "http://h/", "/ HTTP/1.1", "/\r\na: b", "/\x7f"] {
            assert!(head(&[GET[0], GET[1], (":path", target), GET[3]], true).is_none(), "{target}");
        }
    }

    #[test]
    fn connect_and_options_have_targets_of_their_own() {
        let connect = [(":method", "CONNECT"), (":authority", "h:443")];
        assert_eq!(head(&connect, false).unwrap().target, b"h:443");
        assert!(head(&[&connect[..], &[(":path", "/")]].concat(), false).is_none());
        let options = [(":method", "OPTIONS"), GET[1], (":path", "*"), GET[3]];
        assert_eq!(head(&options, true).unwrap().target, b"*");
    }

    #[test]
    fn too_many_fields_are_counted_and_not_kept() {
        let value = "v".repeat(200);
        let fields: Vec<_> = GET.into_iter().chain([("a", &value[..]); 100]).collect();
        let head = head(&fields, true).unwrap();
        assert!(head.is_too_large && head.fields.len() < 1000);
    }
}
