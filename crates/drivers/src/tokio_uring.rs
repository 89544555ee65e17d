//! One tokio-uring runtime per thread, owned buffers: a buffer or segment moves into the operation and comes back with
//! its result. A read in flight is never dropped, or the bytes it brings would be lost: it stays pinned until it ends.

use std::{
    cell::RefCell,
    io,
    net::{Shutdown as Half, TcpStream as StdStream},
    os::fd::{AsFd, OwnedFd},
    pin::pin,
    rc::Rc,
    sync::Arc,
};

use proto::{Protocol, Session};
use sys::listen::Listener;
use tokio_uring::net::TcpStream;

use crate::{
    Config, ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer,
    Serving, Shutdown, Unavailable, Wait,
    accept::{Acceptor, ConnectionLimit},
    clock,
    closing::reset_if_cut_off,
    counters::{Tally, ThreadCounters},
    descriptor::IO_URING,
    on_threads,
    peer::{peer, uptake},
    pipes::Pipes,
    system_calls,
    tasks::{AcceptorDrain, DeadlineTimer, Drain, Incoming},
    tokio::{Pollable, TokioTimer},
    wheel::TICK,
};

mod chunks;
mod output;
mod waiting;

use chunks::Chunks;
use output::unless_interrupted;
use waiting::Event;

/// The first read; a read in flight owns its buffer, so this is what an idle connection holds.
const READ_MIN: usize = 256;
/// A connection that fills its buffer gets a larger one, up to this.
const READ_MAX: usize = 16 * 1024;
/// A buffer of which a read has left this share empty is exchanged for a small one: a handshake's, or an upload's, would
/// stay with a connection that is idle from then on.
const READ_SPARE: usize = 8;

pub(crate) struct TokioUring;

impl Driver for TokioUring {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "tokio-uring",
        about: "one tokio-uring runtime per thread, owned buffers; files and pipes are copied through memory",
        built_on: Some("tokio-uring 0.5.0; no ring flags"),
        io: IoModel::Completion,
        connection: ConnectionModel::Task,
        default_workers: DefaultWorkers::None,
        listener_per_thread: true,
        batches: false,
        waits_in: Wait::Epoll,
        reads_into: ReadBuffer::Owned,
        sends_memory: MemoryPath::RingWrite,
        sends_files: FilePath::ReadWrite,
        sends_pipes: PipePath::ReadWrite,
        registers_memory: false,
        is_optional: false,
        needs: Some(IO_URING),
        calls: system_calls::TOKIO_URING,
    };

    fn probe() -> Result<(), Unavailable> {
        runtime().map(drop).map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        on_threads(config, shutdown, listeners.per_thread, |listeners| {
            runtime()?.block_on(async {
                let counters = config.statistics.register();
                let pipes = Rc::new(RefCell::new(Pipes::of_loop(&config.scratch_pipes)));
                let chunks = Rc::<Chunks>::default();
                let mut acceptors = Vec::new();
                for listener in listeners {
                    let acceptor = Acceptor::new(&limit, protocol.refusal())?;
                    let shared = Shared {
                        protocol: Arc::clone(&protocol),
                        config: config.clone(),
                        shutdown: shutdown.clone(),
                        front_end: listener.front_end(),
                        counters: Arc::clone(&counters),
                        pipes: Rc::clone(&pipes),
                        chunks: Rc::clone(&chunks),
                    };
                    acceptors.push(tokio_uring::spawn(accept(shared, listener, acceptor)));
                }
                for acceptor in acceptors {
                    acceptor.await??;
                }
                Ok(())
            })
        })
    }
}

fn runtime() -> io::Result<tokio_uring::Runtime> {
    tokio_uring::Runtime::new(&tokio_uring::builder())
}

/// State that the tasks of one address on one thread share.
struct Shared<P> {
    protocol: Arc<P>,
    config: Config,
    shutdown: Shutdown,
    front_end: usize,
    counters: Arc<ThreadCounters>,
    /// Borrowed for one call each, never while waiting.
    pipes: Rc<RefCell<Pipes>>,
    chunks: Rc<Chunks>,
}

