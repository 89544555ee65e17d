//! Jobs whose clients are not ready, in one epoll set with the queue and a timer, for every dispatch alike. So no client
//! ever holds a thread, and a thread without work waits here for the queue and for all clients at once.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    task::Wake,
    time::Duration,
};

use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use parking_lot::Mutex;
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime},
};
use slab::Slab;
use sys::{eventfd::EventFd, mqueue::Queue};

use crate::{
    clock::Clock,
    copy::{FileCopy, Readiness},
    job::{Job, Wait},
};

const MESSAGES: u64 = u64::MAX;
const CLOSE: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
const TURN: u64 = u64::MAX - 3;
/// Most events that one call takes.
const EVENTS_MAX: usize = 64;
/// Pause before a job is tried again whose FIFO epoll has no room for.
const UNWATCHED_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct WaitSet<C: FileCopy> {
    /// Waited for by epoll_wait(2), which valgrind knows; rustix would call epoll_pwait2(2).
    epoll: Epoll,
    /// Readable once all threads are to leave.
    close_event: EventFd,
    /// Readable while a thread is asked to make a turn.
    turn_event: Arc<TurnEvent>,
    timer: OwnedFd,
    waiters_max: usize,
    stall_timeout: Duration,
    waiters: Mutex<Waiters<C>>,
}

/// Event that makes a thread that waits turn once.
#[derive(Debug)]
pub(crate) struct TurnEvent(EventFd);

impl TurnEvent {
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

impl AsFd for TurnEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Wake for TurnEvent {
    fn wake(self: Arc<Self>) {
        self.0.poke();
    }
}

struct Waiters<C: FileCopy> {
    slab: Slab<Waiter<C>>,
    /// Times at which waiters have to be woken.
    timeouts: BTreeSet<(Duration, usize)>,
    /// Time that the timer is set to.
    armed: Option<Duration>,
    /// Generation of the last waiter.
    generation: u32,
}

struct Waiter<C: FileCopy> {
    job: Job<C>,
    timeout: Duration,
    /// Tells the waiter from earlier ones with the same key, whose events may still come.
    generation: u32,
}

/// Reasons for which a wait has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wakeup {
    /// The queue may have messages.
    pub(crate) has_messages: bool,
    /// All threads are to leave.
    pub(crate) is_closed: bool,
    /// Nothing happened for as long as the timeout.
    pub(crate) is_timeout: bool,
}

