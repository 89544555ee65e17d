//! One compio runtime per thread, a task per connection: receives and sends are operations of its ring with buffers of their own;
//! files and pipes are sent by plain calls when the ring says that the socket is writable.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use compio::{
    driver::ProactorBuilder,
    runtime::{ResumeUnwind, Runtime, RuntimeBuilder, fd::PollFd},
    time::sleep_until,
};
use proto::Protocol;
use sys::listen::Listener;

use crate::{
    Descriptor, Driver, Serving, Unavailable,
    accept::{Acceptor, ConnectionLimit},
    on_threads,
    tasks::{AcceptorDrain, Crew, Eager, Incoming, RingTransport, Shared, Timer, Watch, serve_connection},
};

mod send;

/// Wakes from other threads that a runtime takes before it has run; whoever wakes a task beyond that spins until there is room.
const REMOTE_WAKES: usize = 1024;

pub(crate) struct Compio;

impl Driver for Compio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "compio",
        about: "one compio runtime per thread, owned buffers; no registered memory (compio 0.19.2, August 2026)",
        ..Descriptor::OWNED_BUFFERS
    };

    fn probe() -> Result<(), Unavailable> {
        runtime().map(drop).map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            runtime()?.block_on(async {
                let served = Shared::of_each(listeners, (&protocol, config, shutdown), &limit)?;
                let acceptors: Vec<_> = served
                    .into_iter()
                    .map(|(shared, listener, acceptor)| compio::runtime::spawn(accept(shared, listener, acceptor)))
                    .collect();
                for acceptor in acceptors {
                    acceptor.await.resume_unwind().unwrap_or(Ok(()))?;
                }
                Ok(())
            })
        })
    }
}

fn runtime() -> io::Result<Runtime> {
    let mut ring = ProactorBuilder::new();
    ring.coop_taskrun(true).taskrun_flag(true);
    RuntimeBuilder::new().with_proactor(ring).sync_queue_size(REMOTE_WAKES).build()
}

/// Accepts by readiness: the crate's own accept knows neither flags nor what to do without descriptors.
async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<()> {
    let (shared, crew) = (Arc::new(shared), Crew::default());
    let mut incoming = Incoming::<Eager<PollFd<OwnedFd>>, Sleep>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let (shared, member) = (Arc::clone(&shared), crew.join());
        let task = async move {
            serve_connection::<P, RingTransport<PollFd<OwnedFd>>, Sleep>(socket, permit, &shared).await;
            drop(member);
        };
        compio::runtime::spawn(task).detach();
    }
    drop(incoming);
    crew.ended().await;
    Ok(())
}

impl Watch for PollFd<OwnedFd> {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Self::new(socket)
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(cx)
    }
}

/// A sleep of the runtime, which cannot be moved: there is a new one each time.
struct Sleep(Pin<Box<dyn Future<Output = ()>>>);

impl Timer for Sleep {
    fn at(deadline: Instant) -> Self {
        Self(Box::pin(sleep_until(deadline)))
    }

    fn reset(&mut self, deadline: Instant) {
        *self = Self::at(deadline);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
