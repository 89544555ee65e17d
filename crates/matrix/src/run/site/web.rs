//! A web site of twenty files as a browser loads them, with what they are compressed to beside the texts.

mod text;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use flate2::write::GzEncoder;
use loadgen::{http::digest_text, result::BodySeen};

/// Directory below the served one.
const DIRECTORY: &str = "pages";
/// File beside it of the paths, in the order in which they are asked for.
const PATHS: &str = "pages.txt";

/// Level at which sites are compressed once, and served often.
const GZIP_LEVEL: u32 = 9;
/// A level below the best one, which takes twenty times as long for a twentieth less.
const BROTLI_LEVEL: i32 = 9;
const BROTLI_WINDOW_BITS: i32 = 22;

/// A file, by its name and its length in bytes. Names with these extensions are texts.
const FILES: [(&str, usize); 20] = [
    ("index.html", 55_000),
    ("css/reset.css", 8_000),
    ("css/theme.css", 21_000),
    ("css/layout.css", 48_000),
    ("css/components.css", 104_000),
    ("css/framework.css", 200_000),
    ("js/boot.js", 12_000),
    ("js/menu.js", 34_000),
    ("js/search.js", 81_000),
    ("js/app.js", 156_000),
    ("js/framework.js", 300_000),
    ("fonts/text.woff2", 20_000),
    ("fonts/bold.woff2", 20_500),
    ("img/logo.svg", 15_000),
    ("img/map.svg", 70_000),
    ("img/icon.png", 6_000),
    ("img/photo.jpg", 45_000),
    ("img/banner.webp", 18_000),
    ("data/menu.json", 3_000),
    ("article.html", 120_000),
];

/// A coding that texts lie there in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// Name in `Content-Encoding`.
    fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Extension of the file beside the text.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gz",
        }
    }

    /// Returns the field with which all servers send this coding that read weights.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Brotli => "Accept-Encoding: br;q=1, gzip;q=0.8",
            Self::Gzip => "Accept-Encoding: gzip;q=0.8",
        }
    }

    /// Returns the field with which the others send it.
    pub(crate) fn field_without_weights(self) -> &'static str {
        match self {
            Self::Brotli => "Accept-Encoding: br, gzip",
            Self::Gzip => "Accept-Encoding: gzip",
        }
    }
}

/// Extensions of texts.
pub(crate) const TEXTS: [&str; 5] = ["css", "js", "html", "svg", "json"];

fn is_text(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| TEXTS.contains(&extension))
}

/// Returns the file of the paths that are asked for.
pub(crate) fn paths(site: &str) -> String {
    format!("{site}/{PATHS}")
}

/// Number of files.
pub(crate) fn count() -> u32 {
    u32::try_from(FILES.len()).unwrap_or(u32::MAX)
}

/// Writes the files and the list of their paths.
pub(crate) fn write(site: &Path) -> Result<()> {
    let mut paths = String::new();
    for (seed, (name, bytes)) in (1..).zip(FILES) {
        let path = site.join(DIRECTORY).join(name);
        let content = text::content(name, bytes, seed);
        keep(&path, &content)?;
        if is_text(name) {
            keep(&beside(&path, Coding::Gzip), &gzip(&content)?)?;
            keep(&beside(&path, Coding::Brotli), &brotli(&content)?)?;
        }
        paths.push_str(&format!("/{DIRECTORY}/{name}\n"));
    }
    keep(&site.join(PATHS), paths.as_bytes())
}

fn keep(path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let written = fs::create_dir_all(directory).and_then(|()| fs::write(path, content));
    written.with_context(|| format!("{}", path.display()))
}

fn beside(path: &Path, coding: Coding) -> PathBuf {
    path.with_added_extension(coding.extension())
}

fn gzip(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
    encoder.write_all(content).and_then(|()| encoder.finish()).context("gzip")
}

fn brotli(content: &[u8]) -> Result<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: BROTLI_LEVEL,
        lgwin: BROTLI_WINDOW_BITS,
        size_hint: content.len(),
        ..Default::default()
    };
    let mut coded = Vec::new();
    brotli::BrotliCompress(&mut &*content, &mut coded, &parameters).context("brotli")?;
    Ok(coded)
}

/// Checks that a server delivered every file as all others must: so many bytes, these, in this coding.
///
/// # Errors
/// It did not, with the first file in which it differs.
pub(crate) fn check(site: &Path, coding: Coding, bodies: &[BodySeen]) -> Result<()> {
    for (name, _) in FILES {
        let request = format!("GET /{DIRECTORY}/{name}");
        let mut seen = bodies.iter().filter(|body| body.request == request);
        let (Some(body), None) = (seen.next(), seen.next()) else { bail!("/{name}: not one and the same answer") };
        let path = site.join(DIRECTORY).join(name);
        let (file, expected) = match is_text(name) {
            true => (beside(&path, coding), coding.name()),
            false => (path, "identity"),
        };
        let content = fs::read(&file).with_context(|| format!("{}", file.display()))?;
        ensure!(
            (body.bytes, body.coding.as_str()) == (content.len() as u64, expected),
            "/{name} came as {} bytes of {}, not as the {} of {expected} that every server has",
            body.bytes,
            body.coding,
            content.len(),
        );
        ensure!(body.sha256 == Some(digest_text(&content)), "/{name} came with another content");
    }
    Ok(())
}

/// Returns the mean length of what is sent for a file.
#[cfg(test)]
fn mean_bytes(site: &Path, coding: Coding) -> u64 {
    let length = |(name, _): (&str, usize)| {
        let path = site.join(DIRECTORY).join(name);
        let sent = if is_text(name) { beside(&path, coding) } else { path };
        fs::metadata(sent).unwrap().len()
    };
    FILES.map(length).iter().sum::<u64>() / FILES.len() as u64
}

#[cfg(test)]
mod tests;