impl<C: FileCopy> WaitSet<C> {
    pub(crate) fn new(queue: &Queue, waiters_max: usize, stall_timeout: Duration) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let (close_event, turn_event) = (EventFd::new()?, TurnEvent(EventFd::new()?));
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, queue, EventData::new_u64(MESSAGES), EventFlags::IN)?;
        epoll::add(&epoll, &close_event, EventData::new_u64(CLOSE), EventFlags::IN)?;
        epoll::add(&epoll, &turn_event, EventData::new_u64(TURN), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let waiters = Waiters { slab: Slab::new(), timeouts: BTreeSet::new(), armed: None, generation: 0 };
        let (epoll, turn_event, waiters) = (Epoll(epoll), Arc::new(turn_event), Mutex::new(waiters));
        Ok(Self { epoll, close_event, turn_event, timer, waiters_max, stall_timeout, waiters })
    }

    /// Waits until there is something to do, at most for `timeout`. Appends up to `max` jobs whose clients may be ready,
    /// or whose time is over.
    pub(crate) fn wait(&self, clock: &Clock, max: usize, timeout: Option<Duration>, out: &mut Vec<Job<C>>) -> Wakeup {
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        // In milliseconds, rounded up: a part of one would be a wait of none.
        let timeout = timeout.map_or(EpollTimeout::NONE, |timeout| {
            EpollTimeout::try_from(timeout + Duration::from_micros(999)).unwrap_or(EpollTimeout::MAX)
        });
        let watch = clock.watch();
        let waited = self.epoll.wait(&mut events[..max.clamp(1, EVENTS_MAX)], timeout);
        drop(watch);
        let mut wakeup = Wakeup { is_timeout: waited == Ok(0), ..Wakeup::default() };
        if let Err(errno) = waited
            && errno != nix::errno::Errno::EINTR
        {
            tracing::error!("epoll_wait: {errno}"); // Only a bug makes it fail.
            wakeup.is_closed = true;
        }
        for event in &events[..waited.unwrap_or(0)] {
            match event.data() {
                MESSAGES => wakeup.has_messages = true,
                CLOSE => wakeup.is_closed = true,
                TURN => self.turn_event.clear(),
                TIMER => self.take_due(clock, max.saturating_sub(out.len()), out),
                waiter => out.extend(self.waiters.lock().take_ready(waiter)),
            }
        }
        wakeup
    }

    /// Adds a job. If the set is full, returns the job whose client has done nothing for longest.
    pub(crate) fn insert(&self, copy: &C, clock: &Clock, mut job: Job<C>, wait: Wait) -> Option<Job<C>> {
        let now = clock.now();
        let expires_at = job.expires_at(self.stall_timeout);
        let mut waiters = self.waiters.lock();
        let evicted = if waiters.slab.len() >= self.waiters_max { waiters.take_longest() } else { None };
        waiters.generation = waiters.generation.wrapping_add(1);
        let (key, generation) = (waiters.slab.vacant_key(), waiters.generation);
        let timeout = match wait {
            Wait::Until(time) => time.min(expires_at),
            Wait::Ready => {
                let is_watched = self.watch(copy, &mut job, key, generation).is_ok();
                if is_watched { expires_at } else { now + UNWATCHED_PAUSE }
            }
        };
        waiters.slab.insert(Waiter { job, timeout, generation });
        waiters.timeouts.insert((timeout, key));
        if waiters.armed.is_none_or(|armed| timeout < armed) {
            self.arm(&mut waiters, now);
        }
        evicted
    }

    fn watch(&self, copy: &C, job: &mut Job<C>, key: usize, generation: u32) -> rustix::io::Result<()> {
        let data = EventData::new_u64(u64::from(generation) << 32 | key as u64);
        let is_registered = job.pipe().is_some_and(|pipe| pipe.is_registered);
        let is_fifo = match job.readiness(copy).ok_or(Errno::INVAL)? {
            Readiness::Writable(fifo) => {
                let flags = EventFlags::OUT | EventFlags::ONESHOT;
                if is_registered {
                    epoll::modify(&self.epoll.0, fifo, data, flags)?;
                } else {
                    epoll::add(&self.epoll.0, fifo, data, flags)?;
                }
                true
            }
            Readiness::Readable(event) => {
                let flags = EventFlags::IN | EventFlags::ONESHOT;
                match epoll::add(&self.epoll.0, event, data, flags) {
                    Err(Errno::EXIST) => epoll::modify(&self.epoll.0, event, data, flags)?,
                    outcome => outcome?,
                }
                false
            }
        };
        if let Some(pipe) = job.pipe() {
            pipe.is_registered |= is_fifo;
        }
        Ok(())
    }

    /// Makes messages wake no thread any more.
    pub(crate) fn unwatch_messages(&self, queue: &Queue) {
        let _ = epoll::delete(&self.epoll.0, queue); // It fails when that has been done.
    }

    /// Wakes all threads, now and whenever they wait again.
    pub(crate) fn close(&self) {
        self.close_event.poke();
    }

    /// Returns a descriptor that becomes readable when the set is closed.
    pub(crate) fn turn_event(&self) -> &Arc<TurnEvent> {
        &self.turn_event
    }

    pub(crate) fn close_event(&self) -> BorrowedFd<'_> {
        self.close_event.as_fd()
    }

    pub(crate) fn take_all(&self) -> Vec<Job<C>> {
        let mut waiters = self.waiters.lock();
        waiters.timeouts.clear();
        waiters.slab.drain().map(|waiter| waiter.job).collect()
    }

    /// Takes up to `max` jobs whose time has come. For those that are left the timer stays ready.
    fn take_due(&self, clock: &Clock, max: usize, out: &mut Vec<Job<C>>) {
        let now = clock.now();
        let mut waiters = self.waiters.lock();
        for _ in 0..max.max(1) {
            match waiters.timeouts.first() {
                Some(&(timeout, key)) if timeout <= now => out.extend(waiters.take(key)),
                _ => break,
            }
        }
        self.arm(&mut waiters, now);
    }

    /// Sets the timer to the first timeout. That also makes it unreadable until then.
    fn arm(&self, waiters: &mut Waiters<C>, now: Duration) {
        waiters.armed = waiters.timeouts.first().map(|&(timeout, _)| timeout);
        // Zero would disarm it.
        let rest = waiters.armed.map(|timeout| timeout.saturating_sub(now).max(Duration::from_nanos(1)));
        let value = rest.and_then(|rest| Timespec::try_from(rest).ok()).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let setting = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if let Err(errno) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting) {
            tracing::error!("timerfd_settime: {errno}"); // Only a bug makes it fail.
        }
    }
}

impl<C: FileCopy> Waiters<C> {
    /// Takes the job that an event is for, unless it has been taken already.
    fn take_ready(&mut self, data: u64) -> Option<Job<C>> {
        let (generation, key) = ((data >> 32) as u32, (data & u64::from(u32::MAX)) as usize);
        self.slab.get(key).filter(|waiter| waiter.generation == generation)?;
        self.take(key)
    }

    fn take(&mut self, key: usize) -> Option<Job<C>> {
        let Waiter { job, timeout, .. } = self.slab.try_remove(key)?;
        self.timeouts.remove(&(timeout, key));
        Some(job)
    }

    fn take_longest(&mut self) -> Option<Job<C>> {
        let (key, _) = self.slab.iter().min_by_key(|(_, waiter)| waiter.job.last_progress())?;
        self.take(key)
    }
}
