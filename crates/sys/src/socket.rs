//! Connected stream sockets (send(2), recv(2), shutdown(2)).

use std::{
    ffi::OsStr,
    io::{self, IoSlice},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::ffi::OsStrExt,
    },
};

use nix::libc;
use rustix::{
    io::{fcntl_dupfd_cloexec, ioctl_fionread, retry_on_intr},
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix, sockopt},
};

use crate::listen::Address;

#[inline]
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (n, _) = retry_on_intr(|| rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()))?;
    Ok(n)
}

/// Like [`recv`] on a socket with a timeout, which would begin anew if the call were repeated.
///
/// # Errors
/// `Interrupted` when the process was stopped and continued meanwhile (signal(7)).
#[inline]
pub fn recv_once(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (n, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(n)
}

/// Writes memory; with `more` TCP holds a partial segment back for what follows.
///
/// # Errors
/// `Interrupted` when the process was stopped and continued meanwhile, on a socket with a timeout (signal(7)).
#[inline]
pub fn send_once(socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
    Ok(match pieces {
        [piece] => rustix::net::send(socket, piece, flags)?,
        pieces => rustix::net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags)?,
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

/// Closes our side if the peer has acknowledged every byte that was sent; whether that is so, and nothing that it has
/// sent is unread. Then the socket can be closed, since whatever a reset might still do comes behind the end.
pub fn end_if_acknowledged(socket: BorrowedFd<'_>) -> bool {
    if !matches!(pending(&socket), Ok(0)) {
        return false;
    }
    shutdown_write(socket);
    matches!(ioctl_fionread(socket), Ok(0))
}

/// Bytes that were sent and that the peer has not acknowledged (TCP) or not read (unix, with the kernel's overhead) yet.
/// Like its siblings below it takes whatever knows a number: it changes nothing, so that the number of another file
/// gives a wrong answer and nothing worse.
pub fn pending(socket: &impl AsRawFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which sockets call SIOCOUTQ (tcp(7), unix(7)), writes an int and nothing else.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } {
        0 => Ok(u64::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that the peer has acknowledged since the connection began; `None` where that is not counted: on unix sockets
/// and old kernels.
pub fn acknowledged(socket: &impl AsRawFd) -> Option<u64> {
    let bytes = *tcp_info(socket)?.last_chunk()?;
    Some(u64::from_ne_bytes(bytes))
}

/// True if the peer of a TCP socket may still send: it has neither said that it will not nor gone.
pub fn is_established(socket: &impl AsRawFd) -> bool {
    /// TCP_ESTABLISHED (net/tcp_states.h).
    const ESTABLISHED: u8 = 1;
    tcp_info(socket).is_some_and(|info| info[0] == ESTABLISHED)
}

/// Place of `tcpi_bytes_acked` in `struct tcp_info` (linux/tcp.h), which begins with the connection's state.
const BYTES_ACKED_AT: usize = 120;

fn tcp_info(socket: &impl AsRawFd) -> Option<[u8; BYTES_ACKED_AT + 8]> {
    let mut info = [0_u8; BYTES_ACKED_AT + 8];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, and their number to `len`.
    let outcome = unsafe {
        let info = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info, &raw mut len)
    };
    (outcome == 0 && len as usize == info.len()).then_some(info)
}

/// Lets the socket end with a reset when it is closed, and what the kernel still has of its output be dropped
/// (SO_LINGER of socket(7)). To be called with a socket that is the caller's. A unix socket knows no reset.
pub fn reset_on_close(socket: &impl AsRawFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the kernel reads a linger, which is there. A socket that is gone needs no telling.
    let _ = unsafe {
        let linger = (&raw const linger).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, linger, len)
    };
}

/// True if a write would not wait, or would fail at once.
pub fn is_writable(socket: &impl AsRawFd) -> bool {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: poll(2) writes to one pollfd, which is there.
    unsafe { libc::poll(&raw mut wanted, 1, 0) == 1 }
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

/// An open socket by its number, without keeping it open, so that another thread can end its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    number: RawFd,
    /// SO_COOKIE of socket(7): no other socket has it, as long as the system runs.
    cookie: u64,
}

impl Handle {
    pub fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self { number: socket.as_raw_fd(), cookie: sockopt::socket_cookie(socket)? })
    }

    /// The descriptor's number.
    pub fn number(self) -> RawFd {
        self.number
    }

    /// Ends the connection as its own process would: its reader sees the end. False: it is gone already.
    pub fn shutdown(self) -> bool {
        // SAFETY: the descriptor is borrowed for one dup(2) only, which fails if the number is of no open file. If it
        // is of another one by now, the duplicate is closed again without having been used.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.number) };
        let Ok(socket) = fcntl_dupfd_cloexec(borrowed, 0) else { return false };
        let is_the_same = sockopt::socket_cookie(&socket).is_ok_and(|cookie| cookie == self.cookie);
        if is_the_same {
            shutdown_both(socket.as_fd());
        }
        is_the_same
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, theirs)
    }

    /// Waits until the other end's bytes have arrived.
    fn arrive(socket: &TcpStream) {
        assert_eq!(socket.peek(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn only_acknowledged_output_to_a_silent_peer_is_ended() {
        // More than a peer that does not read has room for.
        let (mut ours, mut theirs) = pair();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 1 << 16]).is_ok() {}
        assert!(!end_if_acknowledged(ours.as_fd()), "some of it is under way");
        ours.set_nonblocking(false).unwrap();
        assert!(theirs.read(&mut [0; 1 << 16]).unwrap() > 0, "and our side is still open");

        let (mut ours, mut theirs) = pair();
        ours.write_all(b"document").unwrap();
        theirs.write_all(b"more").unwrap();
        arrive(&ours);
        assert!(!end_if_acknowledged(ours.as_fd()), "something is unread");

        let (mut ours, mut theirs) = pair();
        ours.write_all(b"document").unwrap();
        let begin = Instant::now();
        while !end_if_acknowledged(ours.as_fd()) {
            assert!(begin.elapsed() < Duration::from_secs(40), "it is never acknowledged");
            thread::sleep(Duration::from_millis(1));
        }
        drop(ours);
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"document");
        // A reset in answer to what comes too late takes nothing.
        let _ = theirs.write_all(b"more");
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn the_kernel_says_what_the_peer_has_taken() {
        let (mut ours, mut theirs) = pair();
        let before = acknowledged(&ours).unwrap();
        ours.write_all(&[0; 1000]).unwrap();
        theirs.read_exact(&mut [0; 1000]).unwrap();
        let begin = Instant::now();
        while acknowledged(&ours).unwrap() - before < 1000 || pending(&ours).unwrap() > 0 {
            assert!(begin.elapsed() < Duration::from_secs(40), "it is never acknowledged");
            thread::sleep(Duration::from_millis(1));
        }
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[0; 1000]).unwrap();
        assert!(acknowledged(&ours).is_none() && pending(&ours).unwrap() >= 1000);
        theirs.read_exact(&mut [0; 1000]).unwrap();
        assert_eq!(pending(&ours).unwrap(), 0);
        assert!(is_writable(&ours));
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 1 << 16]).is_ok() {}
        assert!(!is_writable(&ours));
    }

    #[test]
    fn a_handle_ends_its_own_socket_and_no_other() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let handle = Handle::new(theirs.as_fd()).unwrap();
        assert!(handle.shutdown());
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        drop(theirs);
        // Whatever the number is of by now, it is not of this socket.
        assert!(!handle.shutdown());
    }
}
