//! The operations of monoio's rings on a socket.
//!
//! The crate's operations are futures without a name that borrow their socket. So those of a connection stand in one future for
//! each direction, which is made once, runs one after the other what it is asked for, and can be polled.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use monoio::net::TcpStream;

use super::raw::{Gathered, Stream};
use crate::tasks::{Pieces, RingSocket, Watch};

/// A socket of any family.
pub(super) struct MonoioSocket {
    // The directions come first: they end before the descriptor does.
    receives: Option<Direction<Box<[u8]>, Received>>,
    sends: Option<Direction<Pieces, Sent>>,
    readable: RefCell<Option<Event>>,
    writable: RefCell<Option<Event>>,
    stream: Stream,
}

type Received = (io::Result<usize>, Box<[u8]>);
type Sent = (io::Result<usize>, Pieces);
type Event = Pin<Box<dyn Future<Output = io::Result<()>>>>;

impl AsFd for MonoioSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Watch for MonoioSocket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        // Its streams are named after address families, but only ever look at the descriptor.
        let stream = Stream::new(TcpStream::from_std(socket.into())?);
        Ok(Self { receives: None, sends: None, readable: RefCell::default(), writable: RefCell::default(), stream })
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_event(&self.readable, || Box::pin(self.stream.clone().readable()), cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_event(&self.writable, || Box::pin(self.stream.clone().writable()), cx)
    }
}

/// Waits for an event, in as many polls as that takes.
fn poll_event(
    waiting: &RefCell<Option<Event>>,
    begin: impl FnOnce() -> Event,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut waiting = waiting.borrow_mut();
    let ready = ready!(waiting.get_or_insert_with(begin).as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(ready)
}

impl RingSocket for MonoioSocket {
    type Receiving = ();
    type Sending = ();

    fn receive(&mut self, buffer: Box<[u8]>) {
        let stream = &self.stream;
        self.receives.get_or_insert_with(|| Direction::new(|slot| receive_all(stream.clone(), slot))).ask(buffer);
    }

    fn poll_receive(&mut self, (): &mut (), cx: &mut Context<'_>) -> Poll<Received> {
        self.receives.as_mut().map_or(Poll::Pending, |receives| receives.poll(cx))
    }

    fn send(&mut self, pieces: Pieces) {
        let stream = &self.stream;
        self.sends.get_or_insert_with(|| Direction::new(|slot| send_all(stream.clone(), slot))).ask(pieces);
    }

    fn poll_send(&mut self, (): &mut (), cx: &mut Context<'_>) -> Poll<Sent> {
        self.sends.as_mut().map_or(Poll::Pending, |sends| sends.poll(cx))
    }
}

async fn receive_all(socket: Stream, slot: Rc<Slot<Box<[u8]>, Received>>) {
    loop {
        let buffer = slot.question().await;
        let answer = socket.read(buffer).await;
        slot.answer.set(Some(answer));
    }
}

async fn send_all(socket: Stream, slot: Rc<Slot<Pieces, Sent>>) {
    loop {
        let answer = match slot.question().await {
            Pieces::One(piece) => {
                let (sent, piece) = socket.write(piece).await;
                (sent, Pieces::One(piece))
            }
            Pieces::Several(pieces) => {
                let (sent, gathered) = socket.writev(Gathered::new(pieces)).await;
                (sent, Pieces::Several(gathered.into_pieces()))
            }
        };
        slot.answer.set(Some(answer));
    }
}

/// Operations of one kind, one at a time.
struct Direction<Q, A> {
    slot: Rc<Slot<Q, A>>,
    operations: Pin<Box<dyn Future<Output = ()>>>,
}

struct Slot<Q, A> {
    question: Cell<Option<Q>>,
    answer: Cell<Option<A>>,
}

impl<Q, A> Direction<Q, A> {
    fn new<F: Future<Output = ()> + 'static>(operations: impl FnOnce(Rc<Slot<Q, A>>) -> F) -> Self {
        let slot = Rc::new(Slot { question: Cell::new(None), answer: Cell::new(None) });
        Self { operations: Box::pin(operations(Rc::clone(&slot))), slot }
    }

    fn ask(&self, question: Q) {
        self.slot.question.set(Some(question));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<A> {
        // It never ends.
        let _ = self.operations.as_mut().poll(cx);
        self.slot.answer.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<Q, A> Slot<Q, A> {
    fn question(&self) -> impl Future<Output = Q> {
        // Whoever asks polls.
        poll_fn(|_| self.question.take().map_or(Poll::Pending, Poll::Ready))
    }
}
