//! Edge-triggered epoll, one loop per thread, the protocol on the loop's own thread.

use std::io;

use proto::Protocol;

use crate::{
    ConnectionModel, Descriptor, Driver, Serving,
    accept::ConnectionLimit,
    event_loop::{EventLoop, Inline},
    on_threads, system_calls,
};

pub(crate) struct Epoll;

impl Driver for Epoll {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "epoll",
        about: "edge-triggered epoll, one event loop per thread",
        connection: ConnectionModel::Loop,
        listener_per_thread: true,
        batches: true,
        calls: system_calls::EPOLL,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            EventLoop::new(&*protocol, Inline, listeners, config, &limit)?.run(shutdown)
        })
    }
}
