//! Header fields that the configuration adds to responses.

use std::str::FromStr;

use super::Pattern;
use crate::{Hsts, https::is_for_authorities};

const HSTS: &str = "Strict-Transport-Security";

/// Fields that the server itself decides on, and what to use instead of `--header` where there is something.
const OWN_FIELDS: &[(&str, &str)] = &[
    ("Accept-Ranges", ""),
    ("Allow", ""),
    ("Cache-Control", "; use --cache-control 'GLOB=VALUE'"),
    ("Connection", ""),
    ("Content-Encoding", ""),
    ("Content-Length", ""),
    ("Content-Range", ""),
    ("Content-Type", "; use --mime-file and --charset"),
    ("Date", ""),
    ("ETag", ""),
    ("Keep-Alive", ""),
    ("Last-Modified", ""),
    ("Location", "; use --redirect"),
    ("Proxy-Connection", ""),
    ("Retry-After", ""),
    ("TE", ""),
    ("Trailer", ""),
    ("Transfer-Encoding", ""),
    ("Upgrade", ""),
    ("WWW-Authenticate", ""),
];

/// Field that is added to the responses for some paths, or for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// Paths that it is for; `None` for every response.
    pattern: Option<Pattern>,
    name: Box<str>,
    value: Box<str>,
}

impl FromStr for HeaderRule {
    type Err = String;

    /// Parses `NAME: VALUE`, or `GLOB=NAME: VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not of the form 'NAME: VALUE' or 'GLOB=NAME: VALUE'");
        let (before, value) = text.split_once(':').ok_or_else(form)?;
        let (pattern, name) = match before.split_once('=') {
            Some((pattern, name)) => (Some(pattern.parse()?), name),
            None => (None, before),
        };
        if !is_token(name) {
            return Err(format!("{name:?} is not a field name; {}", form()));
        }
        if let Some((own, instead)) = OWN_FIELDS.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
            return Err(format!("the server sets {own} itself{instead}"));
        }
        Ok(Self { pattern, name: name.into(), value: field_value(value)?.into() })
    }
}

/// `Cache-Control` of the files whose paths match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheControlRule {
    pattern: Pattern,
    value: Box<str>,
}

impl FromStr for CacheControlRule {
    type Err = String;

    /// Parses `GLOB=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "is not of the form 'GLOB=VALUE', such as '/assets/*=max-age=31536000, immutable'";
        let (pattern, value) = text.split_once('=').ok_or_else(|| format!("{text:?} {form}"))?;
        Ok(Self { pattern: pattern.parse()?, value: field_value(value)?.into() })
    }
}

impl CacheControlRule {
    /// Returns the value for a path: that of the last rule that matches.
    pub(super) fn value_for<'a>(rules: &'a [Self], path: &[u8]) -> Option<&'a str> {
        rules.iter().rfind(|rule| rule.pattern.matches(path)).map(|rule| &*rule.value)
    }
}

/// All rules of a site, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct HeaderRules {
    rules: Vec<HeaderRule>,
    hsts: Option<Hsts>,
}

impl HeaderRules {
    pub(super) fn new(rules: Vec<HeaderRule>, hsts: Option<Hsts>) -> Self {
        Self { rules, hsts }
    }

    /// Length of all fields together, in bytes.
    pub(super) fn len_max(&self) -> usize {
        let hsts = self.hsts.iter().map(|Hsts(value)| (HSTS.len(), value.len()));
        let fields = self.rules.iter().map(|rule| (rule.name.len(), rule.value.len())).chain(hsts);
        fields.map(|(name, value)| name + value + ": \r\n".len()).sum()
    }

    /// True if there is a rule for some paths only.
    pub(super) fn depends_on_path(&self) -> bool {
        self.hsts.is_some() || self.rules.iter().any(|rule| rule.pattern.is_some())
    }

    /// Returns the fields for a path as they are written in a head, or those for every response. Where two rules have
    /// the same name, the later one counts.
    pub(super) fn lines_for(&self, path: Option<&[u8]>) -> Vec<u8> {
        let is_meant = |rule: &HeaderRule| {
            rule.pattern.as_ref().is_none_or(|pattern| path.is_some_and(|path| pattern.matches(path)))
        };
        let meant: Vec<_> = self.rules.iter().filter(|rule| is_meant(rule)).collect();
        let mut lines = Vec::new();
        for (at, rule) in meant.iter().enumerate() {
            if !meant[at + 1..].iter().any(|later| later.name.eq_ignore_ascii_case(&rule.name)) {
                lines.extend_from_slice(format!("{}: {}\r\n", rule.name, rule.value).as_bytes());
            }
        }
        // Nothing else is served over plain HTTP beside it, where the field must not be sent (RFC 6797, section 7.2).
        if let Some(Hsts(value)) = self.hsts.as_ref().filter(|_| path.is_some_and(|path| !is_for_authorities(path)))
            && !meant.iter().any(|rule| rule.name.eq_ignore_ascii_case(HSTS))
        {
            lines.extend_from_slice(format!("{HSTS}: {value}\r\n").as_bytes());
        }
        lines
    }
}

