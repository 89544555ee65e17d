//! Output that leaves through a kernel pipe, and what it is when there is no pipe to be had.

use std::{
    ops::Range,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use crate::FileRegion;

/// Both ends of a kernel pipe.
#[derive(Debug)]
pub struct Pipe {
    pub reader: OwnedFd,
    pub writer: OwnedFd,
}

/// A pipe that keeps what it holds: `head`, then the bytes of `file`. A driver that sends it tees it into a scratch
/// pipe.
#[derive(Debug)]
pub struct CachedPipe {
    pub pipe: Pipe,
    /// Bytes in the pipe: those of `head` and of `file`.
    pub len: u64,
    pub head: Bytes,
    pub file: FileRegion,
    /// Counts the times that it was sent as memory and file instead, for want of a scratch pipe that takes it.
    pub fallbacks: Arc<AtomicU64>,
}

/// A mapped file, whose bytes are handed to the kernel only and never read in user space: a page that the file has lost
/// is EFAULT there and SIGBUS here.
#[derive(Debug)]
pub struct MappedFile {
    /// The file from its first byte.
    pub bytes: Bytes,
    pub file: Arc<OwnedFd>,
    /// Counts the times that the rest of it was sent as a file instead, for want of a scratch pipe or of a page.
    pub fallbacks: Arc<AtomicU64>,
}

/// Part of a mapped file that is written from where it is.
#[derive(Clone, Debug)]
pub struct MappedRegion {
    of: Arc<MappedFile>,
    range: Range<usize>,
}

impl MappedRegion {
    /// `None` unless the mapping has all of the range.
    pub fn new(of: &Arc<MappedFile>, range: Range<u64>) -> Option<Self> {
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        of.bytes.get(range.clone())?;
        Some(Self { of: Arc::clone(of), range })
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.of.bytes[self.range.clone()]
    }

    /// Returns the same bytes, which keep the mapping.
    pub fn to_bytes(&self) -> Bytes {
        self.of.bytes.slice(self.range.clone())
    }

    /// Returns a part of it.
    ///
    /// # Panics
    /// If it is not that long.
    pub(crate) fn slice(&self, part: Range<usize>) -> Self {
        assert!(part.end <= self.range.len(), "sliced past the end");
        let start = self.range.start;
        Self { of: Arc::clone(&self.of), range: start + part.start..start + part.end }
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, n: usize) {
        assert!(n <= self.range.len(), "skipped past the end");
        self.range.start += n;
    }

    /// Returns the same part of the file, to be sent without the mapping, and counts a fallback.
    pub fn fall_back(&self) -> FileRegion {
        self.of.fallbacks.fetch_add(1, Ordering::Relaxed);
        FileRegion { file: Arc::clone(&self.of.file), offset: self.range.start as u64, len: self.range.len() as u64 }
    }
}

/// A pipe that a driver lends to one region at a time.
#[derive(Debug)]
pub struct ScratchPipe {
    pub pipe: Pipe,
    /// Bytes in it.
    pub filled: u64,
    /// Bytes that it has room for, if they fill whole pages.
    pub capacity: usize,
    /// One of a bounded number; dropped with the pipe.
    pub permit: Arc<()>,
}

/// Pages of a mapped file on their way through a scratch pipe, which is filled and emptied again and again.
#[derive(Debug)]
pub struct Pages {
    pub of: Arc<MappedFile>,
    /// The file's next byte to be sent.
    pub offset: u64,
    pub scratch: Option<Box<ScratchPipe>>,
}

impl Pages {
    /// Range of the next `len` bytes in the mapping; `None` when it ends before them.
    pub fn range(&self, len: u64) -> Option<Range<usize>> {
        let (start, len) = (usize::try_from(self.offset).ok()?, usize::try_from(len).ok()?);
        Some(start..start.checked_add(len)?).filter(|range| range.end <= self.of.bytes.len())
    }
}

/// Place of the bytes of a [`PipeRegion`].
#[derive(Debug)]
pub enum PipeSource {
    /// At the head of a pipe that must keep them: the driver tees them into a scratch pipe first.
    Cached(Arc<CachedPipe>),
    /// In a pipe of our own that holds nothing else.
    Filled(Box<ScratchPipe>),
    /// In a mapped file: the driver puts as many as there is room for into a scratch pipe.
    Pages(Pages),
}

/// `len` bytes that leave through a pipe.
#[derive(Debug)]
pub struct PipeRegion {
    pub source: PipeSource,
    pub len: u64,
}

impl PipeRegion {
    /// All that a pipe holds.
    pub fn cached(pipe: &Arc<CachedPipe>) -> Self {
        Self { len: pipe.len, source: PipeSource::Cached(Arc::clone(pipe)) }
    }

    /// These bytes of a mapped file, which must be in it.
    pub fn pages(of: &Arc<MappedFile>, range: Range<u64>) -> Self {
        let pages = Pages { of: Arc::clone(of), offset: range.start, scratch: None };
        Self { len: range.end.saturating_sub(range.start), source: PipeSource::Pages(pages) }
    }

    /// The scratch pipe that it goes through; empty where that is still to be filled.
    pub fn scratch(&self) -> Option<&ScratchPipe> {
        match &self.source {
            PipeSource::Filled(scratch) => Some(scratch),
            PipeSource::Pages(pages) => pages.scratch.as_deref(),
            PipeSource::Cached(_) => None,
        }
    }

    /// `n` bytes of it have been sent, out of its scratch pipe.
    pub fn advance(&mut self, n: u64) {
        self.len -= n;
        let scratch = match &mut self.source {
            PipeSource::Filled(scratch) => scratch,
            PipeSource::Pages(Pages { scratch: Some(scratch), offset, .. }) => {
                *offset += n;
                scratch
            }
            PipeSource::Pages(_) | PipeSource::Cached(_) => panic!("sent without having been filled"),
        };
        scratch.filled -= n;
    }

    /// Returns its head and file, to be sent without a pipe, and counts a fallback. `None` when part of it is in a
    /// scratch pipe.
    pub fn fall_back(&self) -> Option<(Bytes, FileRegion)> {
        match &self.source {
            PipeSource::Cached(cached) => {
                let CachedPipe { head, file, fallbacks, .. } = &**cached;
                fallbacks.fetch_add(1, Ordering::Relaxed);
                let head = head.slice(..head.len().min(usize::try_from(self.len).unwrap_or(usize::MAX)));
                let len = self.len - head.len() as u64;
                Some((head, FileRegion { file: Arc::clone(&file.file), offset: file.offset, len }))
            }
            PipeSource::Pages(Pages { of, offset, scratch })
                if scratch.as_ref().is_none_or(|pipe| pipe.filled == 0) =>
            {
                of.fallbacks.fetch_add(1, Ordering::Relaxed);
                Some((Bytes::new(), FileRegion { file: Arc::clone(&of.file), offset: *offset, len: self.len }))
            }
            PipeSource::Pages(_) | PipeSource::Filled(_) => None,
        }
    }

    /// Its scratch pipe, if that is empty.
    pub(crate) fn into_scratch(self) -> Option<Box<ScratchPipe>> {
        let scratch = match self.source {
            PipeSource::Filled(scratch) => Some(scratch),
            PipeSource::Pages(pages) => pages.scratch,
            PipeSource::Cached(_) => None,
        };
        scratch.filter(|scratch| scratch.filled == 0)
    }
}

#[cfg(test)]
mod tests;
