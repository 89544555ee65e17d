//! One smol task per connection: an executor that all threads run, each of them in smol's `block_on`, which takes its turn at the
//! one reactor of the process.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use proto::Protocol;
use smol::{Async, Executor, Timer as SmolTimer, block_on, channel};
use sys::listen::Listener;

use crate::{
    ConnectionModel, Descriptor, Driver, Serving, Wait,
    accept::{Acceptor, ConnectionLimit},
    system_calls,
    tasks::{AcceptorDrain, Crew, Eager, Incoming, Ready, Shared, Timer, Watch, serve_connection},
};

pub(crate) struct Smol;

impl Driver for Smol {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "smol",
        about: "one smol task per connection on an executor of several threads",
        built_on: Some("smol 2.0.2"),
        connection: ConnectionModel::Task,
        waits_in: Wait::EpollOneshot,
        is_optional: true,
        calls: system_calls::SMOL,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        let executor = Arc::new(Executor::new());
        let served =
            Shared::of_each(listeners.per_thread.into_iter().flatten(), (&protocol, config, shutdown), &limit)?;
        let spawn =
            |(shared, listener, acceptor)| executor.spawn(accept(Arc::clone(&executor), shared, listener, acceptor));
        let acceptors: Vec<_> = served.into_iter().map(spawn).collect();
        // The other threads run tasks until the first one drops this.
        let (running, ended) = channel::bounded::<()>(1);
        std::thread::scope(|scope| {
            for index in 1..config.threads {
                let (executor, ended) = (&executor, ended.clone());
                let run = move || {
                    // Unpinned still serves.
                    let _ = config.pin_thread(index);
                    // An error is what the end of the channel is.
                    let _ = block_on(executor.run(ended.recv()));
                };
                std::thread::Builder::new().name(format!("smol-{index}")).spawn_scoped(scope, run)?;
            }
            let running = running;
            config.pin_thread(0)?;
            let outcome = block_on(executor.run(async {
                for acceptor in acceptors {
                    acceptor.await?;
                }
                Ok(())
            }));
            drop(running);
            outcome
        })
    }
}

async fn accept<P: Protocol>(
    executor: Arc<Executor<'static>>,
    shared: Shared<P>,
    listener: Listener,
    mut acceptor: Acceptor,
) -> io::Result<()> {
    let (shared, crew) = (Arc::new(shared), Crew::default());
    let mut incoming = Incoming::<Eager<Watched>, SmolTimer>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let (shared, member) = (Arc::clone(&shared), crew.join());
        let task = async move {
            serve_connection::<P, Ready<Eager<Watched>>, SmolTimer>(socket, permit, &shared).await;
            drop(member);
        };
        executor.spawn(task).detach();
    }
    drop(incoming);
    crew.ended().await;
    Ok(())
}

/// A non-blocking socket in smol's reactor.
struct Watched(Async<OwnedFd>);

impl Watch for Watched {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Async::new_nonblocking(socket).map(Self)
    }

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_writable(cx)
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Timer for SmolTimer {
    fn at(deadline: Instant) -> Self {
        Self::at(deadline)
    }

    fn reset(&mut self, deadline: Instant) {
        self.set_at(deadline);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self).poll(cx).map(drop)
    }
}
