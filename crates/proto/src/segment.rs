//! One piece of output, owning whatever keeps its bytes alive while the kernel reads them.

use std::{os::fd::OwnedFd, sync::Arc};

use bytes::{Buf, Bytes};

use crate::{DeferredReply, KernelTls, MappedRegion, PipeRegion};

/// `len` bytes of a regular file, from `offset`: sent by sendfile or splice.
#[derive(Clone, Debug)]
pub struct FileRegion {
    pub file: Arc<OwnedFd>,
    pub offset: u64,
    pub len: u64,
}

/// One piece of output.
#[derive(Debug)]
pub enum Segment {
    Owned(Vec<u8>),
    Shared(Bytes),
    Mapped(MappedRegion),
    File(FileRegion),
    Pipe(PipeRegion),
    /// An answer that another thread will give; keeps its place in the order.
    Deferred(DeferredReply),
    /// A step on the socket, in the order of the output.
    KernelTls(Box<KernelTls>),
}

impl Segment {
    /// Bytes that a plain send can be given.
    #[inline]
    pub fn memory(&self) -> Option<&[u8]> {
        match self {
            Self::Owned(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
            Self::Mapped(region) => Some(region.bytes()),
            Self::File(_) | Self::Pipe(_) | Self::Deferred(_) | Self::KernelTls(_) => None,
        }
    }

    /// Bytes that are to be sent; one for an answer that is still awaited, and for a step.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Owned(bytes) => bytes.len() as u64,
            Self::Shared(bytes) => bytes.len() as u64,
            Self::Mapped(region) => region.bytes().len() as u64,
            Self::File(region) => region.len,
            Self::Pipe(region) => region.len,
            Self::Deferred(_) | Self::KernelTls(_) => 1,
        }
    }

    /// Bytes of ours that this holds in memory; a file, a pipe or a mapping costs nothing to hold.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::File(_) | Self::Pipe(_) | Self::Mapped(_) | Self::Deferred(_) | Self::KernelTls(_) => 0,
        }
    }

    /// Bytes of memory that nobody else holds.
    pub(crate) fn own_bytes(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::Shared(_)
            | Self::File(_)
            | Self::Pipe(_)
            | Self::Mapped(_)
            | Self::Deferred(_)
            | Self::KernelTls(_) => 0,
        }
    }

    /// Drops the first `n` bytes of memory.
    pub(crate) fn skip(&mut self, n: usize) {
        match self {
            Self::Owned(bytes) => drop(bytes.drain(..n)),
            Self::Shared(bytes) => bytes.advance(n),
            Self::Mapped(region) => region.skip(n),
            Self::File(_) | Self::Pipe(_) | Self::Deferred(_) | Self::KernelTls(_) => {
                assert_eq!(n, 0, "only memory is skipped");
            }
        }
    }
}
