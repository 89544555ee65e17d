//! Where the server is, and how to reach it without waiting.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

/// The server's address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A connection attempt that has not failed.
pub(super) enum Attempt {
    Connected(OwnedFd),
    /// The socket becomes writable when the attempt is decided.
    Pending(OwnedFd),
    /// A unix listener's queue is full; there is nothing to wait on.
    QueueFull,
}

impl Endpoint {
    /// Whether anybody is there: one connection, closed at once.
    pub fn probe(&self, timeout: Duration) -> std::io::Result<()> {
        match self {
            Self::Tcp(address) => TcpStream::connect_timeout(address, timeout).map(drop),
            // Decided at once. A blocking attempt would wait for ever on a full queue, which is still somebody's.
            Self::Unix(_) => self.connect().map(drop).map_err(Into::into),
        }
    }

    pub(super) fn connect(&self) -> Result<Attempt, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (socket, connected) = match self {
            Self::Tcp(address) => {
                let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
                sockopt::set_tcp_nodelay(&socket, true)?;
                let connected = connect(&socket, address);
                (socket, connected)
            }
            Self::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                let connected = connect(&socket, &SocketAddrUnix::new(path)?);
                (socket, connected)
            }
        };
        match (connected, self) {
            (Ok(()), _) => Ok(Attempt::Connected(socket)),
            (Err(Errno::INPROGRESS), _) => Ok(Attempt::Pending(socket)),
            (Err(Errno::AGAIN), Self::Unix(_)) => Ok(Attempt::QueueFull),
            (Err(error), _) => Err(error),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
