//! Events that tasks wait for beside their socket: the drain and the deadline.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use tokio::time::{Sleep, sleep_until};

use crate::{
    shutdown::{Loop, Registration, Shutdown, Stage},
    wheel::TICK,
};

/// The shutdown as one task sees it. It registers on the first poll, since a task keeps its waker.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    shutdown: &'a Shutdown,
    registered: Option<Registration>,
}

impl<'a> Drain<'a> {
    pub(crate) fn new(shutdown: &'a Shutdown) -> Self {
        Drain { shutdown, registered: None }
    }

    /// Returns the stage of the server; the task will be woken at the next one.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Stage {
        self.registered.get_or_insert_with(|| self.shutdown.register(cx.waker().clone()));
        self.shutdown.stage()
    }
}

/// The same for a task that accepts connections, and is asked for signs of life.
#[derive(Debug)]
pub(crate) struct AcceptorDrain<'a> {
    shutdown: &'a Shutdown,
    registered: Option<Loop>,
}

impl<'a> AcceptorDrain<'a> {
    pub(crate) fn new(shutdown: &'a Shutdown) -> Self {
        AcceptorDrain { shutdown, registered: None }
    }

    /// See [`Drain::poll`].
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Stage {
        self.registered.get_or_insert_with(|| self.shutdown.register_loop(cx.waker().clone())).turned();
        self.shutdown.stage()
    }
}

/// A sleep that is moved only when it rings: activity costs nothing.
#[derive(Debug, Default)]
pub(crate) struct DeadlineTimer(Option<Pin<Box<Sleep>>>);

impl DeadlineTimer {
    /// Ready when `deadline` has come, perhaps a tick late.
    pub(crate) fn poll(mut self: Pin<&mut Self>, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = deadline else { return Poll::Pending };
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until((deadline + TICK).into())));
        loop {
            if sleep.deadline() > (deadline + TICK).into() {
                sleep.as_mut().reset((deadline + TICK).into());
            }
            ready!(sleep.as_mut().poll(cx));
            let now = Instant::now();
            // The deadline may have moved since this was set, or may stand still.
            sleep.as_mut().reset((deadline.max(now) + TICK).into());
            if now >= deadline {
                return Poll::Ready(());
            }
        }
    }
}
