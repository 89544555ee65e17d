//! Heads of a file's responses, rendered ahead of time.

use std::{
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use sys::beneath::Metadata;
use wire::http1::{
    PreparedResponse, Status, coding::Coding, conditional::Validators, date::format_date, response::ResponseBuilder,
};

use crate::Presentation;

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
        self.coding().map(Coding::name)
    }

    /// Returns the coding that the representation is in, where there is one.
    pub(crate) fn coding(self) -> Option<Coding> {
        match self {
            Self::Sole | Self::Identity | Self::Decompressed => None,
            Self::Stored(coding) | Self::Compressed(coding) => Some(coding),
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
    /// Configured fields of every response about the file, as lines of a head.
    fields: Box<[u8]>,
    /// Length of the file in bytes.
    size: u64,
    /// Last modification, in seconds since the epoch.
    modified: u64,
    encoding: Encoding,
    /// Last change of contents or inode, in seconds since the epoch.
    changed: u64,
}

impl Heads {
    /// Renders the heads for a file in this state, at `unix` since the epoch. `body` is put behind the head of the 200: all
    /// of the file, or nothing where its bytes come from elsewhere.
    pub fn new(
        metadata: &Metadata,
        presentation: &Presentation,
        encoding: Encoding,
        body: &[u8],
        unix: Duration,
    ) -> Self {
        let Presentation { media_type, cache_control, fields } = presentation;
        let etag = entity_tag(metadata, encoding);
        let seconds = |ns: i64| u64::try_from(ns / NANOSECONDS).unwrap_or(0);
        // Never later than the response (RFC 9110, section 8.8.2.1).
        let modified = seconds(metadata.modified_ns).min(unix.as_secs());
        let changed = seconds(metadata.changed_ns);
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
        let not_modified =
            PreparedResponse::builder(Status::NotModified).field("Last-Modified", date).field("ETag", &etag);
        // A 304 has them all, too: a cache puts them in the place of those it has (RFC 9111, section 3.2).
        let configured = |mut builder: ResponseBuilder| {
            if encoding.is_negotiated() {
                builder = builder.field("Vary", VARY);
            }
            match cache_control {
                Some(value) => builder.field("Cache-Control", value).lines(fields),
                None => builder.lines(fields),
            }
        };
        let (ok, not_modified) = (configured(ok).body(body), configured(not_modified).body(b""));
        let size = metadata.size;
        Self {
            ok,
            not_modified,
            etag: etag.into(),
            media_type: (**media_type).into(),
            fields: (**fields).into(),
            size,
            modified,
            changed,
            encoding,
        }
    }

    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified, changed: self.changed }
    }

    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the configured fields of every response about the file, as lines of a head.
    pub(crate) fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// Length of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory that these hold beside themselves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ok.heap_bytes()
            + self.not_modified.heap_bytes()
            + self.etag.len()
            + self.media_type.len()
            + self.fields.len()
    }
}

/// Returns the strong entity tag of a file in this state.
///
/// Nobody can set the change time, so it tells a rewritten file from the old one where the modification time was put back.
/// The inode number tells apart two files of one tick of the clock, of which one takes the place of the other. Both differ
/// from machine to machine, and so does the tag: a hash, as inode numbers are nobody's business.
fn entity_tag(metadata: &Metadata, encoding: Encoding) -> String {
    let Metadata { device: _, inode, size, modified_ns, changed_ns } = *metadata;
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(inode);
    hasher.write_u64(size);
    hasher.write_i64(modified_ns);
    hasher.write_i64(changed_ns);
    format!("\"{:016x}{}\"", hasher.finish(), encoding.tag_suffix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_modified_is_never_later_than_the_response() {
        let metadata = Metadata { device: 1, inode: 1, size: 0, modified_ns: 2_000 * NANOSECONDS, changed_ns: 0 };
        let at = |seconds| Heads::new(&metadata, &"a/b".into(), Encoding::Sole, b"", Duration::from_secs(seconds));
        assert_eq!((at(1_000).modified, at(3_000).modified), (1_000, 2_000));
        let old = Metadata { modified_ns: -5 * NANOSECONDS, ..metadata };
        assert_eq!(Heads::new(&old, &"a/b".into(), Encoding::Sole, b"", Duration::from_secs(9)).modified, 0);
    }

    #[test]
    fn every_change_of_a_file_changes_its_entity_tag() {
        let metadata = Metadata { device: 1, inode: 2, size: 3, modified_ns: 4, changed_ns: 5 };
        let entity_tag = |metadata: &Metadata| entity_tag(metadata, Encoding::Sole);
        let tag = entity_tag(&metadata);
        assert_eq!((tag.len(), entity_tag(&Metadata { device: 9, ..metadata })), (18, tag.clone()));
        for other in [
            Metadata { inode: 9, ..metadata },
            Metadata { size: 9, ..metadata },
            Metadata { modified_ns: 9, ..metadata },
            Metadata { changed_ns: 9, ..metadata },
        ] {
            assert_ne!(entity_tag(&other), tag, "{other:?}");
        }
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
        let heads = encodings.map(|encoding| Heads::new(&metadata, &"a/b".into(), encoding, b"", Duration::ZERO));
        let mut tags: Vec<_> = heads.iter().map(|heads| heads.validators().etag).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), encodings.len());
    }
}
