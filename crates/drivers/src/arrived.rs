//! The last reads of a connection whose server drains.

use std::{io, os::fd::BorrowedFd};

use proto::{Now, Protocol, Session};
use sys::socket;

use crate::counters::Tally;

/// Answers more of what arrived before the drain, whether or not it has been announced, and ends the input after it,
/// or has the protocol end the connection itself.
/// Call it while the session wants to read.
pub fn read_arrived<P: Protocol>(
    socket: BorrowedFd<'_>,
    session: &mut Session<P>,
    protocol: &P,
    now: Now,
    tally: &mut Tally,
) -> io::Result<()> {
    match socket::recv(socket, session.recv_space()) {
        Ok(0) => session.end_of_input(),
        Ok(n) => {
            tally.0.bytes_in += n as u64;
            session.received(n, now);
            session.resume(protocol, now);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            session.drain(protocol);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
