//! Redirects and rewrites: paths that mean something else than the file of their name.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use wire::http1::Status;

use super::{Pattern, pattern::Template};
use crate::path::{self, Dotfiles, PathError};

/// Bytes that a capture must not contain unescaped in a query, where `&`, `=` and `+` mean something.
const NOT_IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Rule that sends clients from the paths of a pattern to another place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    from: Pattern,
    status: Status,
    to: Template,
    /// True if the target has no query of its own.
    keeps_query: bool,
    text: Box<str>,
}

/// Rule that serves, for the paths of a pattern, the file of another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    from: Pattern,
    to: Template,
    text: Box<str>,
}

/// Destination of a client that is sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTarget {
    pub status: Status,
    /// Reference for the field `Location`, encoded.
    pub location: String,
    /// True if the query of the request is to be added.
    pub keeps_query: bool,
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Redirect {
    type Err = String;

    /// Parses `FROM=TO` or `FROM=STATUS TO`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "is not of the form 'FROM=[STATUS] TO', such as '/old/*=301 /new/$1'";
        let (from, rest) = text.split_once('=').ok_or_else(|| format!("{text:?} {form}"))?;
        let (status, target) = match rest.split_once(' ') {
            Some((code, target)) => (redirect_status(code)?, target.trim_ascii()),
            None => (Status::Found, rest),
        };
        let from = path_pattern(from)?;
        if let Some(odd) = target.chars().find(|odd| !odd.is_ascii_graphic() || "\"<>\\^`{|}".contains(*odd)) {
            return Err(format!("{odd:?} in {target:?} has to be percent-encoded"));
        }
        let to = Template::parse(target, &from)?;
        check_place(&to, target)?;
        let redirect = Self { from, status, to, keeps_query: !target.contains('?'), text: text.into() };
        match redirect.leads_to_itself() {
            true => Err(format!("{text:?} would redirect again and again: {} matches its target", redirect.from)),
            false => Ok(redirect),
        }
    }
}

impl Redirect {
    /// Returns where a client that asks for a normal path is sent to.
    pub(super) fn target(&self, normal: &[u8]) -> Option<RedirectTarget> {
        let captures = self.from.captures(normal)?;
        let mut location = self.to.fill(&captures, |capture, before| {
            let encoded = match before.contains(&b'?') || before.contains(&b'#') {
                true => percent_encode(capture, NOT_IN_QUERY).to_string(),
                false => path::encode(capture),
            };
            before.extend_from_slice(encoded.as_bytes());
        });
        // Two slashes would begin the name of a host.
        while location.starts_with(b"//") {
            location.remove(0);
        }
        let location = String::from_utf8_lossy(&location).into_owned();
        Some(RedirectTarget { status: self.status, location, keeps_query: self.keeps_query })
    }

    /// True if it also matches where it sends to. What a capture stands for decides little: a sample will do.
    fn leads_to_itself(&self) -> bool {
        let samples = vec![&b"x"[..]; self.from.stars()];
        let target = self.to.fill(&samples, |capture, before| before.extend_from_slice(capture));
        let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
        target.starts_with(b"/") && self.from.matches(&target[..end])
    }
}

impl FromStr for Rewrite {
    type Err = String;

    /// Parses `FROM=TO`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = "is not of the form 'FROM=TO', such as '/v1/*=/current/$1'";
        let (from, target) = text.split_once('=').ok_or_else(|| format!("{text:?} {form}"))?;
        let from = path_pattern(from)?;
        if !target.starts_with('/') || target.contains(['?', '#']) || target.chars().any(char::is_control) {
            return Err(format!("{target:?} is not a path beneath the root, such as /current/$1"));
        }
        let to = Template::parse(target, &from)?;
        Ok(Self { from, to, text: text.into() })
    }
}

impl Rewrite {
    /// Returns the normal path of the file for a normal path; `None` where the rule does not apply.
    pub(super) fn target(&self, normal: &[u8], dotfiles: Dotfiles) -> Option<Result<Vec<u8>, PathError>> {
        let captures = self.from.captures(normal)?;
        let target = self.to.fill(&captures, |capture, before| before.extend_from_slice(capture));
        // Captures may make dot segments with what stands beside them.
        Some(path::normalise_decoded(&target, dotfiles))
    }
}

fn redirect_status(code: &str) -> Result<Status, String> {
    match code {
        "301" => Ok(Status::MovedPermanently),
        "302" => Ok(Status::Found),
        "303" => Ok(Status::SeeOther),
        "307" => Ok(Status::TemporaryRedirect),
        "308" => Ok(Status::PermanentRedirect),
        _ => Err(format!("{code:?} is not the status of a redirect: 301, 302, 303, 307 or 308")),
    }
}

fn path_pattern(text: &str) -> Result<Pattern, String> {
    if !text.starts_with('/') {
        return Err(format!("{text:?} is not a pattern of paths: it has to begin with a slash"));
    }
    text.parse()
}

