//! Event loops move the bytes; a pool of workers runs the protocol. A session is in one place at a time, in its slot or
//! away with a worker, and that alone keeps the order of a connection.

use std::{io, sync::Arc, thread};

use proto::{Now, Protocol, Session};

use crate::{
    ConnectionModel, DefaultWorkers, Descriptor, Driver, Serving,
    accept::ConnectionLimit,
    clock,
    event_loop::{EventLoop, Executor, Job, LoopMessage},
    join_all,
    mailbox::{Key, Mailbox},
    on_threads,
    pool::Queue,
    system_calls,
};

pub(crate) struct Reactor;

/// With the workers.
struct Pooled<'q, P: Protocol>(&'q Queue<Job<P>>);

impl<P: Protocol> Executor<P> for Pooled<'_, P> {
    const BATCH: usize = 1;

    fn work(
        &self,
        _: &P,
        key: Key,
        mut session: Box<Session<P>>,
        lent: &[u8],
        now: Now,
        home: &Arc<Mailbox<LoopMessage<P>>>,
    ) -> Option<Box<Session<P>>> {
        session.hold(lent, now);
        self.0.push(Job { key, session, home: Arc::clone(home) });
        None
    }
}

impl Driver for Reactor {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "reactor",
        about: "event loops move the bytes, a pool of workers runs the protocol",
        connection: ConnectionModel::Loop,
        default_workers: DefaultWorkers::PerProcessor,
        listener_per_thread: true,
        calls: system_calls::REACTOR,
        ..Descriptor::PLAIN_CALLS
    };

    fn serve<P: Protocol>(serving: Serving<'_, P>) -> io::Result<()> {
        let Serving { protocol, listeners, config, shutdown } = serving;
        let limit = ConnectionLimit::new(config);
        // At most one job per connection: bounded by the connections.
        let jobs = Queue::default();
        let (protocol, jobs) = (&*protocol, &jobs);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..config.workers)
                .map(|index| {
                    scope.spawn(move || {
                        config.pin_thread(index)?;
                        while let Some(Job { key, mut session, home }) = jobs.pop() {
                            session.resume(protocol, clock::now());
                            home.post(LoopMessage::Back(key, session));
                        }
                        Ok(())
                    })
                })
                .collect();
            let outcome = on_threads(config, shutdown, listeners.per_thread, |listeners| {
                EventLoop::new(protocol, Pooled(jobs), listeners, config, &limit)?.run(shutdown)
            });
            jobs.close();
            let workers = join_all(workers);
            outcome.and(workers)
        })
    }
}
