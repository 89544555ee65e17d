//! The other end of a connection, as a protocol sees it.

use core::net::{IpAddr, SocketAddr};
use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
};

/// The other end of a new connection. Lazy: its address is looked up when a protocol asks for it, since a multishot
/// accept gives none and most protocols do not need it.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    socket: BorrowedFd<'a>,
    /// Which of the server's listening addresses was connected to, counted from 0.
    pub front_end: usize,
    lookup: Lookup,
}

/// Looks up the address of a socket's peer.
pub type Lookup = fn(BorrowedFd<'_>) -> PeerAddress;

/// Address of the client at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    Tcp(SocketAddr),
    /// A unix socket: a process of this host.
    Unix,
    /// Gone already.
    Unknown,
}

impl<'a> Peer<'a> {
    pub fn new(socket: BorrowedFd<'a>, front_end: usize, lookup: Lookup) -> Self {
        Peer { socket, front_end, lookup }
    }

    /// A peer without an address, for protocols that run without a driver.
    pub fn unknown(socket: BorrowedFd<'a>, front_end: usize) -> Self {
        Self::new(socket, front_end, |_| PeerAddress::Unknown)
    }

    /// Returns the client's address; costs a system call.
    pub fn address(&self) -> PeerAddress {
        (self.lookup)(self.socket)
    }
}

impl AsFd for Peer<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket
    }
}

impl fmt::Debug for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("socket", &self.socket).field("front_end", &self.front_end).finish_non_exhaustive()
    }
}

impl PeerAddress {
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix | Self::Unknown => None,
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    /// An IPv4 client of an IPv6 socket has its IPv4 address.
    fn from(address: SocketAddr) -> Self {
        match address.ip().to_canonical() {
            ip @ IpAddr::V4(_) => Self::Tcp(SocketAddr::new(ip, address.port())),
            IpAddr::V6(_) => Self::Tcp(address),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix:"),
            Self::Unknown => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_ipv4() {
        for (address, said) in [
            ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(PeerAddress::from(address.parse::<SocketAddr>().unwrap()).to_string(), said);
        }
    }
}
