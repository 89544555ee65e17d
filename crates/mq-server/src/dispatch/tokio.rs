//! A task for each request. Tokio's reactor is the wait set; the limits of what may wait are the same as elsewhere.

use std::{
    any::Any,
    io,
    os::fd::{AsFd, BorrowedFd},
    panic,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use parking_lot::Mutex;
use slab::Slab;
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Builder,
    sync::{Notify, watch},
    task::{JoinError, JoinSet, yield_now},
    time::{sleep, timeout},
};

use super::{Dispatch, WorkerOptions};
use crate::{
    copy::{FileCopy, Readiness},
    engine::Engine,
    job::{Job, Step, Wait},
    statistics::Count,
};

/// Most messages taken before other tasks run.
const BATCH: usize = 64;
/// Times that a job tries to open its FIFO without a timer: Tokio's timers have a resolution of a millisecond.
const QUICK_RETRIES: u32 = 16;
/// Pause before a job is tried again whose FIFO the reactor does not take.
const UNWATCHED_PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Tokio;

impl Dispatch for Tokio {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, options: &WorkerOptions) -> anyhow::Result<()> {
        let (starting, stopping) = (Arc::clone(engine), Arc::clone(engine));
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.workers)
            .thread_name("tokio")
            .on_thread_start(move || {
                starting.statistics().workers.add(1);
                starting.statistics().count(Count::WorkersStarted, 1);
            })
            .on_thread_stop(move || stopping.statistics().workers.add(-1))
            .enable_all()
            .build()
            .context("cannot start a tokio runtime")?;
        // The reactor watches clients all the time.
        let _watch = engine.clock().watch();
        runtime.block_on(serve(Arc::clone(engine))).context("tokio's reactor does not take the queue")
    }
}

async fn serve<C: FileCopy>(engine: Arc<Engine<C>>) -> io::Result<()> {
    let (closing, closed) = watch::channel(false);
    let waiters = Arc::new(Waiters::new(engine.options().waiting_max));
    let messages = register(engine.queue().as_fd(), Interest::READABLE)?;
    let close_event = register(engine.close_event(), Interest::READABLE)?;
    let turn_event = register(engine.turn_event().as_fd(), Interest::READABLE)?;
    let (mut tasks, mut panicked) = (JoinSet::new(), None);
    loop {
        engine.turned();
        let mut taken = 0;
        while taken < BATCH
            && let Some(job) = engine.receive()
        {
            tasks.spawn(run(Arc::clone(&engine), job, closed.clone(), Arc::clone(&waiters)));
            taken += 1;
        }
        if taken == BATCH {
            yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            _ = close_event.readable() => break,
            asked = turn_event.readable() => {
                engine.turn_event().clear();
                asked?.clear_ready();
            }
            Some(ended) = tasks.join_next() => panicked = panicked.or_else(|| panic_of(&engine, ended)),
            // Cleared before the next receive: a message that comes in between is seen by the receive.
            ready = messages.readable() => ready?.clear_ready(),
        }
    }
    let _ = closing.send(true); // It fails if there is no task.
    while let Some(ended) = tasks.join_next().await {
        panicked = panicked.or_else(|| panic_of(&engine, ended));
    }
    // Only now: the other tasks have kept their jobs to be put back.
    panicked.map_or(Ok(()), |panic| panic::resume_unwind(panic))
}

/// Returns the panic of a task, after stopping the server.
fn panic_of<C: FileCopy>(engine: &Engine<C>, ended: Result<(), JoinError>) -> Option<Box<dyn Any + Send>> {
    let panic = ended.err()?.try_into_panic().ok();
    engine.close();
    panic
}

async fn run<C: FileCopy>(
    engine: Arc<Engine<C>>,
    mut job: Job<C>,
    mut closed: watch::Receiver<bool>,
    waiters: Arc<Waiters>,
) {
    let evicted = Arc::new(Notify::new());
    let mut retries = 0;
    while !engine.is_closed() {
        let wait = match job.advance(engine.context()) {
            Step::Finished => return engine.job_ended(),
            Step::Again => {
                yield_now().await;
                continue;
            }
            Step::Wait(wait) => wait,
        };
        if engine.has_expired(&job) {
            let outcome = job.timeout_outcome(engine.context());
            job.abort(engine.context(), outcome);
            continue;
        }
        retries += 1;
        if matches!(wait, Wait::Until(_)) && retries <= QUICK_RETRIES {
            yield_now().await;
            continue;
        }
        engine.statistics().count(Count::SetAside, 1);
        engine.statistics().waiting.add(1);
        let waiter = waiters.insert(job.last_progress(), &evicted);
        let ready = wait_until_ready(&engine, &mut job, wait);
        let is_evicted = tokio::select! {
            biased;
            _ = closed.wait_for(|is_closed| *is_closed) => false,
            () = evicted.notified() => true,
            () = ready => false,
        };
        drop(waiter);
        engine.statistics().waiting.add(-1);
        if is_evicted {
            return engine.evict(job);
        }
    }
    engine.keep_unfinished([job]);
}

/// Waits until the job may go on, or has waited for too long.
async fn wait_until_ready<C: FileCopy>(engine: &Engine<C>, job: &mut Job<C>, wait: Wait) {
    let now = engine.now();
    let rest = job.expires_at(engine.options().stall_timeout).saturating_sub(now);
    let (descriptor, interest) = match (wait, job.readiness(engine.copy())) {
        (Wait::Until(time), _) => return sleep(time.saturating_sub(now).min(rest)).await,
        (Wait::Ready, Some(Readiness::Writable(fifo))) => (fifo, Interest::WRITABLE),
        (Wait::Ready, Some(Readiness::Readable(event))) => (event, Interest::READABLE),
        (Wait::Ready, None) => return,
    };
    match register(descriptor, interest) {
        // The next try shows if it was in time.
        Ok(watched) => _ = timeout(rest, watched.ready(interest)).await,
        Err(_) => sleep(UNWATCHED_PAUSE).await,
    }
}

/// Registers a descriptor with tokio's reactor for as long as it is borrowed.
#[expect(deprecated, reason = "what replaces it is unsafe for want of a promise that a borrow makes")]
fn register(descriptor: BorrowedFd<'_>, interest: Interest) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// The tasks that wait. If there are too many, the one whose client has done nothing for longest is evicted.
struct Waiters {
    waiters_max: usize,
    slots: Mutex<Slab<(Duration, Arc<Notify>)>>,
}

struct Waiter<'a> {
    waiters: &'a Waiters,
    key: usize,
    evicted: Arc<Notify>,
}

impl Waiters {
    fn new(waiters_max: usize) -> Self {
        Self { waiters_max, slots: Mutex::default() }
    }

    fn insert(&self, progressed: Duration, evicted: &Arc<Notify>) -> Waiter<'_> {
        let mut slots = self.slots.lock();
        if slots.len() >= self.waiters_max
            && let Some((longest, _)) = slots.iter().min_by_key(|(_, (progressed, _))| *progressed)
        {
            slots.remove(longest).1.notify_one();
        }
        let key = slots.insert((progressed, Arc::clone(evicted)));
        Waiter { waiters: self, key, evicted: Arc::clone(evicted) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut slots = self.waiters.slots.lock();
        // The slot of an evicted task may belong to another task by now.
        if slots.get(self.key).is_some_and(|(_, notify)| Arc::ptr_eq(notify, &self.evicted)) {
            slots.remove(self.key);
        }
    }
}
