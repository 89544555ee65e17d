//! Pages of a mapping, lent to the FIFO by vmsplice(2). Nothing here reads them: a page that the file has lost would be a
//! signal, and is an error of the system call.

use std::{
    io,
    os::fd::AsFd,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use sys::{beneath::Metadata, fifo::Writer, map, transfer};

use super::{CopyError, CopyOptions, FileCopy, Progress, Source, remaining::Rest};

/// Transfers of one unchanged file share a mapping: the pages need to be found in the page table only once.
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
pub(super) struct Lent {
    rest: Rest,
    /// `None` of an empty file.
    mapping: Option<Arc<Mapping>>,
}

impl Vmsplice {
    #[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
    pub(super) fn new(_: &CopyOptions) -> io::Result<Self> {
        Ok(Self::default())
    }

    fn map(&self, source: &Source) -> io::Result<Option<Arc<Mapping>>> {
        let of = source.metadata;
        if of.size == 0 {
            return Ok(None);
        }
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
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
    type Transfer = Lent;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Lent, CopyError> {
        let mapping = self.map(&source)?;
        Ok(Lent { rest: Rest::new(source, sink)?, mapping })
    }

    fn step(&self, lent: &mut Lent, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        let Lent { rest, mapping } = lent;
        let bytes = mapping.as_ref().map_or(&[][..], |mapping| &mapping.bytes);
        let progress = rest.push(|_, offset, _| transfer::vmsplice(sink.as_fd(), &bytes[offset as usize..]))?;
        // The last page that is left of a file is mapped as a whole: what follows the file's end in it reads as zeros.
        rest.check()?;
        Ok(progress)
    }
}
