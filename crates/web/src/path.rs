//! Normal form of a request's path, by which files are found.

use std::borrow::Cow;

use clap::ValueEnum;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// Directory of the resources that clients expect at fixed paths (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Beginning of the names of Apache's files of passwords and settings, which other servers never send either.
const PASSWORDS: &[u8] = b".ht";

/// Policy for names that begin with a dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Dotfiles {
    /// Only the directory /.well-known/ is served
    #[default]
    WellKnown,
    /// None is served
    None,
    /// All are served like other files, but for .htpasswd and what else begins with .ht
    All,
}

impl Dotfiles {
    /// True if a file or directory of this name is served. `is_top` is true directly beneath the root.
    pub fn serves(self, name: &[u8], is_top: bool) -> bool {
        match self {
            _ if !name.starts_with(b".") => true,
            _ if name.starts_with(PASSWORDS) => false,
            Self::WellKnown => is_top && name == WELL_KNOWN,
            Self::None => false,
            Self::All => true,
        }
    }
}

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
pub fn normalise(path: &[u8], dotfiles: Dotfiles) -> Result<Vec<u8>, PathError> {
    if !has_whole_escapes(path) {
        return Err(PathError::Malformed);
    }
    normalise_segments(path.split(|&byte| byte == b'/').map(|raw| percent_decode(raw).into()), dotfiles)
}

/// Does the same with a path that has been decoded already, or was never encoded.
///
/// # Errors
/// See [`PathError`].
pub fn normalise_decoded(path: &[u8], dotfiles: Dotfiles) -> Result<Vec<u8>, PathError> {
    normalise_segments(path.split(|&byte| byte == b'/').map(Cow::Borrowed), dotfiles)
}

fn normalise_segments<'a>(all: impl Iterator<Item = Cow<'a, [u8]>>, dotfiles: Dotfiles) -> Result<Vec<u8>, PathError> {
    let mut segments: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut is_directory = false;
    for segment in all {
        is_directory = matches!(&*segment, b"" | b"." | b"..");
        match &*segment {
            b"" | b"." => {}
            b".." => drop(segments.pop().ok_or(PathError::Malformed)?),
            name if name.contains(&0) => return Err(PathError::Malformed),
            _ => segments.push(segment),
        }
    }
    let is_hidden = |(at, name): (usize, &Cow<'_, [u8]>)| !dotfiles.serves(name, at == 0) || name.contains(&b'/');
    if segments.iter().enumerate().any(is_hidden) {
        return Err(PathError::Missing);
    }
    let mut normal = Vec::with_capacity(segments.iter().map(|name| name.len() + 1).sum::<usize>() + 1);
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
            assert_eq!(normalise(path.as_bytes(), Dotfiles::None).as_deref(), Ok(want.as_bytes()), "{path}");
        }
        assert_eq!(normalise(b"/%ff%0a", Dotfiles::None).as_deref(), Ok(&b"/\xff\n"[..]));
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
            ("/.well-known2/a", Missing),
            ("/a/.well-known/b", Missing),
            ("/.well-known/.htpasswd", Missing),
            ("/.well-known%2fa", Missing),
        ] {
            assert_eq!(normalise(path.as_bytes(), Dotfiles::WellKnown), Err(want), "{path}");
        }
    }

    #[test]
    fn the_policy_says_which_dotfiles_are_served() {
        let is_served = |path: &str, dotfiles| normalise(path.as_bytes(), dotfiles).is_ok();
        for (path, served) in [
            ("/.well-known/acme-challenge/x", [true, false, true]),
            ("/.well-known", [true, false, true]),
            ("/a/../%2Ewell-known/x", [true, false, true]),
            ("/.git/config", [false, false, true]),
            ("/.well-known/.git", [false, false, true]),
            ("/a/.b/", [false, false, true]),
            ("/a.b/c", [true, true, true]),
        ] {
            let by_policy = [Dotfiles::WellKnown, Dotfiles::None, Dotfiles::All].map(|it| is_served(path, it));
            assert_eq!(by_policy, served, "{path}");
        }
        assert!(!is_served("/a/../../.b", Dotfiles::All), "no policy serves what is above the root");
    }

    #[test]
    fn a_decoded_path_is_not_decoded_again() {
        for (path, want) in [("/a%2f..", Ok("/a%2f..")), ("/a/../b", Ok("/b")), ("/..", Err(PathError::Malformed))] {
            let got = normalise_decoded(path.as_bytes(), Dotfiles::None);
            assert_eq!(got, want.map(|path| path.as_bytes().to_vec()), "{path}");
        }
    }

    proptest! {
        /// A normal path can be passed to openat2 safely, and encoded as a URL it means itself.
        #[test]
        fn normal_paths_are_harmless_and_stable(path in "/[a./%2e0f\\\\?\u{e9}]{0,20}") {
            if let Ok(normal) = normalise(path.as_bytes(), Dotfiles::None) {
                prop_assert!(normal.starts_with(b"/") && !normal.contains(&0));
                let names = normal[1..].strip_suffix(b"/").unwrap_or_else(|| &normal[1..]).split(|&byte| byte == b'/');
                prop_assert!(normal == b"/" || names.into_iter().all(|name| !name.is_empty() && name[0] != b'.'));
                prop_assert_eq!(normalise(encode(&normal).as_bytes(), Dotfiles::None), Ok(normal));
            }
        }
    }
}
