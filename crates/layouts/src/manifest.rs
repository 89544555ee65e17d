//! A list of which id means which file.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use sys::beneath::{OpenError, Root};
use wire::file::FileId;

use crate::{
    Layout, LayoutError, Located, RelativePath,
    flat::{found, open_root},
};

/// The file in the directory that is read.
const FILE_NAME: &str = "manifest.tsv";

/// A text file `manifest.tsv` in the directory, read once: lines of an id, a tab, and a path beneath the directory.
/// Lines that are empty or begin with `#` are skipped; everything else has to be right, or nothing is served.
#[derive(Debug)]
pub struct Manifest {
    paths: HashMap<FileId, RelativePath>,
}

impl Manifest {
    /// # Errors
    /// The file cannot be read, or a line of it is not well-formed.
    pub fn open(directory: &Path) -> Result<Self, LayoutError> {
        let path = directory.join(FILE_NAME);
        let text = fs::read(&path).map_err(LayoutError::reading(&path))?;
        let paths = parse(&text).map_err(|(line, problem)| LayoutError::Malformed { path, line, problem })?;
        Ok(Self { paths })
    }
}

impl Layout for Manifest {
    fn locate(&self, _root: &Root, id: &FileId) -> Result<Located, OpenError> {
        self.paths.get(id).cloned().map(Located::from).ok_or(OpenError::Missing)
    }

    fn list(&self, directory: &Path) -> Result<Vec<(FileId, PathBuf)>, LayoutError> {
        let root = open_root(directory)?;
        let open = |path: &RelativePath| root.open_file(path.as_bytes()).map(|_| path.clone());
        found(directory, self.paths.iter().map(|(id, path)| (open(path), id.clone())))
    }
}

fn parse(text: &[u8]) -> Result<HashMap<FileId, RelativePath>, (usize, &'static str)> {
    let mut paths = HashMap::new();
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
    fn a_manifest_is_right_as_a_whole_or_not_at_all() {
        let paths = parse(b"# comment\n\nA\tx/y\r\nB C\tz\tz\n").unwrap();
        let path = |id: &[u8]| paths[&FileId::new(id).unwrap()].as_bytes();
        assert_eq!((path(b"A"), path(b"B C"), paths.len()), (&b"x/y"[..], &b"z\tz"[..], 2));
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
            assert_eq!(parse(text).unwrap_err().0, line, "{}", text.escape_ascii());
        }
    }
}
