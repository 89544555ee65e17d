//! Waits of a connection: for its operations, its deadline, its promises and the drain, whichever comes first.

use std::{
    future::{Future, poll_fn},
    net::Shutdown as Half,
    pin::Pin,
    task::{Context, Poll},
};

use proto::Protocol;
use tokio_uring::net::TcpStream;

use super::ConnectionState;
use crate::{clock, peer::uptake, shutdown::Stage};

/// Event that a connection waited for.
pub(super) enum Event<T> {
    Done(T),
    Deadline,
}

impl<P: Protocol> ConnectionState<'_, P> {
    /// Waits for an operation and for the session's deadline, whichever comes first.
    pub(super) fn event<'w, F: Future>(
        &'w mut self,
        stream: &'w TcpStream,
        mut operation: Pin<&'w mut F>,
    ) -> impl Future<Output = Event<F::Output>> {
        poll_fn(move |cx| match operation.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Event::Done(done)),
            Poll::Pending => self.poll_deadline(stream, cx).map(|()| Event::Deadline),
        })
    }

    /// Returns when a promise is settled, or when the session has run out of patience with it.
    pub(super) async fn settled(&mut self, stream: &TcpStream) {
        poll_fn(|cx| match self.session.outbox().poll_reply(cx.waker()) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => self
                .poll_deadline(stream, cx)
                .map(|()| self.session.tick(self.protocol, clock::now(), || uptake(stream))),
        })
        .await;
    }

    fn poll_deadline(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        match self.drain.poll(cx) {
            Stage::Retiring if !self.session.is_retiring() => {
                self.session.retire(self.protocol, clock::now());
                return Poll::Ready(());
            }
            Stage::Draining if !self.is_draining => {
                self.is_draining = true;
                if self.session.drain_streams(self.protocol) {
                    return Poll::Ready(());
                }
                // Reads see what has arrived, then the end of input. A peer that is gone needs no telling.
                let _ = stream.shutdown(Half::Read);
            }
            Stage::Serving | Stage::Retiring | Stage::Draining => {}
        }
        if self.session.is_multiplexed(self.protocol)
            && self.session.outbox().is_waiting()
            && self.session.outbox().poll_reply(cx.waker()).is_ready()
        {
            return Poll::Ready(());
        }
        if self.session.take_pushes(|| cx.waker()) {
            return Poll::Ready(());
        }
        let deadline = self.session.deadline(self.protocol);
        self.timer.poll(deadline, cx)
    }
}
