//! Cached form of a file: both of its responses rendered, its body in memory or as an open descriptor.

use std::{borrow::Cow, fs::File, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use file_cache::FileState;
use proto::{FileRegion, Outbox};
use sys::{
    beneath::{Metadata, OpenError, Opened},
    contents::read_unchanging,
    memfd,
};
use web::{Encoding, Heads, Presentation};
use wire::http1::{Connection, Part};

/// Size of the largest bodies that are copied behind their head, in bytes; sharing a larger one is cheaper than copying it.
const COPY_MAX: u64 = 4 * 1024;

/// File ready to be sent.
#[derive(Clone, Debug)]
pub struct Representation {
    pub(crate) heads: Heads,
    body: Body,
    state: FileState,
    /// Memory of a file that has no other place, in bytes.
    memfd_bytes: usize,
}

/// Bytes that follow the head of the 200.
#[derive(Clone, Debug)]
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
        encoding: Encoding,
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
        let heads = Heads::new(&metadata, presentation, encoding, &inline, unix);
        Ok(Self { heads, body, state: FileState::new(metadata, unix), memfd_bytes: 0 })
    }

    /// Renders another representation of the same file, with these contents. More than `contents_max` bytes become a file
    /// without a name, which sendfile sends at half the cost of memory, where one can be had.
    pub(crate) fn converted(
        &self,
        contents: Vec<u8>,
        presentation: &Presentation,
        encoding: Encoding,
        contents_max: u64,
        unix: Duration,
    ) -> Self {
        let size = contents.len() as u64;
        let memfd = if size > contents_max { memfd::sealed(&contents).ok() } else { None };
        let (inline, body, memfd_bytes) = match memfd {
            Some(file) => {
                (vec![], Body::File(FileRegion { file: Arc::new(file), offset: 0, len: size }), contents.len())
            }
            None if size <= COPY_MAX => (contents, Body::Included, 0),
            None => (vec![], Body::Shared(contents.into()), 0),
        };
        let metadata = Metadata { size, ..self.state.metadata };
        let heads = Heads::new(&metadata, presentation, encoding, &inline, unix);
        Self { heads, body, state: self.state, memfd_bytes }
    }

    /// Returns the contents; `None` if they cannot be had any more as they were.
    pub(crate) fn contents(&self) -> Option<Cow<'_, [u8]>> {
        match &self.body {
            Body::Included => Some(self.heads.ok.body().into()),
            Body::Shared(bytes) => Some((&bytes[..]).into()),
            Body::File(region) => {
                let file = File::from(region.file.try_clone().ok()?);
                let (contents, metadata) = read_unchanging(&file, self.state.metadata, region.len).ok()??;
                (metadata == self.state.metadata).then(|| contents.into())
            }
        }
    }

    pub(crate) fn state(&self) -> &FileState {
        &self.state
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

impl Representation {
    pub(crate) fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Included | Body::File(_) => 0,
            Body::Shared(bytes) => bytes.len(),
        };
        size_of::<Self>() + self.heads.memory_bytes() + body + self.memfd_bytes
    }

    pub(crate) fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}
