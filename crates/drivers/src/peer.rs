//! The other end: its address, and what it takes.

use std::os::fd::{AsRawFd, BorrowedFd};

use proto::{Peer, PeerAddress, Uptake};
use sys::{listen::Address, socket};

/// Peer of a connection that has been accepted.
#[inline]
pub fn peer(socket: BorrowedFd<'_>, front_end: usize) -> Peer<'_> {
    Peer::new(socket, front_end, address)
}

pub(crate) fn address(socket: BorrowedFd<'_>) -> PeerAddress {
    match socket::peer(socket) {
        Ok(Address::Tcp(address)) => address.into(),
        Ok(Address::Unix(_)) => PeerAddress::Unix,
        Err(_) => PeerAddress::Unknown,
    }
}

/// Asks the kernel what the peer has taken.
#[cold]
pub fn uptake(socket: &impl AsRawFd) -> Uptake {
    match socket::pending(socket) {
        Ok(pending) => Uptake { acknowledged: socket::acknowledged(socket), pending },
        Err(_) => Uptake::none(),
    }
}
