//! Cached form of a file: both of its responses rendered, its body in memory or as an open descriptor.

use std::{fs::File, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use file_cache::FileState;
use proto::{FileRegion, Outbox};
use sys::{
    beneath::{Metadata, OpenError, Opened},
    contents::read_unchanging,
};
use web::{Heads, Presentation};
use wire::http1::{Connection, Part};

/// Size of the largest bodies that are copied behind their head, in bytes; sharing a larger one is cheaper than copying it.
const COPY_MAX: u64 = 4 * 1024;

/// File ready to be sent.
#[derive(Debug)]
pub struct Representation {
    pub(crate) heads: Heads,
    body: Body,
    state: FileState,
}

/// Bytes that follow the head of the 200.
#[derive(Debug)]
enum Body {
    /// None: the rendered head includes the body.
    Included,
    Shared(Bytes),
    File(FileRegion),
}

impl Representation {
    /// Renders a file at `unix` since the epoch. Up to `contents_max` bytes of contents go into memory. The file that is
    /// rendered is in the state that it has now: it may have changed since it was opened.
    ///
    /// # Errors
    /// Those of fstat(2) and pread(2).
    pub(crate) fn load(
        opened: Opened,
        presentation: &Presentation,
        contents_max: u64,
        unix: Duration,
    ) -> Result<Self, OpenError> {
        let Opened { file, metadata } = opened;
        let file = File::from(file);
        let (inline, body, metadata) = match read_unchanging(&file, metadata, contents_max)? {
            Some((contents, metadata)) if metadata.size <= COPY_MAX => (contents, Body::Included, metadata),
            Some((contents, metadata)) => (vec![], Body::Shared(contents.into()), metadata),
            None => {
                let metadata = Metadata::of(&file)?;
                let region = FileRegion { file: Arc::new(file.into()), offset: 0, len: metadata.size };
                (vec![], Body::File(region), metadata)
            }
        };
        let heads = Heads::new(&metadata, presentation, &inline, unix);
        Ok(Self { heads, body, state: FileState::new(metadata, unix) })
    }

    /// Queues the whole response. Returns the number of its bytes.
    #[inline(always)]
    pub(crate) fn push_ok(&self, connection: Connection, unix: Duration, out: &mut Outbox) -> u64 {
        let part = match self.body {
            Body::Included => Part::Whole,
            Body::Shared(_) | Body::File(_) => Part::Head,
        };
        let pushed = self.heads.ok.push(part, connection, unix, out.inline()) as u64;
        match &self.body {
            Body::Included => pushed,
            Body::Shared(bytes) => {
                out.push_shared(bytes);
                pushed + bytes.len() as u64
            }
            Body::File(region) => {
                out.push_file(region.clone());
                pushed + region.len
            }
        }
    }

    /// Queues a part of the body.
    pub(crate) fn push_range(&self, range: Range<u64>, out: &mut Outbox) {
        // What is in memory is smaller than the address space.
        let within = |bytes: &[u8]| range.start as usize..(range.end as usize).min(bytes.len());
        match &self.body {
            Body::Included => {
                let body = self.heads.ok.body();
                out.inline().extend_from_slice(&body[within(body)]);
            }
            Body::Shared(bytes) => out.push_shared(&bytes.slice(within(bytes))),
            Body::File(region) => {
                let FileRegion { file, offset, .. } = region;
                let (file, offset) = (Arc::clone(file), offset + range.start);
                out.push_file(FileRegion { file, offset, len: range.end - range.start });
            }
        }
    }
}

impl file_cache::Body for Representation {
    #[inline]
    fn state(&self) -> &FileState {
        &self.state
    }

    fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Included | Body::File(_) => 0,
            Body::Shared(bytes) => bytes.len(),
        };
        size_of::<Self>() + self.heads.memory_bytes() + body
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}
