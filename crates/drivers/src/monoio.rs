//! One monoio runtime per thread, a task per connection: receives and sends are operations of its ring with buffers of their own;
//! files and pipes are sent by plain calls when the ring says that the socket is writable.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use monoio::{
    IoUringDriver, Runtime, RuntimeBuilder,
    time::{Sleep, TimeDriver, sleep_until},
};
use proto::Protocol;
use sys::listen::Listener;

use crate::{
    Descriptor, Driver, Serving, Unavailable,
    accept::{Acceptor, ConnectionLimit},
    on_threads,
    tasks::{AcceptorDrain, Crew, Eager, Incoming, RingTransport, Shared, Timer, serve_connection},
};

mod operations;
#[allow(unsafe_code, reason = "the crate asks for `unsafe impl` of what a ring sends, and lends no descriptor")]
mod raw;

use operations::MonoioSocket;

pub(crate) struct Monoio;

impl Driver for Monoio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "monoio",
        about: "one monoio runtime per thread, owned buffers; no registered memory (monoio 0.2.4, August 2024)",
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
                    .map(|(shared, listener, acceptor)| monoio::spawn(accept(shared, listener, acceptor)))
                    .collect();
                for acceptor in acceptors {
                    acceptor.await?;
                }
                Ok(())
            })
        })
    }
}

fn runtime() -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    RuntimeBuilder::<IoUringDriver>::new().enable_timer().build()
}

/// Accepts by readiness: the crate's own accept knows neither flags nor what to do without descriptors.
async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<()> {
    let (shared, crew) = (Arc::new(shared), Crew::default());
    let mut incoming = Incoming::<Eager<MonoioSocket>, MonoioTimer>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let (shared, member) = (Arc::clone(&shared), crew.join());
        monoio::spawn(async move {
            serve_connection::<P, RingTransport<MonoioSocket>, MonoioTimer>(socket, permit, &shared).await;
            drop(member);
        });
    }
    drop(incoming);
    crew.ended().await;
    Ok(())
}

struct MonoioTimer(Pin<Box<Sleep>>);

impl Timer for MonoioTimer {
    fn at(deadline: Instant) -> Self {
        Self(Box::pin(sleep_until(deadline.into())))
    }

    fn reset(&mut self, deadline: Instant) {
        self.0.as_mut().reset(deadline.into());
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
