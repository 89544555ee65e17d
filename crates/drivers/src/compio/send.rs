//! The operations of compio's rings on a socket.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, ready},
};

use compio::{
    BufResult,
    buf::{IntoInner, IoBuf},
    driver::{
        SharedFd, ToSharedFd,
        op::{Recv, RecvFlags, Send, SendFlags, SendVectored},
    },
    runtime::{Submit, fd::PollFd, submit},
};

use crate::tasks::{Piece, Pieces, RingSocket};

impl IoBuf for Piece {
    fn as_init(&self) -> &[u8] {
        self.bytes()
    }
}

/// A send in flight.
pub(crate) enum Sending {
    One(Submit<Send<Piece, SharedFd<OwnedFd>>>),
    Several(Submit<SendVectored<Vec<Piece>, SharedFd<OwnedFd>>>),
}

impl RingSocket for PollFd<OwnedFd> {
    type Receiving = Submit<Recv<Box<[u8]>, SharedFd<OwnedFd>>>;
    type Sending = Sending;

    fn receive(&mut self, buffer: Box<[u8]>) -> Self::Receiving {
        submit(Recv::new(self.to_shared_fd(), buffer, RecvFlags::empty()))
    }

    fn poll_receive(
        &mut self,
        receiving: &mut Self::Receiving,
        cx: &mut Context<'_>,
    ) -> Poll<(io::Result<usize>, Box<[u8]>)> {
        let BufResult(received, operation) = ready!(Pin::new(receiving).poll(cx));
        Poll::Ready((received, operation.into_inner()))
    }

    fn send(&mut self, pieces: Pieces) -> Sending {
        let socket = self.to_shared_fd();
        match pieces {
            Pieces::One(piece) => Sending::One(submit(Send::new(socket, piece, SendFlags::NOSIGNAL))),
            Pieces::Several(pieces) => Sending::Several(submit(SendVectored::new(socket, pieces, SendFlags::NOSIGNAL))),
        }
    }

    fn poll_send(&mut self, sending: &mut Sending, cx: &mut Context<'_>) -> Poll<(io::Result<usize>, Pieces)> {
        Poll::Ready(match sending {
            Sending::One(operation) => {
                let BufResult(sent, operation) = ready!(Pin::new(operation).poll(cx));
                (sent, Pieces::One(operation.into_inner()))
            }
            Sending::Several(operation) => {
                let BufResult(sent, operation) = ready!(Pin::new(operation).poll(cx));
                (sent, Pieces::Several(operation.into_inner()))
            }
        })
    }
}