/// True for a token (RFC 9110, section 5.6.2).
fn is_token(word: &str) -> bool {
    let is_in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !word.is_empty() && word.bytes().all(is_in_token)
}

/// Checks the value of a field (RFC 9110, section 5.5), without the blanks around it.
fn field_value(text: &str) -> Result<&str, String> {
    let value = text.trim_matches([' ', '\t']);
    if value.is_empty() {
        return Err("the value is missing".to_owned());
    }
    match value.chars().find(|&odd| odd.is_control() && odd != '\t') {
        Some(odd) => Err(format!("{odd:?} cannot be in the value of a field")),
        None => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rules: &[&str], path: Option<&str>) -> String {
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        String::from_utf8(HeaderRules::new(rules, None).lines_for(path.map(str::as_bytes))).unwrap()
    }

    #[test]
    fn a_field_is_for_all_responses_or_for_some_paths() {
        let rules =
            ["X-A: 1", "/fonts/*=Access-Control-Allow-Origin: *", "*.html=Content-Security-Policy: a 'b'; c=d:"];
        assert_eq!(lines(&rules, None), "X-A: 1\r\n");
        assert_eq!(lines(&rules, Some("/fonts/a")), "X-A: 1\r\nAccess-Control-Allow-Origin: *\r\n");
        assert_eq!(lines(&rules, Some("/a.html")), "X-A: 1\r\nContent-Security-Policy: a 'b'; c=d:\r\n");
    }

    #[test]
    fn hsts_is_for_what_is_not_served_in_the_clear() {
        let rules = HeaderRules::new(Vec::new(), Some("max-age=5".parse().unwrap()));
        assert_eq!(rules.lines_for(Some(b"/a")), b"Strict-Transport-Security: max-age=5\r\n");
        assert!(rules.lines_for(Some(b"/.well-known/acme-challenge/x")).is_empty() && rules.lines_for(None).is_empty());
        assert!(rules.depends_on_path() && rules.len_max() == 38);
        let by_hand = HeaderRules::new(vec!["strict-transport-security: max-age=6".parse().unwrap()], rules.hsts);
        assert_eq!(by_hand.lines_for(Some(b"/a")), b"strict-transport-security: max-age=6\r\n");
    }

    #[test]
    fn the_later_of_two_fields_with_one_name_counts() {
        let rules = ["X-A: 1", "X-B: 2", "/a/*=x-a: 3"];
        assert_eq!(lines(&rules, Some("/b")), "X-A: 1\r\nX-B: 2\r\n");
        assert_eq!(lines(&rules, Some("/a/b")), "X-B: 2\r\nx-a: 3\r\n");
    }

    #[test]
    fn a_field_that_would_break_a_response_is_refused() {
        for (bad, why) in [
            ("Content-Length: 3", "the server sets Content-Length itself"),
            ("/a=date: now", "the server sets Date itself"),
            ("TRANSFER-ENCODING: chunked", "the server sets Transfer-Encoding itself"),
            ("Connection: close", "the server sets Connection itself"),
            ("Cache-Control: no-store", "use --cache-control 'GLOB=VALUE'"),
            ("Content-Type: a/b", "use --mime-file"),
            ("X-A", "is not of the form 'NAME: VALUE'"),
            ("X A: b", "\"X A\" is not a field name"),
            (": b", "\"\" is not a field name"),
            ("X-A:", "the value is missing"),
            ("X-A: b\r\nX-B: c", "'\\r' cannot be in the value"),
            ("X-A: b\0", "cannot be in the value"),
            ("/[a]=X: y", "unexpected '['"),
        ] {
            let said = bad.parse::<HeaderRule>().unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{bad:?}: {said}");
        }
    }

    #[test]
    fn the_last_cache_control_that_matches_counts() {
        let rules: Vec<CacheControlRule> =
            ["*=no-cache", "/assets/*=max-age=31536000, immutable"].map(|rule| rule.parse().unwrap()).into();
        for (path, value) in [("/index.html", "no-cache"), ("/assets/a.js", "max-age=31536000, immutable")] {
            assert_eq!(CacheControlRule::value_for(&rules, path.as_bytes()), Some(value));
        }
        assert_eq!(CacheControlRule::value_for(&rules[1..], b"/a"), None);
        for bad in ["*", "*=", "=no-cache", "*=a\nb"] {
            assert!(bad.parse::<CacheControlRule>().is_err(), "{bad:?}");
        }
    }
}
