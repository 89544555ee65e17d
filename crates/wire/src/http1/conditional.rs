//! Preconditions (RFC 9110, section 13).

use super::{Method, Request, date};

/// Validators of the file that a request selects.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Strong entity tag with its quotes.
    pub etag: &'a [u8],
    /// Last modification in seconds since the epoch, as `Last-Modified` says it.
    pub modified: u64,
    /// Last change of the file, in seconds since the epoch. It is later than `modified` where an older version was put back,
    /// or a file arrived with the date of its original.
    pub changed: u64,
}

impl Validators<'_> {
    /// True if the version that a client has from `date`, in seconds since the epoch, is certain to be this one. An earlier
    /// modification alone does not say so: after a rollback, it is that of an older version than the client's.
    fn is_unmodified_since(&self, date: u64) -> bool {
        date == self.modified || (date > self.modified && date > self.changed)
    }
}

/// Result of the preconditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Met,
    /// 304: the client has the file.
    NotModified,
    /// 412: a precondition does not hold.
    Failed,
}

/// Evaluates the preconditions in the order of RFC 9110, section 13.2.2. A date that cannot be parsed, or that is given
/// twice, counts as none.
pub fn evaluate(request: &Request<'_>, validators: Validators<'_>) -> Precondition {
    if !request.is_conditional {
        return Precondition::Met;
    }
    let date = |name| date::parse_date(only(request.values(name))?);
    let current = match listed(request, "if-match", validators.etag, Comparison::Strong) {
        Some(matches) => matches,
        None => date("if-unmodified-since").is_none_or(|date| validators.is_unmodified_since(date)),
    };
    if !current {
        return Precondition::Failed;
    }
    let is_read = matches!(request.method, Method::Get | Method::Head);
    match listed(request, "if-none-match", validators.etag, Comparison::Weak) {
        Some(true) if is_read => Precondition::NotModified,
        Some(true) => Precondition::Failed,
        Some(false) => Precondition::Met,
        None if is_read && date("if-modified-since").is_some_and(|date| validators.is_unmodified_since(date)) => {
            Precondition::NotModified
        }
        None => Precondition::Met,
    }
}

/// Comparison of entity tags (RFC 9110, section 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Returns the value of a field that may be given only once.
pub(super) fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// True if a field of this name lists `etag`; `None` if there is no such field.
fn listed(request: &Request<'_>, name: &str, etag: &[u8], comparison: Comparison) -> Option<bool> {
    let mut found = None;
    for value in request.values(name) {
        found = Some(found == Some(true) || value == b"*" || in_list(value, etag, comparison));
    }
    found
}

/// True if a list of entity tags has `etag`. Tags may contain commas, so the list is parsed from quote to quote. It
/// ends at the first element that is no tag.
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

    fn outcome(method: &str, fields: &str) -> Precondition {
        outcome_after(method, fields, MODIFIED)
    }

    fn outcome_after(method: &str, fields: &str, changed: u64) -> Precondition {
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let request = HeadParser::default().parse(head.as_bytes(), &HeadLimits::default()).unwrap().unwrap();
        evaluate(&request, Validators { etag: ETAG, modified: MODIFIED, changed })
    }

    /// Cases of RFC 9110, sections 13.1.1 to 13.1.4 and 13.2.2.
    #[test]
    fn preconditions_are_judged_in_the_order_of_the_rfc() {
        let date = |seconds| String::from_utf8(format_date(seconds).to_vec()).unwrap();
        let (before, same, after) = (date(MODIFIED - 1), date(MODIFIED), date(MODIFIED + 1));
        let cases = [
            (String::new(), Precondition::Met),
            ("If-Match: \"a,b\"\r\n".into(), Precondition::Met),
            ("If-Match: *\r\n".into(), Precondition::Met),
            ("If-Match: \"zz\"\r\n".into(), Precondition::Failed),
            ("If-Match: W/\"a,b\"\r\n".into(), Precondition::Failed),
            ("If-Match: \"zz\"\r\nIf-Match: \"a,b\"\r\n".into(), Precondition::Met),
            (format!("If-Unmodified-Since: {before}\r\n"), Precondition::Failed),
            (format!("If-Unmodified-Since: {same}\r\n"), Precondition::Met),
            (format!("If-Match: \"a,b\"\r\nIf-Unmodified-Since: {before}\r\n"), Precondition::Met),
            ("If-None-Match: \"a,b\"\r\n".into(), Precondition::NotModified),
            ("if-none-match: , \"zz\" ,\tW/\"a,b\"\r\n".into(), Precondition::NotModified),
            ("If-None-Match: *\r\n".into(), Precondition::NotModified),
            ("If-None-Match: \"a\", \"b\"\r\n".into(), Precondition::Met),
            ("If-None-Match: a,b\r\n".into(), Precondition::Met),
            ("If-None-Match: \"a,b\r\n".into(), Precondition::Met),
            (format!("If-Modified-Since: {before}\r\n"), Precondition::Met),
            (format!("If-Modified-Since: {same}\r\n"), Precondition::NotModified),
            (format!("If-Modified-Since: {after}\r\n"), Precondition::NotModified),
            (format!("If-None-Match: \"zz\"\r\nIf-Modified-Since: {after}\r\n"), Precondition::Met),
            (format!("If-Modified-Since: {after}\r\nIf-Modified-Since: {after}\r\n"), Precondition::Met),
            ("If-Modified-Since: last week\r\n".into(), Precondition::Met),
            ("If-Match: \"zz\"\r\nIf-None-Match: \"a,b\"\r\n".into(), Precondition::Failed),
        ];
        for (fields, want) in &cases {
            assert_eq!((outcome("GET", fields), outcome("HEAD", fields)), (*want, *want), "{fields:?}");
        }
        assert_eq!(outcome("DELETE", "If-None-Match: *\r\n"), Precondition::Failed);
    }

    /// A client that has a later version than the one that was put back has another one.
    #[test]
    fn a_date_between_modification_and_change_proves_nothing() {
        let changed = MODIFIED + 100;
        for (date, is_unmodified) in
            [(MODIFIED - 1, false), (MODIFIED, true), (MODIFIED + 1, false), (changed, false), (changed + 1, true)]
        {
            let date = String::from_utf8(format_date(date).to_vec()).unwrap();
            let since = outcome_after("GET", &format!("If-Modified-Since: {date}\r\n"), changed);
            let until = outcome_after("GET", &format!("If-Unmodified-Since: {date}\r\n"), changed);
            let want = if is_unmodified {
                (Precondition::NotModified, Precondition::Met)
            } else {
                (Precondition::Met, Precondition::Failed)
            };
            assert_eq!((since, until), want, "{date}");
        }
    }
}
