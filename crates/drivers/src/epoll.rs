//! Edge-triggered epoll, one loop per thread, the protocol on the loop's own thread.

use std::{io, sync::Arc};

use proto::Protocol;

use crate::{
    Config, Driver, Listeners, Shutdown,
    accept::Gate,
    event_loop::{EventLoop, Inline},
    on_threads,
};

pub(crate) struct Epoll;

impl Driver for Epoll {
    const LISTENER_PER_THREAD: bool = true;

    fn serve<P: Protocol>(
        protocol: Arc<P>,
        listeners: Listeners,
        config: &Config,
        shutdown: &Shutdown,
    ) -> io::Result<()> {
        listeners.set_nonblocking(true)?;
        let gate = Gate::new(config.connections_max);
        on_threads(config, shutdown, listeners.seats, |seat| {
            EventLoop::new(&*protocol, Inline, seat, config, &gate)?.run(shutdown)
        })
    }
}
