//! Moves references to the file's pages by splice(2).

use std::sync::Arc;

use sys::{fifo::Writer, transfer};

use super::{CopyError, FileCopy, Progress, Source, remaining::Remaining};

#[derive(Debug)]
pub(super) struct Splice;

impl FileCopy for Splice {
    type Transfer = Remaining;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Remaining, CopyError> {
        Ok(Remaining::new(source, sink)?)
    }

    fn step(&self, remaining: &mut Remaining, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        remaining.push(|file, offset, len| transfer::splice_in(file, offset, sink, len))
    }
}
