//! A task for each request. Tokio's reactor is the waiting room; how long and how many may wait is the same as elsewhere.

use std::{
    any::Any,
    io,
    os::fd::{AsFd, BorrowedFd},
    panic,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Context;
use slab::Slab;
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Builder,
    sync::{Notify, watch},
    task::{JoinError, JoinSet, yield_now},
    time::{sleep, timeout},
};

use super::{Crew, Dispatch};
use crate::{
    copy::{FileCopy, Readiness},
    engine::Engine,
    job::{Job, Step, Wait},
    statistics::Count,
};

/// Messages taken before others get their turn.
const BATCH: usize = 64;
/// Tokio's timers have a resolution of a millisecond. So often a job looks for its reader without one.
const QUICK_LOOKS: u32 = 16;
/// When the reactor does not take a FIFO, its job is looked at again after this.
const UNWATCHED_PAUSE: Duration = Duration::from_millis(2);

pub(super) struct Tokio;

impl Dispatch for Tokio {
    fn serve<C: FileCopy>(engine: &Arc<Engine<C>>, crew: &Crew) -> anyhow::Result<()> {
        let (starting, stopping) = (Arc::clone(engine), Arc::clone(engine));
        let runtime = Builder::new_multi_thread()
            .worker_threads(crew.workers)
            .thread_name("tokio")
            .on_thread_start(move || {
                starting.statistics().workers.add(1);
                starting.statistics().count(Count::WorkersStarted, 1);
            })
            .on_thread_stop(move || stopping.statistics().workers.add(-1))
            .enable_all()
            .build()
            .context("cannot start a tokio runtime")?;
        // Somebody is looking at those who wait all the time.
        let _watch = engine.clock().watch();
        runtime.block_on(serve(Arc::clone(engine))).context("tokio's reactor does not take the queue")
    }
}

async fn serve<C: FileCopy>(engine: Arc<Engine<C>>) -> io::Result<()> {
    let (closing, closed) = watch::channel(false);
    let room = Arc::new(Waiting::new(engine.options().waiting_max));
    let messages = watched(engine.queue().as_fd(), Interest::READABLE)?;
    let bell = watched(engine.bell(), Interest::READABLE)?;
    let (mut tasks, mut panicked) = (JoinSet::new(), None);
    loop {
        let mut taken = 0;
        while taken < BATCH
            && let Some(job) = engine.receive()
        {
            tasks.spawn(run(Arc::clone(&engine), job, closed.clone(), Arc::clone(&room)));
            taken += 1;
        }
        if taken == BATCH {
            yield_now().await;
            continue;
        }
        tokio::select! {
            biased;
            _ = bell.readable() => break,
            Some(ended) = tasks.join_next() => panicked = panicked.or_else(|| panic_of(&engine, ended)),
            // Cleared first: what comes between the clearing and the next look is seen by the look.
            ready = messages.readable() => ready?.clear_ready(),
        }
    }
    let _ = closing.send(true); // Without tasks nobody listens.
    while let Some(ended) = tasks.join_next().await {
        panicked = panicked.or_else(|| panic_of(&engine, ended));
    }
    // Only now: the others have left their jobs to be handed back.
    panicked.map_or(Ok(()), |panic| panic::resume_unwind(panic))
}

/// A task that panics stops the server.
fn panic_of<C: FileCopy>(engine: &Engine<C>, ended: Result<(), JoinError>) -> Option<Box<dyn Any + Send>> {
    let panic = ended.err()?.try_into_panic().ok();
    engine.close();
    panic
}

async fn run<C: FileCopy>(
    engine: Arc<Engine<C>>,
    mut job: Job<C>,
    mut closed: watch::Receiver<bool>,
    room: Arc<Waiting>,
) {
    let give_way = Arc::new(Notify::new());
    let mut looks = 0;
    while !engine.is_closed() {
        let wait = match job.advance(&engine) {
            Step::Finished => return engine.ended(),
            Step::Again => {
                yield_now().await;
                continue;
            }
            Step::Wait(wait) => wait,
        };
        if engine.has_expired(&job) {
            let outcome = job.expiry(&engine);
            job.cut(&engine, outcome);
            continue;
        }
        looks += 1;
        if matches!(wait, Wait::Until(_)) && looks <= QUICK_LOOKS {
            yield_now().await;
            continue;
        }
        engine.statistics().count(Count::SetAside, 1);
        engine.statistics().waiting.add(1);
        let seat = room.enter(job.progressed(), &give_way);
        let until = until(&engine, &mut job, wait);
        let must_give_way = tokio::select! {
            biased;
            _ = closed.wait_for(|is_closed| *is_closed) => false,
            () = give_way.notified() => true,
            () = until => false,
        };
        drop(seat);
        engine.statistics().waiting.add(-1);
        if must_give_way {
            return engine.evict(job);
        }
    }
    engine.leave([job]);
}

/// Until the job may go on, or has waited for too long.
async fn until<C: FileCopy>(engine: &Engine<C>, job: &mut Job<C>, wait: Wait) {
    let now = engine.now();
    let rest = job.expires(engine.options().stall_timeout).saturating_sub(now);
    let (descriptor, interest) = match (wait, job.readiness(engine.copy())) {
        (Wait::Until(time), _) => return sleep(time.saturating_sub(now).min(rest)).await,
        (Wait::Ready, Some(Readiness::Writable(fifo))) => (fifo, Interest::WRITABLE),
        (Wait::Ready, Some(Readiness::Readable(news))) => (news, Interest::READABLE),
        (Wait::Ready, None) => return,
    };
    match watched(descriptor, interest) {
        // Whether it was in time is found out by trying.
        Ok(watched) => _ = timeout(rest, watched.ready(interest)).await,
        Err(_) => sleep(UNWATCHED_PAUSE).await,
    }
}

/// A descriptor in tokio's reactor for as long as it is borrowed.
#[expect(deprecated, reason = "what replaces it is unsafe for want of a promise that a borrow makes")]
fn watched(descriptor: BorrowedFd<'_>, interest: Interest) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Who waits, so that the one who has done nothing for longest can be asked to give way.
struct Waiting {
    jobs_max: usize,
    seats: Mutex<Slab<(Duration, Arc<Notify>)>>,
}

struct Seat<'a>(&'a Waiting, usize, Arc<Notify>);

impl Waiting {
    fn new(jobs_max: usize) -> Self {
        Self { jobs_max, seats: Mutex::default() }
    }

    fn enter(&self, progressed: Duration, give_way: &Arc<Notify>) -> Seat<'_> {
        let mut seats = self.seats();
        if seats.len() >= self.jobs_max
            && let Some((longest, _)) = seats.iter().min_by_key(|(_, (progressed, _))| *progressed)
        {
            seats.remove(longest).1.notify_one();
        }
        Seat(self, seats.insert((progressed, Arc::clone(give_way))), Arc::clone(give_way))
    }

    fn seats(&self) -> MutexGuard<'_, Slab<(Duration, Arc<Notify>)>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut seats = self.0.seats();
        // Who had to give way has none any more, and somebody else may.
        if seats.get(self.1).is_some_and(|(_, seated)| Arc::ptr_eq(seated, &self.2)) {
            seats.remove(self.1);
        }
    }
}
