//! Lends pages of a mapping to the FIFO by vmsplice(2). Nothing here reads them: for a page that the file has lost, a read
//! would raise a signal, and the system call returns an error.

use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use parking_lot::Mutex;
use sys::{beneath::Metadata, fifo::Writer, map, transfer};

use super::{CopyError, FileCopy, Progress, Source, remaining::Remaining};

/// Transfers of one unchanged file share a mapping, so that its pages are looked up in the page table only once.
#[derive(Debug, Default)]
pub(super) struct Vmsplice {
    mapped: Mutex<Vec<Weak<Mapping>>>,
}

#[derive(Debug)]
struct Mapping {
    of: Metadata,
    bytes: Bytes,
}

#[derive(Debug)]
pub(super) struct MappedTransfer {
    remaining: Remaining,
    /// `None` for an empty file.
    mapping: Option<Arc<Mapping>>,
}

impl Vmsplice {
    fn map(&self, source: &Source) -> io::Result<Option<Arc<Mapping>>> {
        let of = source.metadata;
        if of.size == 0 {
            return Ok(None);
        }
        let mut mapped = self.mapped.lock();
        mapped.retain(|mapping| mapping.strong_count() > 0);
        if let Some(mapping) = mapped.iter().filter_map(Weak::upgrade).find(|mapping| mapping.of == of) {
            return Ok(Some(mapping));
        }
        let len = usize::try_from(of.size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mapping = Arc::new(Mapping { of, bytes: map::map_file(&source.file, len)? });
        mapped.push(Arc::downgrade(&mapping));
        Ok(Some(mapping))
    }
}

impl FileCopy for Vmsplice {
    type Transfer = MappedTransfer;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<MappedTransfer, CopyError> {
        let mapping = self.map(&source)?;
        Ok(MappedTransfer { remaining: Remaining::new(source, sink)?, mapping })
    }

    fn step(&self, transfer_state: &mut MappedTransfer, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let MappedTransfer { remaining, mapping } = transfer_state;
        let bytes = mapping.as_ref().map_or(&[][..], |mapping| &mapping.bytes);
        let progress = remaining.push(|_, offset, _| transfer::vmsplice(sink.as_fd(), &bytes[offset as usize..]))?;
        // The last page that is left of a file is mapped as a whole: the bytes behind the file's end read as zeros.
        remaining.check()?;
        Ok(progress)
    }
}
