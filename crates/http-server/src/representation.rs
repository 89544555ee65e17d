//! A file as it is sent: both of its responses rendered, its body in memory or as an open descriptor.

use std::{fs::File, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use proto::{FileRegion, Outbox};
use sys::{
    beneath::{Metadata, OpenError, Opened},
    contents::read_unchanging,
};
use web::Heads;
use wire::http1::{Connection, Part};

/// Bodies up to this size are copied behind their head; sharing a larger one is cheaper than copying it.
const COPY_MAX: u64 = 4 * 1024;

/// A file ready to be sent.
#[derive(Debug)]
pub struct Representation {
    pub(crate) heads: Heads,
    body: Body,
}

/// What follows the head of the 200.
#[derive(Debug)]
enum Body {
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
        media_type: &str,
        memory_max: u64,
        unix: Duration,
    ) -> Result<(Self, Metadata), OpenError> {
        let Opened { file, metadata } = opened;
        let file = File::from(file);
        if let Some((contents, metadata)) = read_unchanging(&file, metadata, memory_max)? {
            let included = metadata.size <= COPY_MAX;
            let (inline, body) =
                if included { (contents, Body::Included) } else { (vec![], Body::Shared(contents.into())) };
            return Ok((Self { heads: Heads::new(&metadata, media_type, &inline, unix), body }, metadata));
        }
        let metadata = Metadata::of(&file)?;
        let region = FileRegion { file: Arc::new(file.into()), offset: 0, len: metadata.size };
        Ok((Self { heads: Heads::new(&metadata, media_type, b"", unix), body: Body::File(region) }, metadata))
    }

    /// Queues the whole response; its bytes.
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

    /// Bytes of memory that this holds.
    pub(crate) fn held(&self) -> usize {
        let body = match &self.body {
            Body::Included | Body::File(_) => 0,
            Body::Shared(bytes) => bytes.len(),
        };
        size_of::<Self>() + self.heads.memory_bytes() + body
    }

    pub(crate) fn descriptors(&self) -> usize {
        usize::from(matches!(self.body, Body::File(_)))
    }
}
