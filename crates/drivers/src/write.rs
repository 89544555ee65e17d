//! Writing what an outbox holds to a socket by plain system calls. Not generic: compiled once.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use proto::{Front, Outbox, Pipe, PipeRegion, PipeSource};
use sys::{socket, transfer};

/// What one connection writes before others get their turn.
pub(crate) const WRITE_MAX: usize = Outbox::WRITE_MAX;
/// Scratch pipes kept by one loop.
const POOLED_MAX: usize = 64;

/// Empty pipes of one loop, to tee into.
#[derive(Debug, Default)]
pub(crate) struct Pipes(Vec<Pipe>);

impl Pipes {
    fn get(&mut self) -> io::Result<Pipe> {
        match self.0.pop() {
            Some(pipe) => Ok(pipe),
            None => transfer::pipe().map(|(reader, writer)| Pipe { reader, writer }),
        }
    }

    fn put(&mut self, pipe: Option<Pipe>) {
        if self.0.len() < POOLED_MAX {
            self.0.extend(pipe);
        }
    }
}

/// Writes once from the front and returns how much; 0 when there is nothing that can be written now.
#[inline]
pub(crate) fn write_front(socket: BorrowedFd<'_>, outbox: &mut Outbox, pipes: &mut Pipes) -> io::Result<usize> {
    let more = outbox.more_after_memory();
    let n = match outbox.front() {
        Some(Front::Memory(pieces, count)) => socket::send(socket, &pieces[..count], more)?,
        Some(Front::File(region)) => {
            transfer::sendfile(socket, region.file.as_fd(), region.offset, region.len.min(WRITE_MAX as u64))?
        }
        Some(Front::Pipe(region)) => {
            let n = write_pipe(socket, region, pipes)?;
            outbox.advance(n);
            pipes.put(outbox.emptied_pipe());
            return Ok(n);
        }
        Some(Front::Waiting) | None => return Ok(0),
    };
    outbox.advance(n);
    Ok(n)
}

fn write_pipe(socket: BorrowedFd<'_>, region: &mut PipeRegion, pipes: &mut Pipes) -> io::Result<usize> {
    let len = region.len;
    let pipe = fill_scratch(region, pipes)?;
    transfer::splice_out(pipe.reader.as_fd(), socket, len)
}

/// From here on the region has a pipe of its own; a connection that dies takes it along half read.
pub(crate) fn fill_scratch<'a>(region: &'a mut PipeRegion, pipes: &mut Pipes) -> io::Result<&'a Pipe> {
    if let PipeSource::Cached(cached) = &region.source {
        let scratch = pipes.get()?;
        transfer::tee(cached.reader.as_fd(), scratch.writer.as_fd(), region.len)?;
        region.source = PipeSource::Filled(scratch);
    }
    match &region.source {
        PipeSource::Filled(pipe) => Ok(pipe),
        PipeSource::Cached(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}
