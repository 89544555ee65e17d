//! Heads of a file's responses, rendered ahead of time.

use std::time::Duration;

use sys::beneath::Metadata;
use wire::http1::{PreparedResponse, Status, coding::Coding, conditional::Validators, date::format_date};

const NANOSECONDS: i64 = 1_000_000_000;
/// Value of `Vary` for a path with several representations.
const VARY: &str = "Accept-Encoding";

/// Relation of a representation to the others of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// The only one.
    Sole,
    /// The file as it is, where there are compressed ones, or may be.
    Identity,
    /// A file beside the original that holds it in compressed form.
    Stored(Coding),
    /// Made from the original by this server.
    Compressed(Coding),
    /// Made by this server from a compressed file without an original.
    Decompressed,
}

impl Encoding {
    /// Returns the value of `Content-Encoding`, where there is one.
    pub fn content_coding(self) -> Option<&'static str> {
        match self {
            Self::Sole | Self::Identity | Self::Decompressed => None,
            Self::Stored(coding) | Self::Compressed(coding) => Some(coding.name()),
        }
    }

    /// True if `Accept-Encoding` decides whether this one is sent.
    pub fn is_negotiated(self) -> bool {
        self != Self::Sole
    }

    /// Returns the end of the entity tag: no two representations of a path have the same tag, whatever the times and sizes
    /// of their files.
    fn tag_suffix(self) -> String {
        match self {
            Self::Sole | Self::Identity => String::new(),
            Self::Stored(coding) => format!("-{}", coding.name()),
            Self::Compressed(coding) => format!("-{}-c", coding.name()),
            Self::Decompressed => "-d".to_owned(),
        }
    }
}

/// Rendered heads of the responses for one state of a file.
#[derive(Clone, Debug)]
pub struct Heads {
    /// 200, followed by the body where one was given.
    pub ok: PreparedResponse,
    /// 304.
    pub not_modified: PreparedResponse,
    etag: Box<str>,
    media_type: Box<str>,
    /// Length of the file in bytes.
    size: u64,
    /// Last modification, in seconds since the epoch.
    modified: u64,
    encoding: Encoding,
}

impl Heads {
    /// Renders the heads for a file in this state, at `unix` since the epoch. `body` is put behind the head of the 200: all
    /// of the file, or nothing where its bytes come from elsewhere.
    pub fn new(metadata: &Metadata, media_type: &str, encoding: Encoding, body: &[u8], unix: Duration) -> Self {
        let etag = format!("\"{:x}-{:x}{}\"", metadata.modified_ns, metadata.size, encoding.tag_suffix());
        // Never later than the response (RFC 9110, section 8.8.2.1).
        let modified = u64::try_from(metadata.modified_ns / NANOSECONDS).unwrap_or(0).min(unix.as_secs());
        let date = format_date(modified);
        let mut ok = PreparedResponse::builder(Status::Ok)
            .field("Content-Type", media_type)
            .field("Content-Length", metadata.size.to_string())
            .field("Last-Modified", date)
            .field("ETag", &etag)
            .field("Accept-Ranges", "bytes");
        if let Some(coding) = encoding.content_coding() {
            ok = ok.field("Content-Encoding", coding);
        }
        let mut not_modified =
            PreparedResponse::builder(Status::NotModified).field("Last-Modified", date).field("ETag", &etag);
        if encoding.is_negotiated() {
            ok = ok.field("Vary", VARY);
            not_modified = not_modified.field("Vary", VARY);
        }
        let (ok, not_modified, size) = (ok.body(body), not_modified.body(b""), metadata.size);
        Self { ok, not_modified, etag: etag.into(), media_type: media_type.into(), size, modified, encoding }
    }

    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified }
    }

    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory that these hold beside themselves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ok.heap_bytes() + self.not_modified.heap_bytes() + self.etag.len() + self.media_type.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_modified_is_never_later_than_the_response() {
        let metadata = Metadata { device: 1, inode: 1, size: 0, modified_ns: 2_000 * NANOSECONDS, changed_ns: 0 };
        let at = |seconds| Heads::new(&metadata, "a/b", Encoding::Sole, b"", Duration::from_secs(seconds));
        assert_eq!((at(1_000).modified, at(3_000).modified), (1_000, 2_000));
        let old = Metadata { modified_ns: -5 * NANOSECONDS, ..metadata };
        assert_eq!(Heads::new(&old, "a/b", Encoding::Sole, b"", Duration::from_secs(9)).modified, 0);
    }
    #[test]
    fn every_representation_of_a_path_has_its_own_tag() {
        let metadata = Metadata { device: 1, inode: 1, size: 9, modified_ns: 1, changed_ns: 1 };
        let encodings = [
            Encoding::Identity,
            Encoding::Stored(Coding::Gzip),
            Encoding::Stored(Coding::Brotli),
            Encoding::Compressed(Coding::Gzip),
            Encoding::Compressed(Coding::Brotli),
            Encoding::Decompressed,
        ];
        let heads = encodings.map(|encoding| Heads::new(&metadata, "a/b", encoding, b"", Duration::ZERO));
        let mut tags: Vec<_> = heads.iter().map(|heads| heads.validators().etag).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), encodings.len());
    }
}
