//! Parser of manifests.

use wire::file::FileId;

use super::Paths;
use crate::RelativePath;

/// Parses a whole manifest.
///
/// # Errors
/// The number of the first malformed line, counted from 1, and what is wrong with it.
pub(super) fn paths(text: &[u8]) -> Result<Paths, (usize, &'static str)> {
    let mut paths = Paths::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let malformed = |problem| (index + 1, problem);
        let tab = line.iter().position(|&byte| byte == b'\t');
        let (id, path) = line.split_at(tab.ok_or_else(|| malformed("no tab between an id and a path"))?);
        let id = FileId::new(id).ok_or_else(|| malformed("not an id: empty, too long, or with a NUL in it"))?;
        let path = RelativePath::new(&path[1..]).ok_or_else(|| malformed("not a path beneath the directory"))?;
        if paths.insert(id, path).is_some() {
            return Err(malformed("an id for the second time"));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_accepted_as_a_whole_or_not_at_all() {
        let found = paths(b"# comment\n\nA\tx/y\r\nB C\tz\tz\n").unwrap();
        let path = |id: &[u8]| found[&FileId::new(id).unwrap()].as_bytes();
        assert_eq!((path(b"A"), path(b"B C"), found.len()), (&b"x/y"[..], &b"z\tz"[..], 2));
        let long = [&[b'x'; 1025][..], b"\ty"].concat();
        for (text, line) in [
            (&b"A"[..], 1),
            (b"A x\n", 1),
            (b"A\tx\n\tx\n", 2),
            (b"A\t\n", 1),
            (b"A\t/etc/passwd\n", 1),
            (b"A\tx\nB\t../x\n", 2),
            (b"A\tx\n\nA\ty\n", 3),
            (b"A\tx\0\n", 1),
            (&long, 1),
        ] {
            assert_eq!(paths(text).unwrap_err().0, line, "{}", text.escape_ascii());
        }
    }
}
