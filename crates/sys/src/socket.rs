//! Connected stream sockets (send(2), recv(2), shutdown(2)).

use std::{
    ffi::OsStr,
    io::{self, IoSlice},
    os::{fd::BorrowedFd, unix::ffi::OsStrExt},
};

use rustix::{
    io::retry_on_intr,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix},
};

use crate::listen::Address;

#[inline]
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (n, _) = retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()))?;
    Ok(n)
}

/// Writes memory; with `more` TCP holds a partial segment back for what follows.
#[inline]
pub fn send(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    Ok(match pieces {
        [piece] => retry_on_intr(|| rustix::net::send(socket, piece, flags))?,
        pieces => retry_on_intr(|| rustix::net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags))?,
    })
}

/// Writes what fits at once, on a blocking socket too.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Our side sends no more. A peer that is gone already needs no telling.
pub fn shutdown_write(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
}

/// Reads see what has arrived, then the end of input.
pub fn shutdown_read(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}

/// Ends every operation in progress on the socket.
pub fn shutdown_both(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// The address of the other end; a nameless unix socket is `unix:` and nothing.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Address> {
    address(rustix::net::getpeername(socket)?.ok_or(io::ErrorKind::AddrNotAvailable)?)
}

/// The address of our end.
pub fn local(socket: BorrowedFd<'_>) -> io::Result<Address> {
    address(rustix::net::getsockname(socket)?)
}

fn address(any: SocketAddrAny) -> io::Result<Address> {
    if let Ok(unix) = SocketAddrUnix::try_from(any.clone()) {
        let path = unix.path_bytes().unwrap_or_default();
        return Ok(Address::Unix(OsStr::from_bytes(path).into()));
    }
    Ok(Address::Tcp(any.try_into()?))
}
