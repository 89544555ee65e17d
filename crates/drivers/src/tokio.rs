//! One tokio task per connection: a multi-thread runtime, or the current-thread one where one thread is asked for.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    mem::take,
    os::fd::{AsFd, OwnedFd},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use proto::{BufferPool, Protocol, Session};
use sys::{listen::Listener, socket};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Config, ConnectionModel, Descriptor, Driver, Serving, Shutdown,
    accept::{Accepted, Acceptor, ConnectionLimit, ConnectionPermit, EXHAUSTED_PAUSE},
    arrived::read_arrived,
    clock,
    closing::end_output,
    counters::{Tally, ThreadCounters},
    peer::{peer, uptake},
    pipes::Pipes,
    shutdown::Stage,
    write::{WRITE_MAX, write_front},
};

mod pollable;
mod waiting;

use pollable::Pollable;
pub(crate) use waiting::{AcceptorDrain, DeadlineTimer, Drain};

/// One read; a fuller socket is read again.
const READ_BYTES: usize = 32 * 1024;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        read: vec![0; READ_BYTES],
        buffers: BufferPool::default(),
        pipes: None,
    });
}

/// Memory that every task of a thread reads to and writes its replies in: one that waits for its peer holds no buffer
/// and no pipe.
struct Scratch {
    read: Vec<u8>,
    buffers: BufferPool,
    pipes: Option<Pipes>,
}

pub(crate) struct Tokio;

