//! A response, taken apart.

#[derive(Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| &**value);
        assert!(values.next().is_none(), "{name} is there twice");
        value
    }

    /// The first response to `method` in a stream and what is behind it; `None` when it is not whole yet.
    pub(crate) fn split<'a>(stream: &'a [u8], method: &str) -> Option<(Self, &'a [u8])> {
        let end = stream.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, rest) = (std::str::from_utf8(&stream[..end]).unwrap(), &stream[end + 4..]);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").expect("a status line")[..3].parse().unwrap();
        let fields = lines.map(|line| line.split_once(": ").expect("a field"));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let response = Self { status, fields, body: vec![] };
        assert_eq!(response.field("date").map(str::len), Some(29), "{head}");
        if method == "HEAD" || matches!(status, 204 | 304) {
            return Some((response, rest));
        }
        let length = response.field("content-length").expect("a length").parse().unwrap();
        let body = rest.get(..length)?.to_vec();
        Some((Self { body, ..response }, &rest[length..]))
    }
}
