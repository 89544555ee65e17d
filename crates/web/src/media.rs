//! Media types of files, by their names.

mod map;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use map::MimeProblem;
use thiserror::Error;

/// Media types by extension: those of a map file, and behind them the usual ones.
#[derive(Debug, Default)]
pub struct MediaTypes {
    /// Types by extension in lower case.
    mapped: HashMap<String, Arc<str>>,
}

/// Reason why a map file cannot be used.
#[derive(Debug, Error)]
pub enum MimeFileError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The first bad line, counted from 1.
    #[error("{}, line {line}: {problem}", path.display())]
    Malformed { path: PathBuf, line: usize, problem: MimeProblem },
}

impl MediaTypes {
    /// Reads a file in the form of `mime.types`, Apache's or nginx's: on each line a type and its extensions; `#` begins
    /// a comment; in `types { … }`, statements end with `;` instead of with their line. Where an extension is given
    /// twice, the later one counts.
    ///
    /// # Errors
    /// See [`MimeFileError`].
    pub fn read(path: &Path) -> Result<Self, MimeFileError> {
        let text = fs::read(path).map_err(|source| MimeFileError::Unreadable { path: path.to_owned(), source })?;
        let mapped = map::parse(&text).map_err(|(line, problem)| MimeFileError::Malformed {
            path: path.to_owned(),
            line,
            problem,
        })?;
        Ok(Self { mapped })
    }

    /// Returns the Content-Type of a file with this name. Text is taken to be UTF-8, and what is unknown to be bytes.
    pub fn for_name(&self, name: &[u8]) -> String {
        let path = Path::new(OsStr::from_bytes(name));
        let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
        let mapped = extension.and_then(|extension| self.mapped.get(&extension)).map(|media_type| &**media_type);
        let known = mapped.or_else(|| mime_guess::from_path(path).first_raw());
        match known.unwrap_or("application/octet-stream") {
            text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
            other => other.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf_8_and_the_unknown_is_bytes() {
        let types = MediaTypes::default();
        for (name, want) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.CSS", "text/css; charset=utf-8"),
            ("x.js", "text/javascript; charset=utf-8"),
            ("x.json", "application/json"),
            ("x.png", "image/png"),
            ("x.wasm", "application/wasm"),
            ("README", "application/octet-stream"),
            ("a.b/x", "application/octet-stream"),
        ] {
            assert_eq!(types.for_name(name.as_bytes()), want, "{name}");
        }
        assert_eq!(types.for_name(b"\xff.svg"), "image/svg+xml");
    }

    #[test]
    fn a_map_file_goes_before_the_usual_types() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mime.types");
        fs::write(&path, "text/x-special js Special\nimage/x-png png # ours\n").unwrap();
        let types = MediaTypes::read(&path).unwrap();
        for (name, want) in [
            ("x.js", "text/x-special; charset=utf-8"),
            ("a.b/x.SPECIAL", "text/x-special; charset=utf-8"),
            ("x.png", "image/x-png"),
            ("x.css", "text/css; charset=utf-8"),
            ("js", "application/octet-stream"),
        ] {
            assert_eq!(types.for_name(name.as_bytes()), want, "{name}");
        }
    }

    #[test]
    fn a_bad_map_file_is_named_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mime.types");
        let message = |error: MimeFileError| error.to_string().replace(&path.display().to_string(), "F");
        assert_eq!(message(MediaTypes::read(&path).unwrap_err()), "cannot read F");
        fs::write(&path, "text/html html\n\nhtml text/html\n").unwrap();
        assert_eq!(message(MediaTypes::read(&path).unwrap_err()), "F, line 3: \"html\" is not a media type");
    }
}