/// Checks that no capture can decide on the host of a target.
fn check_place(to: &Template, target: &str) -> Result<(), String> {
    let fixed = to.literal_prefix();
    let rest = ["https://", "http://"].iter().find_map(|scheme| fixed.strip_prefix(scheme));
    match rest {
        Some(behind) => {
            let host_len = behind.find(['/', '?', '#']).unwrap_or(behind.len());
            let is_whole = host_len < behind.len() || fixed.len() == target.len();
            if host_len == 0 || !is_whole {
                return Err(format!("{target:?}: the host has to be written out, and be followed by a slash"));
            }
            Ok(())
        }
        None if fixed.starts_with('/') && !fixed.starts_with("//") => Ok(()),
        None => Err(format!("{target:?} is neither a path such as /new/$1 nor a URL such as https://example.com/$1")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redirected(rule: &str, path: &str) -> Option<(u16, String)> {
        let target = rule.parse::<Redirect>().unwrap().target(path.as_bytes())?;
        Some((target.status.code(), target.location))
    }

    fn rewritten(rule: &str, path: &str) -> Option<Result<String, PathError>> {
        let target = rule.parse::<Rewrite>().unwrap().target(path.as_bytes(), Dotfiles::WellKnown)?;
        Some(target.map(|path| String::from_utf8(path).unwrap()))
    }

    #[test]
    fn a_redirect_takes_along_what_the_stars_stand_for() {
        for (rule, path, want) in [
            ("/old/*=301 /new/$1", "/old/a/b", Some((301, "/new/a/b"))),
            ("/old/*=301 /new/$1", "/older", None),
            ("/a=/b", "/a", Some((302, "/b"))),
            ("/a=308 https://example.com", "/a", Some((308, "https://example.com"))),
            ("/*/*=307 https://example.com/$2?a=$1", "/x y/z&", Some((307, "https://example.com/z&?a=x%20y"))),
            ("/*/*=303 /s?q=$2", "/x/a&b=c", Some((303, "/s?q=a%26b%3Dc"))),
            ("/a*=/b#$1", "/a\r\nX: y", Some((302, "/b#%0D%0AX%3A%20y"))),
        ] {
            let want = want.map(|(status, location)| (status, location.to_owned()));
            assert_eq!(redirected(rule, path), want, "{rule} {path}");
        }
    }

    #[test]
    fn no_path_redirects_to_another_host() {
        for (rule, path, location) in [
            ("/old*=/$1", "/old/evil.example", "/evil.example"),
            ("/old*=/$1", "/old/\\evil.example", "/%5Cevil.example"),
            ("/go*=https://example.com/$1", "/go@evil.example", "https://example.com/@evil.example"),
        ] {
            assert_eq!(redirected(rule, path).unwrap().1, location, "{rule} {path}");
        }
        for bad in [
            "/*=https://$1",
            "/*=https://example.com$1",
            "/*=https://example.com:$1/",
            "/*=//$1",
            "/*=//example.com/",
            "/a=//example.com/",
            "/*=$1",
            "/*=javascript:$1",
            "/a=https:///b",
        ] {
            assert!(bad.parse::<Redirect>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_redirect_is_explained_in_one_line() {
        for (bad, why) in [
            ("/a", "is not of the form 'FROM=[STATUS] TO'"),
            ("a=/b", "has to begin with a slash"),
            ("/a=200 /b", "\"200\" is not the status of a redirect"),
            ("/a/*=/b/$2", "$2 in \"/b/$2\": /a/* has 1 *"),
            ("/a/*=/b/$", "$ "),
            ("/a=/b c", "is not the status of a redirect"),
            ("/a=301 /b c", "' ' in \"/b c\" has to be percent-encoded"),
            ("/a=301 /\u{e9}", "has to be percent-encoded"),
            ("/a=/b\r\nX: y", "is not the status of a redirect"),
            ("/a=/b\rX:y", "'\\r' in"),
            ("/a/*=/a/b/$1", "again and again"),
            ("/*=/index.html", "again and again"),
        ] {
            let said = bad.parse::<Redirect>().unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{bad}: {said}");
        }
    }

    #[test]
    fn a_rewrite_stays_beneath_the_root() {
        for (rule, path, want) in [
            ("/v1/*=/current/$1", "/v1/a/b", Some(Ok("/current/a/b"))),
            ("/v1/*=/current/$1", "/v2/a", None),
            ("/v*/*=/$2/$1", "/v1/", Some(Ok("/1"))),
            ("/x*=/a/.$1", "/x.", Some(Ok("/"))),
            ("/x*=/.$1/secret", "/x.", Some(Err(PathError::Malformed))),
            ("/x*=/$1", "/x.git/config", Some(Err(PathError::Missing))),
            ("/x*=/a$1", "/x//b", Some(Ok("/a/b"))),
        ] {
            let want = want.map(|target| target.map(str::to_owned));
            assert_eq!(rewritten(rule, path), want, "{rule} {path}");
        }
        for bad in ["/a", "a=/b", "/a=b", "/a=https://example.com/", "/a=/b?c", "/a/*=/$2", "/a=/b\n"] {
            assert!(bad.parse::<Rewrite>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        /// Whatever is asked for, a location is one line and begins with what the rule says.
        #[test]
        fn a_location_is_harmless(path in "/go[a-z/.@\\\\:\r\n\u{e9}?#&%]{0,20}") {
            for (rule, begin) in [("/go*=/$1", "/"), ("/go*=https://h/$1", "https://h/"), ("/go*=/s?q=$1", "/s?q=")] {
                if let Some((_, location)) = redirected(rule, &path) {
                    prop_assert!(location.starts_with(begin) && !location.starts_with("//"), "{location}");
                    prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'), "{location}");
                    let queries = usize::from(rule.contains('?'));
                    prop_assert_eq!(location.matches('?').count(), queries);
                }
            }
        }
    }
}