impl Driver for Tokio {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "tokio",
        about: "one tokio task per connection on a multi-thread runtime",
        connection: ConnectionModel::Task,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        runtime(config)?.block_on(async {
            let limit = ConnectionLimit::new(config);
            let mut acceptors = JoinSet::new();
            for (front_end, listener) in listeners.per_thread.into_iter().flatten().enumerate() {
                let shared = Shared {
                    protocol: Arc::clone(&protocol),
                    config: config.clone(),
                    shutdown: shutdown.clone(),
                    front_end,
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

/// State that the tasks of one address share.
struct Shared<P> {
    protocol: Arc<P>,
    config: Config,
    shutdown: Shutdown,
    front_end: usize,
}

async fn accept<P: Protocol>(shared: Shared<P>, listener: Listener, mut acceptor: Acceptor) -> io::Result<()> {
    let counters = shared.config.statistics.register();
    let shared = Arc::new(shared);
    let mut tasks = JoinSet::new();
    let mut incoming = Incoming::new(listener)?;
    let mut drain = AcceptorDrain::new(&shared.shutdown);
    while let Some((socket, permit)) = incoming.next(&mut acceptor, &mut drain, &counters, true).await? {
        let (shared, counters) = (Arc::clone(&shared), Arc::clone(&counters));
        tasks.spawn(async move {
            let mut tally = Tally::default();
            // A broken connection is the peer's affair; nothing to report.
            let _ = serve_connection(socket, &shared, &mut tally, &counters).await;
            tally.0.closed += 1;
            tally.publish(&counters);
            drop(permit);
        });
        while tasks.try_join_next().is_some() {}
    }
    drop(incoming);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// A listener on a tokio runtime.
pub(crate) struct Incoming {
    listener: Listener,
    pollable: Pollable,
}

impl Incoming {
    pub(crate) fn new(listener: Listener) -> io::Result<Self> {
        let pollable = Pollable::new(listener.as_fd().try_clone_to_owned()?)?;
        Ok(Self { listener, pollable })
    }

    /// The next connection, or `None` once the server accepts no more.
    pub(crate) async fn next(
        &mut self,
        acceptor: &mut Acceptor,
        drain: &mut AcceptorDrain<'_>,
        counters: &ThreadCounters,
        nonblocking: bool,
    ) -> io::Result<Option<(OwnedFd, ConnectionPermit)>> {
        loop {
            let mut tally = Tally::default();
            let mut accepted = Ok(Accepted::Empty);
            let ready = poll_fn(|cx| {
                if drain.poll(cx) != Stage::Serving {
                    return Poll::Ready(None);
                }
                let accept = || {
                    accepted = acceptor.accept(&self.listener, nonblocking, &mut tally);
                    Ok(usize::from(!matches!(accepted, Ok(Accepted::Empty))))
                };
                self.pollable.poll_receive(cx, 1, accept).map(Some)
            });
            let Some(ready) = ready.await else { return Ok(None) };
            ready?;
            tally.publish(counters);
            match accepted? {
                Accepted::Connection(socket, permit) => return Ok(Some((socket, permit))),
                Accepted::Skipped | Accepted::Empty => {}
                Accepted::Exhausted => sleep(EXHAUSTED_PAUSE).await,
            }
        }
    }
}

async fn serve_connection<P: Protocol>(
    socket: OwnedFd,
    shared: &Shared<P>,
    tally: &mut Tally,
    counters: &ThreadCounters,
) -> io::Result<()> {
    let Shared { protocol, config, shutdown, front_end } = shared;
    let peer = peer(socket.as_fd(), *front_end);
    let session = Session::new(&**protocol, peer, config.limits, clock::now());
    let mut connection =
        Connection { session, protocol: &**protocol, config, socket: Pollable::new(socket)?, paused: false };
    let mut drain = Drain::new(shutdown);
    let mut timer = pin!(DeadlineTimer::default());
    poll_fn(|cx| {
        loop {
            let moved = connection.move_bytes(tally, cx)?;
            if take(&mut connection.paused) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Connection { session, socket, protocol, .. } = &mut connection;
            end_output(session, socket.as_fd(), clock::now());
            if session.is_done() {
                return Poll::Ready(Ok(()));
            }
            if moved {
                continue;
            }
            tally.publish(counters);
            match drain.poll(cx) {
                Stage::Retiring if !session.is_retiring() => {
                    session.retire(*protocol, clock::now());
                    continue;
                }
                Stage::Draining if !session.is_draining() && session.wants_read() => {
                    // The runtime may not have heard yet of what has arrived.
                    read_arrived(socket.as_fd(), session, *protocol, clock::now(), tally)?;
                    continue;
                }
                Stage::Serving | Stage::Retiring | Stage::Draining => {}
            }
            ready!(timer.as_mut().poll(session.deadline(protocol), cx));
            session.tick(protocol, clock::now(), || uptake(&socket.as_fd()));
        }
    })
    .await
}

struct Connection<'a, P: Protocol> {
    session: Session<P>,
    protocol: &'a P,
    config: &'a Config,
    socket: Pollable,
    /// It has written its share; others first.
    paused: bool,
}

impl<P: Protocol> Connection<'_, P> {
    /// False: everything that could move is `Pending`, and will wake the task.
    fn move_bytes(&mut self, tally: &mut Tally, cx: &mut Context<'_>) -> io::Result<bool> {
        let read = self.read(tally, cx)?;
        let pushed = self.session.take_pushes(|| cx.waker());
        let wrote = self.write(tally, cx)?;
        let resumes = self.session.wants_turn(self.protocol, wrote);
        if resumes {
            if P::STREAMS {
                SCRATCH.with_borrow_mut(|Scratch { buffers, .. }| self.session.outbox().borrow_buffer(buffers));
            }
            self.session.resume(self.protocol, clock::now());
        }
        SCRATCH.with_borrow_mut(|Scratch { buffers, .. }| self.session.outbox().return_buffer(buffers));
        Ok(read || pushed || wrote || resumes)
    }

    fn read(&mut self, tally: &mut Tally, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.session.wants_read() {
            return Ok(false);
        }
        SCRATCH.with_borrow_mut(|Scratch { read, buffers, .. }| {
            let held = self.session.has_input();
            let space = if held { self.session.recv_space() } else { &mut read[..] };
            let (socket, room) = (self.socket.as_fd(), space.len());
            let n = match self.socket.poll_receive(cx, room, || socket::recv(socket, space)) {
                Poll::Pending => return Ok(false),
                Poll::Ready(received) => received?,
            };
            let now = clock::now();
            self.session.outbox().borrow_buffer(buffers);
            match n {
                None => {}
                Some(0) => self.session.end_of_input(),
                Some(n) if held => {
                    self.session.received(n, now);
                    self.session.resume(self.protocol, now);
                }
                Some(n) => self.session.feed(self.protocol, &read[..n], now),
            }
            tally.0.bytes_in += n.unwrap_or_default() as u64;
            Ok(true)
        })
    }

    fn write(&mut self, tally: &mut Tally, cx: &mut Context<'_>) -> io::Result<bool> {
        SCRATCH.with_borrow_mut(|Scratch { pipes, .. }| {
            let pipes = pipes.get_or_insert_with(|| Pipes::of_loop(&self.config.scratch_pipes));
            self.write_through(pipes, tally, cx)
        })
    }

    fn write_through(&mut self, pipes: &mut Pipes, tally: &mut Tally, cx: &mut Context<'_>) -> io::Result<bool> {
        let (mut wrote, mut quota) = (false, WRITE_MAX);
        while !self.session.outbox().is_empty() && !self.session.is_aborted() && !self.paused {
            let Self { session, socket, .. } = self;
            match socket.poll_send(cx, || write_front(socket.as_fd(), session.outbox(), pipes)) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(0))) => {
                    if session.outbox().poll_reply(cx.waker()).is_pending() {
                        break;
                    }
                    // An answer may be empty, and input may have waited for it.
                    wrote = true;
                }
                Poll::Ready(Ok(Some(n))) => {
                    tally.0.bytes_out += n as u64;
                    session.sent(clock::now());
                    session.report_sent(self.protocol, clock::now);
                    wrote = true;
                    quota = quota.saturating_sub(n);
                    self.paused = quota == 0;
                }
            }
        }
        Ok(wrote)
    }
}
