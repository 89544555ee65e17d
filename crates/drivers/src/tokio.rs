//! One tokio task per connection: a multi-thread runtime, or the current-thread one where one thread is asked for.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use proto::Protocol;
use sys::listen::Listener;
use tokio::{
    task::JoinSet,
    time::{Sleep, sleep_until},
};

use crate::{
    Config, ConnectionModel, Descriptor, Driver, Serving,
    accept::{Acceptor, ConnectionLimit},
    system_calls,
    tasks::{AcceptorDrain, Incoming, Ready, Shared, Timer, serve_connection},
};

mod pollable;

pub(crate) use pollable::Pollable;

pub(crate) struct Tokio;

impl Driver for Tokio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "tokio",
        about: "one tokio task per connection on a multi-thread runtime",
        built_on: Some("tokio 1.54.1, October 2026"),
        connection: ConnectionModel::Task,
        calls: system_calls::TOKIO,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        runtime(config)?.block_on(async {
            let limit = ConnectionLimit::new(config);
            let mut acceptors = JoinSet::new();
            for listener in listeners.per_thread.into_iter().flatten() {
                let shared = Shared {
                    protocol: Arc::clone(&protocol),
                    config: config.clone(),
                    shutdown: shutdown.clone(),
                    front_end: listener.front_end(),
                    counters: config.statistics.register(),
                };
                let acceptor = Acceptor::new(&limit, protocol.refusal())?;
                acceptors.spawn(accept(shared, listener, acceptor));
            }
            while let Some(outcome) = acceptors.join_next().await {
                outcome??;
            }
            Ok(())
        })
    }
}

fn runtime(config: &Config) -> io::Result<tokio::runtime::Runtime> {
    if config.threads == 1 {
        config.pin_thread(0)?;
        return tokio::runtime::Builder::new_current_thread().enable_all().build();
    }
    let (next, pin) = (AtomicUsize::new(0), config.pin.clone().unwrap_or_default());
    let on_start = move || {
        // Unpinned still serves.
        let _ = pin.pin_to_one(next.fetch_add(1, Ordering::Relaxed));
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.threads)
        .on_thread_start(on_start)
        .enable_all()
        .build()
}

async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<()> {
    let shared = Arc::new(shared);
    let mut tasks = JoinSet::new();
    let mut incoming = Incoming::<Pollable, TokioTimer>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, true).await? {
        let shared = Arc::clone(&shared);
        tasks.spawn(async move { serve_connection::<P, Ready<Pollable>, TokioTimer>(socket, permit, &shared).await });
        while tasks.try_join_next().is_some() {}
    }
    drop(incoming);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// A sleep on a tokio runtime.
#[derive(Debug)]
pub(crate) struct TokioTimer(Pin<Box<Sleep>>);

impl Timer for TokioTimer {
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
