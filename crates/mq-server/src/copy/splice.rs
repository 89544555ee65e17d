//! References to the file's pages, by splice(2).

use std::{io, sync::Arc};

use sys::{fifo::Writer, transfer};

use super::{CopyError, CopyOptions, FileCopy, Progress, Source, remaining::Rest};

#[derive(Debug)]
pub(super) struct Splice;

impl Splice {
    #[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
    pub(super) fn new(_: &CopyOptions) -> io::Result<Self> {
        Ok(Self)
    }
}

impl FileCopy for Splice {
    type Transfer = Rest;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Rest, CopyError> {
        Ok(Rest::new(source, sink)?)
    }

    fn step(&self, rest: &mut Rest, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        rest.push(|file, offset, len| transfer::splice_in(file, offset, sink, len))
    }
}
