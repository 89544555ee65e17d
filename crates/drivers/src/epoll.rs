//! Edge-triggered epoll, one loop per thread, the protocol on the loop's own thread.

use std::io;

use proto::Protocol;

use crate::{
    Driver, Serving,
    accept::Gate,
    event_loop::{EventLoop, Inline},
    on_threads,
};

pub(crate) struct Epoll;

impl Driver for Epoll {
    const LISTENER_PER_THREAD: bool = true;

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        listeners.set_nonblocking(true)?;
        let gate = Gate::new(config.connections_max);
        on_threads(config, shutdown, listeners.seats, |seat| {
            EventLoop::new(&*protocol, Inline, seat, config, &gate)?.run(shutdown)
        })
    }
}
