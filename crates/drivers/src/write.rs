//! Writing what an outbox holds to a socket by plain system calls. Not generic: compiled once.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use proto::{KernelTls, NextWrite, Outbox, PipeRegion};
use rustix::io::Errno;
use sys::{ktls, socket, transfer};

use crate::pipes::{FillOutcome, Pipes};

/// Bytes that one connection writes before others get their turn.
pub const WRITE_MAX: usize = Outbox::WRITE_MAX;

/// Writes once from the front and returns how much; 0 when there is nothing that can be written now.
#[inline]
pub fn write_front(socket: BorrowedFd<'_>, outbox: &mut Outbox, pipes: &mut Pipes) -> io::Result<usize> {
    transfer::until_uninterrupted(|| write_front_once(socket, outbox, pipes))
}

/// The same; `Interrupted` when the process was stopped meanwhile, for sockets with a timeout that must not begin anew.
#[inline]
pub fn write_front_once(socket: BorrowedFd<'_>, outbox: &mut Outbox, pipes: &mut Pipes) -> io::Result<usize> {
    let more = outbox.has_more_after_memory();
    let n = match outbox.front() {
        Some(NextWrite::Memory(pieces, count)) => match socket::send_once(socket, &pieces[..count], more) {
            Ok(n) => n,
            Err(error) if is_lost_page(&error) && outbox.fall_back_from_mappings() => {
                return write_front_once(socket, outbox, pipes);
            }
            Err(error) => return Err(error),
        },
        Some(NextWrite::File(region)) => {
            transfer::sendfile_once(socket, region.file.as_fd(), region.offset, region.len.min(WRITE_MAX as u64))?
        }
        Some(NextWrite::Pipe(_)) => return write_pipe(socket, outbox, pipes),
        Some(NextWrite::KernelTls(_)) => return take_kernel_tls(socket, outbox, pipes),
        Some(NextWrite::Waiting) | None => return Ok(0),
    };
    outbox.advance(n);
    Ok(n)
}

/// Takes the step of kernel TLS in front, and goes on with what is behind it unless that has sent something.
#[cold]
fn take_kernel_tls(socket: BorrowedFd<'_>, outbox: &mut Outbox, pipes: &mut Pipes) -> io::Result<usize> {
    let Some(NextWrite::KernelTls(step)) = outbox.front() else { return Ok(0) };
    match step {
        // A socket that knows no TLS is no error: its layer goes on encrypting.
        KernelTls::Attach if ktls::attach(&socket).is_err() => outbox.refuse_kernel_tls(),
        KernelTls::Attach => outbox.complete_kernel_tls(),
        KernelTls::Start(keys) => {
            ktls::start(&socket, keys.bytes())?;
            outbox.complete_kernel_tls();
        }
        KernelTls::Record { content_type, payload } => {
            let n = ktls::send_record_once(&socket, *content_type, payload)?;
            outbox.complete_kernel_tls();
            return Ok(n);
        }
    }
    write_front_once(socket, outbox, pipes)
}

/// True if a system call was given memory that is no longer there: a page of a mapping that its file has lost.
pub(crate) fn is_lost_page(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::FAULT)
}

/// One tee or vmsplice, where the scratch pipe is empty, and one splice.
fn write_pipe(socket: BorrowedFd<'_>, outbox: &mut Outbox, pipes: &mut Pipes) -> io::Result<usize> {
    let followed = outbox.has_more_after_front();
    let Some(NextWrite::Pipe(region)) = outbox.front() else { return Ok(0) };
    match pipes.fill(region)? {
        FillOutcome::Filled => {}
        FillOutcome::NoPipe => {
            outbox.fall_back();
            return write_front_once(socket, outbox, pipes);
        }
    }
    let n = splice_front(socket, region, followed)?;
    outbox.advance(n);
    pipes.put(outbox.emptied_pipe());
    Ok(n)
}

fn splice_front(socket: BorrowedFd<'_>, region: &PipeRegion, followed: bool) -> io::Result<usize> {
    let scratch = region.scratch().ok_or(io::ErrorKind::InvalidData)?;
    let len = scratch.filled.min(WRITE_MAX as u64);
    transfer::splice_out_once(scratch.pipe.reader.as_fd(), socket, len, followed || len < region.len)
}
