//! The end of our side of a connection.

use std::os::fd::BorrowedFd;

use proto::{Now, Protocol, Session};
use sys::socket;

/// Closes our side once the output has been sent to a peer that may still be sending: then its input is read on, but
/// for one that has everything already and has said nothing more, where the session is content with that.
#[inline]
pub(crate) fn end_output<P: Protocol>(session: &mut Session<P>, socket: BorrowedFd<'_>, now: Now) {
    if session.is_awaiting_ack() && socket::end_if_acknowledged(socket) {
        session.acknowledged();
    } else if session.begin_lingering(now) {
        socket::shutdown_write(socket);
    }
}
