//! The server without its threads: it takes messages, runs jobs, sets aside those that wait, and ends when all is done.

mod draining;

use std::{
    collections::VecDeque,
    os::fd::BorrowedFd,
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use anyhow::Context;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use service::{Budget, Loop, Stop};
use sys::mqueue::{Queue, QueueName};

use crate::{
    clock::Clock,
    context::{JobContext, Options},
    copy::{FileCopy, Readiness},
    directories::Directories,
    job::{Job, Step, Wait},
    outcome::Outcome,
    queue::{Message, OwnedQueue},
    statistics::{Count, Statistics},
    wait_set::{TurnEvent, WaitSet, Wakeup},
};

/// A thread stays with a job while its reader takes at least 256 MiB/s: each KiB earns this much time to poll for it…
const POLL_TIME_PER_KIB: Duration = Duration::from_nanos(3_815);
/// …of which no more than this is saved up. A job whose reader is slower is set aside, and the thread goes on.
const POLL_TIME_MAX: Duration = Duration::from_millis(20);

/// Load of an engine now.
pub(crate) struct Load {
    /// Messages in the queue.
    pub(crate) queued: u64,
    /// Jobs taken and not ended.
    pub(crate) jobs: u64,
    /// Bytes of the pipe budget in use.
    pub(crate) pipe_bytes: u64,
}

const SERVING: u8 = 0;
const DRAINING: u8 = 1;
const CLOSED: u8 = 2;

/// A server without its threads.
pub struct Engine<C: FileCopy> {
    context: JobContext<C>,
    queue: OwnedQueue,
    /// Messages of a queue that was replaced, served first.
    backlog: Mutex<VecDeque<Message>>,
    wait_set: WaitSet<C>,
    /// Says that threads take requests, once somebody asks for that.
    life: OnceLock<Loop>,
    state: AtomicU8,
    has_drain_begun: AtomicBool,
    /// Messages that are still taken while draining: those that were there when it began.
    drain_quota: AtomicUsize,
    is_intake_over: AtomicBool,
    /// Jobs taken and not ended.
    jobs: AtomicUsize,
    /// Jobs that were under way when the engine closed.
    unfinished: Mutex<Vec<Job<C>>>,
    shut_down: Once,
}

impl<C: FileCopy> Engine<C> {
    /// Takes the queue out of `reserved` if nothing else is missing. From then on [`Engine::shut_down`] has to be called.
    ///
    /// # Errors
    /// There is no queue, or no epoll instance or timer can be made.
    pub fn new(
        copy: C,
        options: Options,
        pipe_budget: Budget,
        directories: Directories,
        reserved: &mut Option<OwnedQueue>,
    ) -> anyhow::Result<Arc<Self>> {
        let queue = reserved.as_ref().context("no queue")?;
        let wait_set = WaitSet::new(queue.queue(), options.waiting_max, options.stall_timeout);
        let wait_set = wait_set.context("cannot make an epoll instance")?;
        let mut queue = reserved.take().context("no queue")?;
        let backlog = Mutex::new(queue.take_backlog().into());
        Ok(Arc::new(Self {
            context: JobContext::new(copy, options, directories, pipe_budget),
            queue,
            backlog,
            wait_set,
            life: OnceLock::new(),
            state: AtomicU8::new(SERVING),
            has_drain_begun: AtomicBool::new(false),
            drain_quota: AtomicUsize::new(usize::MAX),
            is_intake_over: AtomicBool::new(false),
            jobs: AtomicUsize::new(0),
            unfinished: Mutex::default(),
            shut_down: Once::new(),
        }))
    }

    pub(crate) fn context(&self) -> &JobContext<C> {
        &self.context
    }

    pub(crate) fn copy(&self) -> &C {
        &self.context.copy
    }

    pub(crate) fn options(&self) -> &Options {
        &self.context.options
    }

    pub(crate) fn queue(&self) -> &Queue {
        self.queue.queue()
    }

    pub fn queue_name(&self) -> &QueueName {
        self.queue.name()
    }

    /// Lets the server's watchdog ask for signs of life.
    pub(crate) fn register_loop(&self, stop: &Stop) {
        let turn_event = Arc::clone(self.wait_set.turn_event());
        self.life.get_or_init(|| stop.register_loop(Waker::from(turn_event)));
    }

    /// Says that a thread has come to the point where it takes requests.
    pub(crate) fn turned(&self) {
        if let Some(life) = self.life.get() {
            life.turned();
        }
    }

    pub(crate) fn turn_event(&self) -> &TurnEvent {
        self.wait_set.turn_event()
    }

    /// Returns a descriptor that becomes readable when the engine closes.
    pub(crate) fn close_event(&self) -> BorrowedFd<'_> {
        self.wait_set.close_event()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.context.clock
    }

    pub(crate) fn now(&self) -> Duration {
        self.context.now()
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.context.statistics
    }

    /// Returns the number of requests that ended with `outcome`.
    pub fn ended_as(&self, outcome: Outcome) -> u64 {
        self.statistics().ended_as(outcome)
    }

    /// Returns the number of threads that serve requests now.
    pub fn workers(&self) -> i64 {
        self.statistics().workers.get()
    }

    pub(crate) fn load(&self) -> Load {
        Load {
            queued: self.queued() as u64,
            jobs: self.jobs.load(Ordering::Relaxed) as u64,
            pipe_bytes: self.context.pipe_budget.used(),
        }
    }

    /// Returns the number of messages that wait to be taken.
    fn queued(&self) -> usize {
        self.queue().len().unwrap_or(0) + self.backlog.lock().len()
    }

    /// Waits for something to do: see [`WaitSet::wait`].
    pub(crate) fn wait(&self, max: usize, timeout: Option<Duration>, jobs: &mut Vec<Job<C>>) -> Wakeup {
        // Nothing in the epoll set tells of the backlog.
        let has_backlog = !self.is_intake_over() && !self.backlog.lock().is_empty();
        let timeout = if has_backlog { Some(Duration::ZERO) } else { timeout };
        let mut wakeup = self.wait_set.wait(self.clock(), max, timeout, jobs);
        self.turned();
        self.statistics().waiting.add(-i64::try_from(jobs.len()).unwrap_or(0));
        wakeup.has_messages = (wakeup.has_messages || has_backlog) && !self.is_intake_over();
        wakeup.is_timeout &= !has_backlog;
        wakeup
    }

    /// Returns the next request. Messages that are no requests are counted and skipped.
    pub(crate) fn receive(&self) -> Option<Job<C>> {
        loop {
            // Counted before it is taken, or a drain might find neither a message nor a job.
            self.jobs.fetch_add(1, Ordering::AcqRel);
            let Some(message) = self.take_message() else {
                self.job_ended();
                return None;
            };
            self.statistics().count(Count::Received, 1);
            match Job::new(message, self.now(), self.options().request_timeout) {
                Ok(job) => return Some(job),
                Err(outcome) => self.statistics().ended(outcome),
            }
            self.job_ended();
        }
    }

    fn take_message(&self) -> Option<Message> {
        if self.is_intake_over() || self.is_closed() {
            return None;
        }
        let is_draining = self.state.load(Ordering::Acquire) == DRAINING;
        let take_one = |quota: usize| quota.checked_sub(1);
        let quota = is_draining.then(|| self.drain_quota.fetch_update(Ordering::AcqRel, Ordering::Acquire, take_one));
        if quota.is_some_and(|quota| quota.is_err()) {
            self.end_intake();
            return None;
        }
        let from_backlog = self.backlog.lock().pop_front();
        let message = from_backlog.or_else(|| self.queue.receive());
        if is_draining && (message.is_none() || quota == Some(Ok(1))) {
            self.end_intake();
        }
        message
    }

    /// Runs a job for as long as its client keeps up, then sets it aside.
    pub(crate) fn run(&self, mut job: Job<C>) {
        let mut poll_time = Duration::ZERO;
        loop {
            if self.is_closed() {
                return self.keep_unfinished([job]);
            }
            let before = job.moved();
            let step = job.advance(&self.context);
            let kib = u32::try_from((job.moved() - before) >> 10).unwrap_or(u32::MAX);
            poll_time = poll_time.saturating_add(POLL_TIME_PER_KIB.saturating_mul(kib)).min(POLL_TIME_MAX);
            match step {
                Step::Finished => return self.job_ended(),
                Step::Again => {}
                Step::Wait(Wait::Ready) if !poll_time.is_zero() && poll_ready(self.copy(), &job, &mut poll_time) => {}
                Step::Wait(wait) => match self.set_aside(job, wait) {
                    Some(expired) => job = expired,
                    None => return,
                },
            }
        }
    }

    /// Lets a job wait for its client. One that has waited for too long is aborted and returned: it may have a status to
    /// report.
    pub(crate) fn set_aside(&self, mut job: Job<C>, wait: Wait) -> Option<Job<C>> {
        if self.has_expired(&job) {
            let outcome = job.timeout_outcome(&self.context);
            job.abort(&self.context, outcome);
            return Some(job);
        }
        self.statistics().count(Count::SetAside, 1);
        self.statistics().waiting.add(1);
        if let Some(evicted) = self.wait_set.insert(self.copy(), self.clock(), job, wait) {
            self.statistics().waiting.add(-1);
            self.evict(evicted);
        }
        None
    }

    pub(crate) fn has_expired(&self, job: &Job<C>) -> bool {
        self.now() >= job.expires_at(self.options().stall_timeout)
    }

    /// Ends a job that has to make room. Its status is reported at once or never.
    pub(crate) fn evict(&self, mut job: Job<C>) {
        if job.abort(&self.context, Outcome::TooManyWaiting) != Step::Finished {
            job.abort(&self.context, Outcome::TooManyWaiting);
        }
        self.job_ended();
    }

    /// Notes that a job has ended, or that there was none.
    pub(crate) fn job_ended(&self) {
        self.jobs.fetch_sub(1, Ordering::AcqRel);
        self.close_if_drained();
    }

    /// Keeps jobs that are under way when the engine has closed, for [`Engine::shut_down`].
    pub(crate) fn keep_unfinished(&self, jobs: impl IntoIterator<Item = Job<C>>) {
        self.unfinished.lock().extend(jobs);
    }
}

/// Polls for what the job waits for; true if it was ready in time. The time spent is taken from `poll_time`.
fn poll_ready<C: FileCopy>(copy: &C, job: &Job<C>, poll_time: &mut Duration) -> bool {
    let descriptor = match job.readiness(copy) {
        Some(Readiness::Writable(fifo)) => PollFd::from_borrowed_fd(fifo, PollFlags::OUT),
        Some(Readiness::Readable(event)) => PollFd::from_borrowed_fd(event, PollFlags::IN),
        None => return false,
    };
    let Ok(timeout) = Timespec::try_from(*poll_time) else { return false };
    let began = Instant::now();
    let ready = poll(&mut [descriptor], Some(&timeout));
    *poll_time = poll_time.saturating_sub(began.elapsed());
    ready.is_ok_and(|ready| ready > 0)
}
