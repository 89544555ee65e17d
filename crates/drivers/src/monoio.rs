//! One monoio runtime per thread, a task per connection: receives and sends are operations of its ring with buffers of their own;
//! files and pipes are sent by plain calls when the ring says that the socket is writable.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use monoio::{
    IoUringDriver, Runtime, RuntimeBuilder,
    time::{Sleep, TimeDriver, sleep_until},
};
use proto::Protocol;

use crate::{
    Descriptor, Driver, Serving, Unavailable,
    accept::ConnectionLimit,
    on_threads, system_calls,
    tasks::{Eager, RingTransport, Spawn, Timer, serve_listeners},
};

mod operations;
#[allow(unsafe_code, reason = "the crate asks for `unsafe impl` of what a ring sends, and lends no descriptor")]
mod raw;

use operations::MonoioSocket;

pub(crate) struct Monoio;

impl Driver for Monoio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "monoio",
        about: "one monoio runtime per thread, owned buffers; no registered memory",
        built_on: Some("monoio 0.2.4, August 2024; no ring flags"),
        calls: system_calls::MONOIO,
        ..Descriptor::OWNED_BUFFERS
    };

    fn probe() -> Result<(), Unavailable> {
        runtime().map(drop).map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            runtime()?.block_on(
                serve_listeners::<P, Eager<MonoioSocket>, RingTransport<MonoioSocket>, MonoioTimer, Self>(
                    listeners,
                    (&protocol, config, shutdown),
                    &limit,
                ),
            )
        })
    }
}

fn runtime() -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    RuntimeBuilder::<IoUringDriver>::new().enable_timer().build()
}

/// Connections are accepted by readiness, as the crate's own accept knows neither flags nor what to do without descriptors.
impl Spawn for Monoio {
    fn spawn(task: impl Future<Output = ()> + 'static) {
        monoio::spawn(task);
    }
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
