//! Preconditions (RFC 9110, section 13).

use super::{Method, Request, date};

/// What is known about the file that a request selects.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// A strong entity tag with its quotes.
    pub etag: &'a [u8],
    /// Last modification, seconds since the epoch.
    pub modified: u64,
}

/// What the preconditions of a request come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Serve,
    /// 304: the client has it.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110, section 13.2.2. A date that cannot be read, or that is given
/// twice, is as good as none.
pub fn evaluate(request: &Request<'_>, validators: Validators<'_>) -> Verdict {
    if !request.conditional {
        return Verdict::Serve;
    }
    let date = |name| date::parse_date(only(request.values(name))?);
    let current = match listed(request, "if-match", validators.etag, Comparison::Strong) {
        Some(matches) => matches,
        None => date("if-unmodified-since").is_none_or(|limit| validators.modified <= limit),
    };
    if !current {
        return Verdict::Failed;
    }
    let is_read = matches!(request.method, Method::Get | Method::Head);
    match listed(request, "if-none-match", validators.etag, Comparison::Weak) {
        Some(true) if is_read => Verdict::NotModified,
        Some(true) => Verdict::Failed,
        Some(false) => Verdict::Serve,
        None if is_read && date("if-modified-since").is_some_and(|since| validators.modified <= since) => {
            Verdict::NotModified
        }
        None => Verdict::Serve,
    }
}

/// RFC 9110, section 8.8.3.2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// The value of a field that makes sense once.
pub(super) fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// Whether a field of this name lists `etag`; `None` when there is no such field.
fn listed(request: &Request<'_>, name: &str, etag: &[u8], comparison: Comparison) -> Option<bool> {
    let mut found = None;
    for value in request.values(name) {
        found = Some(found == Some(true) || value == b"*" || in_list(value, etag, comparison));
    }
    found
}

/// Entity tags may contain commas, so the list is walked from quote to quote. It ends at the first thing that is no tag.
fn in_list(mut list: &[u8], etag: &[u8], comparison: Comparison) -> bool {
    loop {
        while let [b' ' | b'\t' | b',', rest @ ..] = list {
            list = rest;
        }
        let weak = list.starts_with(b"W/");
        let tag = if weak { &list[2..] } else { list };
        let Some(inner) = tag.strip_prefix(b"\"") else { return false };
        let Some(len) = memchr::memchr(b'"', inner) else { return false };
        if &tag[..len + 2] == etag && !(weak && comparison == Comparison::Strong) {
            return true;
        }
        list = &inner[len + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{HeadLimits, HeadParser, date::format_date};

    const ETAG: &[u8] = b"\"a,b\"";
    const MODIFIED: u64 = 784_111_777;

    fn verdict(method: &str, fields: &str) -> Verdict {
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let request = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
        evaluate(&request, Validators { etag: ETAG, modified: MODIFIED })
    }

    /// RFC 9110, sections 13.1.1 to 13.1.4 and 13.2.2, case by case.
    #[test]
    fn preconditions_are_judged_in_the_order_of_the_rfc() {
        let date = |seconds| String::from_utf8(format_date(seconds).to_vec()).unwrap();
        let (before, same, after) = (date(MODIFIED - 1), date(MODIFIED), date(MODIFIED + 1));
        let cases = [
            (String::new(), Verdict::Serve),
            ("If-Match: \"a,b\"\r\n".into(), Verdict::Serve),
            ("If-Match: *\r\n".into(), Verdict::Serve),
            ("If-Match: \"zz\"\r\n".into(), Verdict::Failed),
            ("If-Match: W/\"a,b\"\r\n".into(), Verdict::Failed),
            ("If-Match: \"zz\"\r\nIf-Match: \"a,b\"\r\n".into(), Verdict::Serve),
            (format!("If-Unmodified-Since: {before}\r\n"), Verdict::Failed),
            (format!("If-Unmodified-Since: {same}\r\n"), Verdict::Serve),
            (format!("If-Match: \"a,b\"\r\nIf-Unmodified-Since: {before}\r\n"), Verdict::Serve),
            ("If-None-Match: \"a,b\"\r\n".into(), Verdict::NotModified),
            ("if-none-match: , \"zz\" ,\tW/\"a,b\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: *\r\n".into(), Verdict::NotModified),
            ("If-None-Match: \"a\", \"b\"\r\n".into(), Verdict::Serve),
            ("If-None-Match: a,b\r\n".into(), Verdict::Serve),
            ("If-None-Match: \"a,b\r\n".into(), Verdict::Serve),
            (format!("If-Modified-Since: {before}\r\n"), Verdict::Serve),
            (format!("If-Modified-Since: {same}\r\n"), Verdict::NotModified),
            (format!("If-Modified-Since: {after}\r\n"), Verdict::NotModified),
            (format!("If-None-Match: \"zz\"\r\nIf-Modified-Since: {after}\r\n"), Verdict::Serve),
            (format!("If-Modified-Since: {after}\r\nIf-Modified-Since: {after}\r\n"), Verdict::Serve),
            ("If-Modified-Since: last week\r\n".into(), Verdict::Serve),
            ("If-Match: \"zz\"\r\nIf-None-Match: \"a,b\"\r\n".into(), Verdict::Failed),
        ];
        for (fields, want) in &cases {
            assert_eq!((verdict("GET", fields), verdict("HEAD", fields)), (*want, *want), "{fields:?}");
        }
        assert_eq!(verdict("DELETE", "If-None-Match: *\r\n"), Verdict::Failed);
    }
}
