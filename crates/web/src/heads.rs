//! Heads of a file's responses, rendered ahead of time.

use std::time::Duration;

use sys::beneath::Metadata;
use wire::http1::{PreparedResponse, Status, conditional::Validators, date::format_date};

const NANOSECONDS: i64 = 1_000_000_000;

/// Rendered heads of the responses for one state of a file.
#[derive(Debug)]
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
}

impl Heads {
    /// Renders the heads for a file in this state, at `unix` since the epoch. `body` is put behind the head of the 200: all
    /// of the file, or nothing where its bytes come from elsewhere.
    pub fn new(metadata: &Metadata, media_type: &str, body: &[u8], unix: Duration) -> Self {
        let etag = format!("\"{:x}-{:x}\"", metadata.modified_ns, metadata.size);
        // Never later than the response (RFC 9110, section 8.8.2.1).
        let modified = u64::try_from(metadata.modified_ns / NANOSECONDS).unwrap_or(0).min(unix.as_secs());
        let date = format_date(modified);
        let ok = PreparedResponse::builder(Status::Ok)
            .field("Content-Type", media_type)
            .field("Content-Length", metadata.size.to_string())
            .field("Last-Modified", date)
            .field("ETag", &etag)
            .field("Accept-Ranges", "bytes")
            .body(body);
        let not_modified =
            PreparedResponse::builder(Status::NotModified).field("Last-Modified", date).field("ETag", &etag).body(b"");
        let size = metadata.size;
        Self { ok, not_modified, etag: etag.into(), media_type: media_type.into(), size, modified }
    }

    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: self.etag.as_bytes(), modified: self.modified }
    }

    pub fn media_type(&self) -> &str {
        &self.media_type
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
        let at = |seconds| Heads::new(&metadata, "a/b", b"", Duration::from_secs(seconds));
        assert_eq!((at(1_000).modified, at(3_000).modified), (1_000, 2_000));
        let old = Metadata { modified_ns: -5 * NANOSECONDS, ..metadata };
        assert_eq!(Heads::new(&old, "a/b", b"", Duration::from_secs(9)).modified, 0);
    }
}
