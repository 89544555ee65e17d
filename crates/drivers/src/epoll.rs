//! Edge-triggered epoll, one loop per thread, the protocol on the loop's own thread.

use std::io;

use proto::Protocol;

use crate::{
    ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer, Serving,
    Wait,
    accept::ConnectionLimit,
    event_loop::{EventLoop, Inline},
    on_threads,
};

pub(crate) struct Epoll;

impl Driver for Epoll {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "epoll",
        about: "edge-triggered epoll, one event loop per thread",
        io: IoModel::Readiness,
        connection: ConnectionModel::Loop,
        default_workers: DefaultWorkers::None,
        listener_per_thread: true,
        batches: true,
        waits_in: Wait::Epoll,
        reads_into: ReadBuffer::Scratch,
        sends_memory: MemoryPath::Send,
        sends_files: FilePath::Sendfile,
        sends_pipes: PipePath::Splice,
        registers_memory: false,
        needs: None,
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        listeners.set_nonblocking(true)?;
        let limit = ConnectionLimit::new(config.connections_max);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            EventLoop::new(&*protocol, Inline, listeners, config, &limit)?.run(shutdown)
        })
    }
}
