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

use proto::{Peer, Protocol, Session};
use sys::listen::Listener;
use tokio_uring::net::TcpStream;

use crate::{
    Config, ConnectionModel, DefaultWorkers, Descriptor, Driver, FilePath, IoModel, MemoryPath, PipePath, ReadBuffer,
    Serving, Shutdown, Unavailable, Wait,
    accept::{Door, Gate},
    clock,
    counters::{Counters, Tally},
    descriptor::IO_URING,
    on_threads,
    pipes::Pipes,
    tokio::{Drain, Entrance, Timer},
    wheel::TICK,
};

mod output;
mod waiting;

use output::unless_interrupted;
use waiting::Event;

/// The first read; a read in flight owns its buffer, so this is what an idle connection holds.
const READ_MIN: usize = 512;
/// A connection that fills its buffer gets a larger one, up to this.
const READ_MAX: usize = 16 * 1024;

pub(crate) struct TokioUring;

impl Driver for TokioUring {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "tokio-uring",
        about: "one tokio-uring runtime per thread, owned buffers; files and pipes are copied through memory",
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
        needs: Some(IO_URING),
    };

    fn probe() -> Result<(), Unavailable> {
        runtime().map(drop).map_err(|error| Unavailable::without_io_uring(&error))
    }

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        listeners.set_nonblocking(true)?;
        let gate = Gate::new(config.connections_max);
        on_threads(config, shutdown, listeners.seats, |seat| {
            runtime()?.block_on(async {
                let counters = config.statistics.register();
                let pipes = Rc::new(RefCell::new(Pipes::of_loop(&config.scratch_pipes)));
                let mut doors = Vec::new();
                for (front_end, listener) in seat.into_iter().enumerate() {
                    let door = Door::new(&gate, protocol.refusal())?;
                    let site = Site {
                        protocol: Arc::clone(&protocol),
                        config: config.clone(),
                        shutdown: shutdown.clone(),
                        front_end,
                        counters: Arc::clone(&counters),
                        pipes: Rc::clone(&pipes),
                    };
                    doors.push(tokio_uring::spawn(accept(site, listener, door)));
                }
                for door in doors {
                    door.await??;
                }
                Ok(())
            })
        })
    }
}

fn runtime() -> io::Result<tokio_uring::Runtime> {
    tokio_uring::Runtime::new(&tokio_uring::builder())
}

/// What every task of one address on one thread shares.
struct Site<P> {
    protocol: Arc<P>,
    config: Config,
    shutdown: Shutdown,
    front_end: usize,
    counters: Arc<Counters>,
    /// Borrowed for one call each, never while waiting.
    pipes: Rc<RefCell<Pipes>>,
}

/// Accepts by readiness: the crate's own accept knows neither flags nor what to do without descriptors.
async fn accept<P: Protocol>(site: Site<P>, listener: Listener, mut door: Door) -> io::Result<()> {
    let site = Rc::new(site);
    let mut entrance = Entrance::new(listener)?;
    let mut drain = Drain::new(&site.shutdown);
    // Its operations would fail on a non-blocking socket instead of waiting.
    while let Some((socket, ticket)) = entrance.next(&mut door, &mut drain, &site.counters, false).await? {
        let site = Rc::clone(&site);
        tokio_uring::spawn(async move {
            let mut connection = Connection::new(socket, &site);
            // A broken connection is the peer's affair; nothing to report.
            let _ = connection.run().await;
            connection.rest.tally.0.closed += 1;
            connection.rest.tally.publish(&site.counters);
            drop(ticket);
        });
    }
    drop(entrance);
    while Rc::strong_count(&site) > 1 {
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

struct Connection<'a, P: Protocol> {
    stream: TcpStream,
    rest: Rest<'a, P>,
}

/// All but the stream, so that a read may borrow that for as long as it takes.
struct Rest<'a, P: Protocol> {
    session: Session<P>,
    protocol: &'a P,
    drain: Drain<'a>,
    draining: bool,
    alarm: Timer,
    pipes: &'a RefCell<Pipes>,
    /// What files are read into.
    chunk: Vec<u8>,
    tally: Tally,
    counters: &'a Counters,
}

impl<'a, P: Protocol> Connection<'a, P> {
    fn new(socket: OwnedFd, site: &'a Site<P>) -> Self {
        let peer = Peer::new(socket.as_fd(), site.front_end);
        let session = Session::new(&*site.protocol, peer, site.config.limits, clock::now());
        let rest = Rest {
            session,
            protocol: &*site.protocol,
            drain: Drain::new(&site.shutdown),
            draining: false,
            alarm: Timer::default(),
            pipes: &site.pipes,
            chunk: Vec::new(),
            tally: Tally::default(),
            counters: &site.counters,
        };
        // Its streams are named after address families, but only ever look at the descriptor: a unix socket will do.
        Connection { stream: TcpStream::from_std(StdStream::from(socket)), rest }
    }

    async fn run(&mut self) -> io::Result<()> {
        let Connection { stream, rest } = self;
        let (mut buffer, mut want) = (Vec::new(), READ_MIN);
        loop {
            rest.flush(stream).await?;
            // Whether all has been delivered is not asked here: there is no borrowing the stream's descriptor.
            if rest.session.begin_lingering(clock::now()) {
                stream.shutdown(Half::Write)?;
            }
            if rest.session.is_done() {
                return Ok(());
            }
            rest.tally.publish(rest.counters);
            buffer.resize(want, 0);
            let (read, back) = {
                let mut reading = pin!(stream.read(buffer));
                loop {
                    match rest.event(stream, reading.as_mut()).await {
                        Event::Done(done) => break done,
                        Event::Deadline => {
                            rest.session.tick(rest.protocol, clock::now());
                            rest.flush(stream).await?;
                            if rest.session.is_done() {
                                stream.shutdown(Half::Both)?;
                            }
                        }
                    }
                }
            };
            buffer = back;
            match unless_interrupted(read)? {
                None => {}
                Some(0) => rest.session.end_of_input(),
                Some(n) => {
                    rest.tally.0.bytes_in += n as u64;
                    rest.session.feed(rest.protocol, &buffer[..n], clock::now());
                    if n == want {
                        want = (want * 2).min(READ_MAX);
                    }
                }
            }
        }
    }
}
