//! References to the file's pages, by sendfile(2), which splices when it meets a pipe.

use std::{io, os::fd::AsFd, sync::Arc};

use sys::{fifo::Writer, transfer};

use super::{CopyError, CopyOptions, FileCopy, Progress, Source, remaining::Rest};

#[derive(Debug)]
pub(super) struct Sendfile;

impl Sendfile {
    #[expect(clippy::unnecessary_wraps, reason = "as the others of the table")]
    pub(super) fn new(_: &CopyOptions) -> io::Result<Self> {
        Ok(Self)
    }
}

impl FileCopy for Sendfile {
    type Transfer = Rest;

    fn begin(&self, source: Source, sink: &Arc<Writer>) -> Result<Rest, CopyError> {
        Ok(Rest::new(source, sink)?)
    }

    fn step(&self, rest: &mut Rest, sink: &Arc<Writer>) -> Result<Progress, CopyError> {
        rest.push(|file, offset, len| transfer::sendfile(sink.as_fd(), file.as_fd(), offset, len))
    }
}
