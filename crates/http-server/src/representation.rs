//! A file as it is sent: both of its responses rendered, its body in memory or as an open descriptor.

use std::{ffi::OsStr, fs::File, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use proto::FileRegion;
use sys::{
    beneath::{Metadata, OpenError, Opened},
    contents::read_unchanging,
};
use wire::http1::{Part, Prepared, Status, conditional::Validators, date::format_date};

/// Bodies up to this size are copied behind their head; sharing a larger one is cheaper than copying it.
const COPY_MAX: u64 = 4 * 1024;
const NANOSECONDS: i64 = 1_000_000_000;

/// A file ready to be sent.
#[derive(Debug)]
pub(crate) struct Representation {
    pub(crate) ok: Prepared,
    pub(crate) not_modified: Prepared,
    pub(crate) body: Body,
    etag: String,
    /// Seconds since the epoch.
    modified: u64,
}

/// What follows the head in `ok`.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nothing: it is in there.
    Included,
    Shared(Bytes),
    File(FileRegion),
}

impl Representation {
    /// Renders a file, whose contents go into memory when there are at most `memory_max` bytes of them. `unix` is the
    /// time since the epoch.
    ///
    /// Returns the state of the file that is represented: it may have changed since it was opened.
    ///
    /// # Errors
    /// Those of fstat(2) and pread(2).
    pub(crate) fn load(
        opened: Opened,
        relative: &[u8],
        memory_max: u64,
        unix: Duration,
    ) -> Result<(Self, Metadata), OpenError> {
        let Opened { file, metadata } = opened;
        let file = File::from(file);
        if let Some((contents, metadata)) = read_unchanging(&file, metadata, memory_max)? {
            let included = metadata.size <= COPY_MAX;
            let (inline, body) =
                if included { (contents, Body::Included) } else { (vec![], Body::Shared(contents.into())) };
            return Ok((Self::render(relative, &metadata, &inline, body, unix), metadata));
        }
        let metadata = Metadata::of(&file)?;
        let region = FileRegion { file: Arc::new(file.into()), offset: 0, len: metadata.size };
        Ok((Self::render(relative, &metadata, b"", Body::File(region), unix), metadata))
    }

    fn render(relative: &[u8], metadata: &Metadata, inline: &[u8], body: Body, unix: Duration) -> Self {
        let etag = format!("\"{:x}-{:x}\"", metadata.modified_ns, metadata.size);
        // Never later than the response (RFC 9110, section 8.8.2.1).
        let modified = u64::try_from(metadata.modified_ns / NANOSECONDS).unwrap_or(0).min(unix.as_secs());
        let date = format_date(modified);
        let ok = Prepared::draft(Status::Ok)
            .field("Content-Type", media_type(relative))
            .field("Content-Length", metadata.size.to_string())
            .field("Last-Modified", date)
            .field("ETag", &etag)
            .body(inline);
        let not_modified =
            Prepared::draft(Status::NotModified).field("Last-Modified", date).field("ETag", &etag).body(b"");
        Self { ok, not_modified, body, etag, modified }
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified }
    }

    /// Which part of `ok` answers a GET.
    #[inline]
    pub(crate) fn part(&self) -> Part {
        match self.body {
            Body::Included => Part::Whole,
            Body::Shared(_) | Body::File(_) => Part::Head,
        }
    }

    /// Bytes of memory that this holds.
    pub(crate) fn held(&self) -> usize {
        let body = match &self.body {
            Body::Included | Body::File(_) => 0,
            Body::Shared(bytes) => bytes.len(),
        };
        size_of::<Self>() + self.ok.held() + self.not_modified.held() + self.etag.len() + body
    }

    pub(crate) fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}

fn media_type(relative: &[u8]) -> String {
    let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(relative))).first_raw();
    match guess.unwrap_or("application/octet-stream") {
        text if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_utf_8_and_the_unknown_is_bytes() {
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
            assert_eq!(media_type(name.as_bytes()), want, "{name}");
        }
        assert_eq!(media_type(b"\xff.svg"), "image/svg+xml");
    }

    #[test]
    fn a_file_from_the_future_is_as_old_as_the_response() {
        let metadata = Metadata { device: 1, inode: 1, size: 0, modified_ns: 2_000 * NANOSECONDS, changed_ns: 0 };
        let at = |seconds| Representation::render(b"a", &metadata, b"", Body::Included, Duration::from_secs(seconds));
        assert_eq!((at(1_000).modified, at(3_000).modified), (1_000, 2_000));
        let old = Metadata { modified_ns: -5 * NANOSECONDS, ..metadata };
        assert_eq!(Representation::render(b"a", &old, b"", Body::Included, Duration::from_secs(9)).modified, 0);
    }
}
