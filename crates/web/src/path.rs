//! Normal form of a request's path, by which files are found.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// Reason why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The path has a broken escape, a NUL, or more `..` than directories.
    Malformed,
    /// No file can have this name, or none with this name is served.
    Missing,
}

/// Returns the one spelling of a path: decoded once, without empty and dot segments. It starts with `/`, and ends with it
/// where a directory is meant.
///
/// A `%2f` is data and not a separator (RFC 3986, section 2.2), so it can be in no file's name.
///
/// # Errors
/// See [`PathError`].
pub fn normalise(path: &[u8]) -> Result<Vec<u8>, PathError> {
    if !has_whole_escapes(path) {
        return Err(PathError::Malformed);
    }
    let mut segments: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut is_directory = false;
    for raw in path.split(|&byte| byte == b'/') {
        let segment: Cow<'_, [u8]> = percent_decode(raw).into();
        is_directory = matches!(&*segment, b"" | b"." | b"..");
        match &*segment {
            b"" | b"." => {}
            b".." => drop(segments.pop().ok_or(PathError::Malformed)?),
            name if name.contains(&0) => return Err(PathError::Malformed),
            _ => segments.push(segment),
        }
    }
    if segments.iter().any(|name| name.starts_with(b".") || name.contains(&b'/')) {
        return Err(PathError::Missing);
    }
    let mut normal = Vec::with_capacity(path.len() + 1);
    for segment in &segments {
        normal.push(b'/');
        normal.extend_from_slice(segment);
    }
    if is_directory {
        normal.push(b'/');
    }
    Ok(normal)
}

fn has_whole_escapes(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        match rest[at + 1..] {
            [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = &rest[at + 3..],
            _ => return false,
        }
    }
    true
}

/// Bytes that a path must not contain unescaped (RFC 3986, section 3.3).
const NOT_IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}')
    .add(b'[')
    .add(b']');

/// Escapes a normal path, as it is written in a `Location`.
pub fn encode(normal: &[u8]) -> String {
    percent_encode(normal, NOT_IN_PATH).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_comes_to_one_name() {
        for (path, want) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//a///b", "/a/b"),
            ("/./a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/%2e%2E/b", "/b"),
            ("/.git/../a", "/a"),
            ("/%61%20b", "/a b"),
            ("/%2541", "/%41"),
            ("/a\\..\\b", "/a\\..\\b"),
        ] {
            assert_eq!(normalise(path.as_bytes()).as_deref(), Ok(want.as_bytes()), "{path}");
        }
        assert_eq!(normalise(b"/%ff%0a").as_deref(), Ok(&b"/\xff\n"[..]));
    }

    #[test]
    fn malformed_and_missing_paths_are_told_apart() {
        use PathError::*;
        for (path, want) in [
            ("/%zz", Malformed),
            ("/%4", Malformed),
            ("/%", Malformed),
            ("/a%00", Malformed),
            ("/../a", Malformed),
            ("/a/../../b", Malformed),
            ("/%2e%2e/a", Malformed),
            ("/sub/..%2fa", Missing),
            ("/a%2fb", Missing),
            ("/.htaccess", Missing),
            ("/a/.git/config", Missing),
            ("/%2egit/config", Missing),
            ("/...", Missing),
        ] {
            assert_eq!(normalise(path.as_bytes()), Err(want), "{path}");
        }
    }

    proptest! {
        /// A normal path can be passed to openat2 safely, and encoded as a URL it means itself.
        #[test]
        fn normal_paths_are_harmless_and_stable(path in "/[a./%2e0f\\\\?\u{e9}]{0,20}") {
            if let Ok(normal) = normalise(path.as_bytes()) {
                prop_assert!(normal.starts_with(b"/") && !normal.contains(&0));
                let names = normal[1..].strip_suffix(b"/").unwrap_or_else(|| &normal[1..]).split(|&byte| byte == b'/');
                prop_assert!(normal == b"/" || names.into_iter().all(|name| !name.is_empty() && name[0] != b'.'));
                prop_assert_eq!(normalise(encode(&normal).as_bytes()), Ok(normal));
            }
        }
    }
}