/// Accepts by readiness: the crate's own accept knows neither flags nor what to do without descriptors.
async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<()> {
    let shared = Rc::new(shared);
    let mut incoming = Incoming::<Pollable, TokioTimer>::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    // Its operations would fail on a non-blocking socket instead of waiting.
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &shared.counters, false).await? {
        let shared = Rc::clone(&shared);
        tokio_uring::spawn(async move {
            let mut connection = Connection::new(socket, &shared);
            // A broken connection is the peer's affair; nothing to report.
            let _ = connection.run().await;
            connection.state.tally.0.closed += 1;
            connection.state.tally.publish(&shared.counters);
            drop(permit);
        });
    }
    drop(incoming);
    while Rc::strong_count(&shared) > 1 {
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

struct Connection<'a, P: Protocol> {
    stream: TcpStream,
    state: ConnectionState<'a, P>,
}

/// All but the stream, so that a read may borrow that for as long as it takes.
struct ConnectionState<'a, P: Protocol> {
    session: Session<P>,
    protocol: &'a P,
    drain: Drain<'a>,
    is_draining: bool,
    timer: DeadlineTimer<TokioTimer>,
    pipes: &'a RefCell<Pipes>,
    /// Memory that files are read into, lent by the loop.
    chunks: &'a Chunks,
    tally: Tally,
    counters: &'a ThreadCounters,
}

impl<'a, P: Protocol> Connection<'a, P> {
    fn new(socket: OwnedFd, shared: &'a Shared<P>) -> Self {
        let peer = peer(socket.as_fd(), shared.front_end);
        let session = Session::new(&*shared.protocol, peer, shared.config.limits, clock::now());
        let state = ConnectionState {
            session,
            protocol: &*shared.protocol,
            drain: Drain::new(&shared.shutdown),
            is_draining: false,
            timer: DeadlineTimer::default(),
            pipes: &shared.pipes,
            chunks: &shared.chunks,
            tally: Tally::default(),
            counters: &shared.counters,
        };
        // Its streams are named after address families, but only ever look at the descriptor: a unix socket will do.
        Connection { stream: TcpStream::from_std(StdStream::from(socket)), state }
    }

    async fn run(&mut self) -> io::Result<()> {
        let Connection { stream, state } = self;
        let (mut buffer, mut want) = (Vec::new(), READ_MIN);
        loop {
            state.flush(stream).await?;
            if state.session.is_done() {
                reset_if_cut_off(&mut state.session, stream);
                return Ok(());
            }
            state.tally.publish(state.counters);
            buffer.resize(want, 0);
            let (read, back) = state.read(stream, buffer).await?;
            buffer = back;
            match unless_interrupted(read)? {
                None => {}
                Some(0) => state.session.end_of_input(),
                Some(n) => {
                    state.tally.0.bytes_in += n as u64;
                    state.session.feed(state.protocol, &buffer[..n], clock::now());
                    if n == want {
                        want = (want * 2).min(READ_MAX);
                    } else if n < want / READ_SPARE {
                        (buffer, want) = (Vec::new(), READ_MIN);
                    }
                }
            }
        }
    }
}

impl<P: Protocol> ConnectionState<'_, P> {
    /// Reads once, and does what falls due meanwhile.
    async fn read(
        &mut self,
        stream: &TcpStream,
        buffer: Vec<u8>,
    ) -> io::Result<tokio_uring::BufResult<usize, Vec<u8>>> {
        let mut reading = pin!(stream.read(buffer));
        loop {
            match self.event(stream, reading.as_mut()).await {
                Event::Done(done) => return Ok(done),
                Event::Deadline => {
                    self.session.tick(self.protocol, clock::now(), || uptake(stream));
                    // Boxed, since a connection has room for what it waits for beside its read.
                    Box::pin(self.flush(stream)).await?;
                    if self.session.is_done() {
                        reset_if_cut_off(&mut self.session, stream);
                        stream.shutdown(Half::Both)?;
                    }
                }
            }
        }
    }
}
