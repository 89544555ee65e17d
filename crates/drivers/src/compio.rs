//! One compio runtime per thread, a task per connection: receives and sends are operations of its ring with buffers of their own;
//! files and pipes are sent by plain calls when the ring says that the socket is writable.

use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use compio::{
    driver::ProactorBuilder,
    runtime::{Runtime, RuntimeBuilder, fd::PollFd},
    time::sleep_until,
};
use proto::Protocol;

use crate::{
    Descriptor, Driver, Serving, Unavailable,
    accept::ConnectionLimit,
    on_threads, system_calls,
    tasks::{Eager, RingTransport, Spawn, Timer, Watch, serve_listeners},
};

mod send;

/// Wakes from other threads that a runtime takes before it has run; whoever wakes a task beyond that spins until there is room.
const REMOTE_WAKES: usize = 1024;

pub(crate) struct Compio;

impl Driver for Compio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "compio",
        about: "one compio runtime per thread, owned buffers; no registered memory",
        built_on: Some("compio 0.19.2, August 2026; ring flags COOP_TASKRUN, TASKRUN_FLAG"),
        calls: system_calls::COMPIO,
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
                serve_listeners::<P, Eager<PollFd<OwnedFd>>, RingTransport<PollFd<OwnedFd>>, Sleep, Self>(
                    listeners,
                    (&protocol, config, shutdown),
                    &limit,
                ),
            )
        })
    }
}

fn runtime() -> io::Result<Runtime> {
    let mut ring = ProactorBuilder::new();
    ring.coop_taskrun(true).taskrun_flag(true);
    RuntimeBuilder::new().with_proactor(ring).sync_queue_size(REMOTE_WAKES).build()
}

/// Connections are accepted by readiness, as the crate's own accept knows neither flags nor what to do without descriptors.
impl Spawn for Compio {
    fn spawn(task: impl Future<Output = ()> + 'static) {
        compio::runtime::spawn(task).detach();
    }
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
