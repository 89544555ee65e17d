//! The end of our side of a connection.

use std::os::fd::{AsRawFd, BorrowedFd};

use proto::{Now, Protocol, Session};
use sys::socket;

/// Closes our side once the output has been sent to a peer that may still be sending: then its input is read on, but
/// for one that has everything already and has said nothing more, where the session is content with that.
#[inline]
pub fn end_output<P: Protocol>(session: &mut Session<P>, socket: BorrowedFd<'_>, now: Now) {
    if session.is_aborted() {
        reset_if_cut_off(session, &socket);
    } else if session.is_awaiting_ack() && socket::end_if_acknowledged(socket) {
        session.acknowledged();
    } else if session.begin_lingering(now) {
        socket::shutdown_write(socket);
    }
}

/// Ends a connection whose peer was sent a part of the output only with a reset. What the kernel has of it would
/// otherwise arrive with an end behind it that looks like the true one, and takes up memory until a peer that has
/// stalled takes it.
#[cold]
pub(crate) fn reset_if_cut_off<P: Protocol>(session: &mut Session<P>, socket: &impl AsRawFd) {
    if session.is_cut_off() {
        socket::reset_on_close(socket);
    }
}
