//! Moves references to the file's pages by sendfile(2), which splices if the target is a pipe.

use std::{os::fd::AsFd, sync::Arc};

use sys::{fifo::Writer, transfer};

use super::{CopyError, FileCopy, Progress, Source, remaining::Remaining};

#[derive(Debug)]
pub(super) struct Sendfile;

impl FileCopy for Sendfile {
    type Transfer = Remaining;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Remaining, CopyError> {
        Ok(Remaining::new(source, sink)?)
    }

    fn step(&self, remaining: &mut Remaining, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        remaining.push(|file, offset, len| transfer::sendfile(sink.as_fd(), file.as_fd(), offset, len))
    }
}
