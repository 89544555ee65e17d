//! Media types of files, by their names.

mod map;
mod modern;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

pub use map::MimeProblem;
use thiserror::Error;

/// Media types by extension: those of a map file, and behind them the usual ones.
#[derive(Debug, Default)]
pub struct MediaTypes {
    /// Types by extension in lower case.
    mapped: HashMap<String, Arc<str>>,
    charset: Charset,
}

/// Character set that the type of a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charset(Option<Box<str>>);

impl Default for Charset {
    fn default() -> Self {
        Self(Some("utf-8".into()))
    }
}

impl FromStr for Charset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte);
        match text {
            "off" => Ok(Self(None)),
            name if !name.is_empty() && name.bytes().all(is_in_name) => Ok(Self(Some(name.into()))),
            _ => Err(format!("{text:?} is not the name of a character set, such as utf-8, or off")),
        }
    }
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
        Ok(Self { mapped, ..Self::default() })
    }

    /// Replaces the character set of texts.
    #[must_use]
    pub fn with_charset(self, charset: Charset) -> Self {
        Self { charset, ..self }
    }

    /// Returns the Content-Type of a file with this name. What is unknown is taken to be bytes.
    pub fn for_name(&self, name: &[u8]) -> String {
        match (self.known(name).unwrap_or("application/octet-stream"), &self.charset.0) {
            (text, Some(charset)) if text.starts_with("text/") => format!("{text}; charset={charset}"),
            (other, _) => other.to_owned(),
        }
    }

    /// True if the name has an extension that stands for another type than HTML.
    pub(crate) fn is_asset(&self, name: &[u8]) -> bool {
        !matches!(self.known(name), None | Some("text/html" | "application/xhtml+xml"))
    }

    fn known(&self, name: &[u8]) -> Option<&str> {
        let path = Path::new(OsStr::from_bytes(name));
        let last = path.file_name().filter(|_| !name.ends_with(b"/"))?;
        let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
        let mapped = extension.as_ref().and_then(|extension| self.mapped.get(extension));
        mapped
            .map(|media_type| &**media_type)
            .or_else(|| modern::by_name(last.as_bytes()))
            .or_else(|| extension.as_deref().and_then(modern::by_extension))
            .or_else(|| mime_guess::from_path(path).first_raw())
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

    /// Types that browsers insist on: a module is not run and wasm not compiled while it streams without its type, a
    /// playlist and a font are refused by some with another.
    #[test]
    fn media_types_are_those_of_the_web_today() {
        let types = MediaTypes::default();
        for (extensions, want) in [
            (&["js", "mjs", "cjs", "jsx"][..], "text/javascript; charset=utf-8"),
            (&["wasm"], "application/wasm"),
            (&["css"], "text/css; charset=utf-8"),
            (&["html", "htm", "HTML"], "text/html; charset=utf-8"),
            (&["json", "map", "topojson"], "application/json"),
            (&["jsonld"], "application/ld+json"),
            (&["geojson"], "application/geo+json"),
            (&["webmanifest"], "application/manifest+json"),
            (&["woff"], "font/woff"),
            (&["woff2"], "font/woff2"),
            (&["ttf"], "font/ttf"),
            (&["otf"], "font/otf"),
            (&["svg"], "image/svg+xml"),
            (&["avif"], "image/avif"),
            (&["webp"], "image/webp"),
            (&["jxl"], "image/jxl"),
            (&["apng"], "image/apng"),
            (&["ico"], "image/x-icon"),
            (&["m3u8"], "application/vnd.apple.mpegurl"),
            (&["mpd"], "application/dash+xml"),
            (&["ts"], "video/mp2t"),
            (&["m4s"], "video/iso.segment"),
            (&["mp4"], "video/mp4"),
            (&["webm"], "video/webm"),
            (&["weba"], "audio/webm"),
            (&["m4a"], "audio/mp4"),
            (&["opus", "ogg", "oga"], "audio/ogg"),
            (&["flac"], "audio/flac"),
            (&["mp3"], "audio/mpeg"),
            (&["vtt"], "text/vtt; charset=utf-8"),
            (&["md"], "text/markdown; charset=utf-8"),
            (&["txt", "log"], "text/plain; charset=utf-8"),
            (&["csv"], "text/csv; charset=utf-8"),
            (&["yaml", "yml"], "application/yaml"),
            (&["pdf"], "application/pdf"),
            (&["gz", "tgz"], "application/gzip"),
            (&["zst"], "application/zstd"),
            (&["zip"], "application/zip"),
            (&["xml"], "text/xml; charset=utf-8"),
            (&["rss"], "application/rss+xml"),
            (&["atom"], "application/atom+xml"),
            (&["glb"], "model/gltf-binary"),
            (&["gltf"], "model/gltf+json"),
            (&["epub"], "application/epub+zip"),
            (&["br", "bin", "unknown"], "application/octet-stream"),
        ] {
            for extension in extensions {
                assert_eq!(types.for_name(format!("a.b/x.{extension}").as_bytes()), want, "{extension}");
            }
        }
        assert_eq!(types.for_name(b".well-known/apple-app-site-association"), "application/json");
    }

    #[test]
    fn the_character_set_is_that_of_the_site() {
        let named = |name: &str| {
            let types = MediaTypes::default().with_charset(name.parse().unwrap());
            (types.for_name(b"a.html"), types.for_name(b"a.json"))
        };
        assert_eq!(named("iso-8859-1"), ("text/html; charset=iso-8859-1".into(), "application/json".into()));
        assert_eq!(named("off"), ("text/html".into(), "application/json".into()));
        for bad in ["", "utf 8", "utf-8; x", "utf-8\r\nX: y", "\"utf-8\""] {
            assert!(bad.parse::<Charset>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_asset_is_known_by_its_extension() {
        let types = MediaTypes::default();
        for (name, want) in [
            ("/app.js", true),
            ("/a/b.PNG", true),
            ("/a.map", true),
            ("/about", false),
            ("/about.html", false),
            ("/users/jane.doe", false),
            ("/v1.2", false),
            ("/a.js/", false),
            ("/", false),
        ] {
            assert_eq!(types.is_asset(name.as_bytes()), want, "{name}");
        }
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
