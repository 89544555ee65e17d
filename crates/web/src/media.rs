//! The media type of a file, by its name.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Which extension means which media type.
#[derive(Debug, Default)]
pub struct MediaTypes {}

impl MediaTypes {
    /// The value of a Content-Type for a file of this name. Text is taken to be UTF-8, the unknown to be bytes.
    pub fn of(&self, name: &[u8]) -> String {
        let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(name))).first_raw();
        match guess.unwrap_or("application/octet-stream") {
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
            assert_eq!(types.of(name.as_bytes()), want, "{name}");
        }
        assert_eq!(types.of(b"\xff.svg"), "image/svg+xml");
    }
}
