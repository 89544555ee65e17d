//! What all ways to dispatch share: where messages come from, what a thread does with a job, and when all is over.

mod draining;

use std::{
    collections::VecDeque,
    os::fd::BorrowedFd,
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use service::Budget;
use sys::{
    fifo::Directory,
    mqueue::{Queue, QueueName},
};

use crate::{
    clock::Clock,
    copy::{FileCopy, Readiness, Source},
    directories::Places,
    job::{Job, Message, Step, Wait},
    outcome::Outcome,
    queue::OwnQueue,
    statistics::{Count, Statistics},
    wait_set::{Room, Woken},
};

/// A thread stays with a job while its reader takes at least 256 MiB/s: each byte earns this much patience…
const PATIENCE_PER_KIB: Duration = Duration::from_nanos(3_815);
/// …of which no more is saved up than this. A job whose reader is slower waits aside, and the thread goes on.
const PATIENCE_MAX: Duration = Duration::from_millis(20);

/// That descriptors have run out is said at most this often.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Limits of the clients, and how they are answered.
#[derive(Clone, Debug)]
pub struct Options {
    /// From a message to the end of its answer.
    pub request_timeout: Duration,
    /// A reader that does nothing for so long is given up.
    pub stall_timeout: Duration,
    /// After a [`Engine::begin_drain`].
    pub drain_timeout: Duration,
    /// Jobs that wait for their clients at most.
    pub waiting_max: usize,
    /// A header stands in front of the bytes.
    pub framed: bool,
    /// What a FIFO is enlarged to, for files that need it.
    pub pipe_bytes: u64,
}

/// What an engine holds now.
pub(crate) struct Holdings {
    pub(crate) queued: u64,
    pub(crate) jobs: u64,
    pub(crate) pipe_bytes: u64,
}

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const CLOSED: u8 = 2;

/// A server without its threads.
pub struct Engine<C: FileCopy> {
    copy: C,
    options: Options,
    queue: OwnQueue,
    places: Places,
    clock: Clock,
    room: Room<C>,
    statistics: Statistics,
    /// When it was said that descriptors had run out.
    shortage_said: Mutex<Option<Instant>>,
    pipe_budget: Budget,
    /// Messages of a queue that was replaced, served first.
    carried: Mutex<VecDeque<Message>>,
    state: AtomicU8,
    has_drain_begun: AtomicBool,
    /// Messages that are still taken while draining: those that were there when it began.
    quota: AtomicUsize,
    is_intake_over: AtomicBool,
    /// Jobs taken and not ended.
    jobs: AtomicUsize,
    leftovers: Mutex<Vec<Job<C>>>,
    put_away: Once,
}

impl<C: FileCopy> Engine<C> {
    /// Takes the queue if there is nothing else in the way. From then on [`Engine::put_away`] has to be called.
    ///
    /// # Errors
    /// No epoll instance or timer is to be had, or no queue.
    pub fn new(
        copy: C,
        options: Options,
        pipe_budget: Budget,
        places: Places,
        reserved: &mut Option<OwnQueue>,
    ) -> anyhow::Result<Arc<Self>> {
        let queue = reserved.as_ref().context("no queue")?;
        let room = Room::new(queue.queue(), options.waiting_max, options.stall_timeout);
        let room = room.context("cannot make an epoll instance")?;
        let mut queue = reserved.take().context("no queue")?;
        let carried = Mutex::new(queue.take_carried().into());
        Ok(Arc::new(Self {
            room,
            queue,
            pipe_budget,
            copy,
            options,
            places,
            clock: Clock::new(),
            statistics: Statistics::default(),
            shortage_said: Mutex::default(),
            carried,
            state: AtomicU8::new(SERVING),
            has_drain_begun: AtomicBool::new(false),
            quota: AtomicUsize::new(usize::MAX),
            is_intake_over: AtomicBool::new(false),
            jobs: AtomicUsize::new(0),
            leftovers: Mutex::default(),
            put_away: Once::new(),
        }))
    }

    pub(crate) fn copy(&self) -> &C {
        &self.copy
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn fifos(&self) -> &Directory {
        &self.places.fifos
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.queue.queue()
    }

    pub fn queue_name(&self) -> &QueueName {
        self.queue.name()
    }

    /// Readable from when the engine has closed.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.room.bell()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(crate) fn pipe_budget(&self) -> &Budget {
        &self.pipe_budget
    }

    /// Somebody waits for a descriptor.
    pub(crate) fn complain_of_shortage(&self) {
        let mut said = self.shortage_said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|at| at.elapsed() > SAY_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!("out of file descriptors: requests wait until there are some (see ulimit -n)");
        }
    }

    /// Requests that have ended so.
    pub fn ended_as(&self, outcome: Outcome) -> u64 {
        self.statistics.ended_as(outcome)
    }

    /// Threads that serve requests now.
    pub fn workers(&self) -> i64 {
        self.statistics.workers.get()
    }

    pub(crate) fn holdings(&self) -> Holdings {
        Holdings {
            queued: self.queue().len().unwrap_or(0) as u64 + self.carried().len() as u64,
            jobs: self.jobs.load(Ordering::Relaxed) as u64,
            pipe_bytes: self.pipe_budget.used(),
        }
    }

    /// # Errors
    /// Why the client cannot have it.
    pub(crate) fn open_source(&self, path: &[u8]) -> Result<Source, Outcome> {
        self.places.open_source(path)
    }

    /// Waits for something to do: see [`Room::next`].
    pub(crate) fn next(&self, max: usize, patience: Option<Duration>, jobs: &mut Vec<Job<C>>) -> Woken {
        // Nothing in the epoll set says that there are carried messages.
        let has_carried = !self.is_intake_over() && !self.carried().is_empty();
        let patience = if has_carried { Some(Duration::ZERO) } else { patience };
        let mut woken = self.room.next(&self.clock, max, patience, jobs);
        self.statistics.waiting.add(-i64::try_from(jobs.len()).unwrap_or(0));
        woken.messages = (woken.messages || has_carried) && !self.is_intake_over();
        woken.idle &= !has_carried;
        woken
    }

    /// The next request. Messages that are none are counted and passed over.
    pub(crate) fn receive(&self) -> Option<Job<C>> {
        loop {
            // Before it is taken, or a drain might find neither a message nor a job.
            self.jobs.fetch_add(1, Ordering::AcqRel);
            let Some(message) = self.take_message() else {
                self.ended();
                return None;
            };
            self.statistics.count(Count::Received, 1);
            match Job::new(message, self.now(), self.options.request_timeout) {
                Ok(job) => return Some(job),
                Err(outcome) => self.statistics.ended(outcome),
            }
            self.ended();
        }
    }

    fn take_message(&self) -> Option<Message> {
        if self.is_intake_over() || self.is_closed() {
            return None;
        }
        let is_draining = self.state.load(Ordering::Acquire) == DRAINING;
        let may_take = |quota: usize| quota.checked_sub(1);
        let quota = is_draining.then(|| self.quota.fetch_update(Ordering::AcqRel, Ordering::Acquire, may_take));
        if quota.is_some_and(|quota| quota.is_err()) {
            self.end_intake();
            return None;
        }
        let carried = self.carried().pop_front();
        let message = carried.or_else(|| self.queue.receive());
        if is_draining && (message.is_none() || quota == Some(Ok(1))) {
            self.end_intake();
        }
        message
    }

    /// Goes on with a job for as long as its client keeps up, then sets it aside.
    pub(crate) fn turn(&self, mut job: Job<C>) {
        let mut patience = Duration::ZERO;
        loop {
            if self.is_closed() {
                return self.leave([job]);
            }
            let before = job.moved();
            let step = job.advance(self);
            let kib = u32::try_from((job.moved() - before) >> 10).unwrap_or(u32::MAX);
            patience = patience.saturating_add(PATIENCE_PER_KIB.saturating_mul(kib)).min(PATIENCE_MAX);
            match step {
                Step::Finished => return self.ended(),
                Step::Again => {}
                Step::Wait(Wait::Ready) if !patience.is_zero() && wait_ready(self, &job, &mut patience) => {}
                Step::Wait(wait) => match self.set_aside(job, wait) {
                    Some(expired) => job = expired,
                    None => return,
                },
            }
        }
    }

    /// Lets a job wait for its client, unless it has done so for too long: then it is cut, and may have a status to tell.
    pub(crate) fn set_aside(&self, mut job: Job<C>, wait: Wait) -> Option<Job<C>> {
        if self.has_expired(&job) {
            let outcome = job.expiry(self);
            job.cut(self, outcome);
            return Some(job);
        }
        self.statistics.count(Count::SetAside, 1);
        self.statistics.waiting.add(1);
        if let Some(evicted) = self.room.park(&self.copy, &self.clock, job, wait) {
            self.statistics.waiting.add(-1);
            self.evict(evicted);
        }
        None
    }

    pub(crate) fn has_expired(&self, job: &Job<C>) -> bool {
        self.now() >= job.expires(self.options.stall_timeout)
    }

    /// Ends a job that has to make room; its status is told now or never.
    pub(crate) fn evict(&self, mut job: Job<C>) {
        if job.cut(self, Outcome::WaitingRoomFull) != Step::Finished {
            job.cut(self, Outcome::WaitingRoomFull);
        }
        self.ended();
    }

    /// A job has ended, or there was none.
    pub(crate) fn ended(&self) {
        self.jobs.fetch_sub(1, Ordering::AcqRel);
        self.close_if_drained();
    }

    /// For jobs that are under way when the engine has closed.
    pub(crate) fn leave(&self, jobs: impl IntoIterator<Item = Job<C>>) {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).extend(jobs);
    }

    fn carried(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what the job waits for was ready in time. What it took is no longer in `patience`.
fn wait_ready<C: FileCopy>(engine: &Engine<C>, job: &Job<C>, patience: &mut Duration) -> bool {
    let descriptor = match job.readiness(&engine.copy) {
        Some(Readiness::Writable(fifo)) => PollFd::from_borrowed_fd(fifo, PollFlags::OUT),
        Some(Readiness::Readable(news)) => PollFd::from_borrowed_fd(news, PollFlags::IN),
        None => return false,
    };
    let Ok(timeout) = Timespec::try_from(*patience) else { return false };
    let began = Instant::now();
    let ready = poll(&mut [descriptor], Some(&timeout));
    *patience = patience.saturating_sub(began.elapsed());
    ready.is_ok_and(|ready| ready > 0)
}
