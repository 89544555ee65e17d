//! One glommio executor per thread, a task per connection: bytes are received by the crate's streams, which call recv once
//! their ring says that there is something; everything is sent by plain calls.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, timer::Timer as GlommioTimer};
use io_uring::IoUring;
use proto::Protocol;

use crate::{
    ConnectionModel, Descriptor, Driver, Serving, Unavailable, Wait,
    accept::ConnectionLimit,
    descriptor::IO_URING,
    on_threads, system_calls,
    tasks::{Eager, Spawn, Timer, serve_listeners},
};

mod connection;
#[allow(unsafe_code, reason = "the crate lends no descriptor")]
mod raw;
mod watcher;

use connection::Connection;
use watcher::{Listening, Watcher};

/// Memory that an executor registers with its rings for files, which are none of its affairs here: the least that it takes.
const IO_MEMORY: usize = 64 * 1024;

pub(crate) struct Glommio;

impl Driver for Glommio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "glommio",
        about: "one glommio executor per thread, receives once its ring says readable; writable sockets by an epoll that the \
                ring watches",
        built_on: Some("glommio 0.9.0, March 2024; no ring flags"),
        connection: ConnectionModel::Task,
        listener_per_thread: true,
        waits_in: Wait::RingPoll,
        is_optional: true,
        needs: Some(IO_URING),
        calls: system_calls::GLOMMIO,
        ..Descriptor::PLAIN_CALLS
    };

    fn probe() -> Result<(), Unavailable> {
        // The crate ends the process where it finds no ring.
        let ring = IoUring::new(2).map(drop);
        ring.and_then(|()| executor().map(drop)).map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            executor()?.run(async {
                let _watcher = Watcher::start()?;
                serve_listeners::<P, Eager<Listening>, Connection, Sleep, Self>(
                    listeners,
                    (&protocol, config, shutdown),
                    &limit,
                )
                .await
            })
        })
    }
}

fn executor() -> io::Result<LocalExecutor> {
    Ok(LocalExecutorBuilder::new(Placement::Unbound).io_memory(IO_MEMORY).make()?)
}

/// Connections are accepted by readiness, as the crate's own accept knows neither flags nor what to do without descriptors.
impl Spawn for Glommio {
    fn spawn(task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(task).detach();
    }
}

/// A sleep of the executor. It is asked only when its time has come: each time it is asked, it enters itself anew.
struct Sleep {
    timer: GlommioTimer,
    deadline: Instant,
    is_set: bool,
}

impl Timer for Sleep {
    fn at(deadline: Instant) -> Self {
        Self { timer: GlommioTimer::new(deadline.saturating_duration_since(Instant::now())), deadline, is_set: false }
    }

    fn reset(&mut self, deadline: Instant) {
        // The deadline may have passed without anybody asking, and then nothing is set that could be moved.
        (self.deadline, self.is_set) = (deadline, false);
        self.timer.reset(deadline.saturating_duration_since(Instant::now()));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_set && Instant::now() < self.deadline {
            return Poll::Pending;
        }
        let slept = Pin::new(&mut self.timer).poll(cx).map(drop);
        self.is_set = slept.is_pending();
        slept
    }
}
