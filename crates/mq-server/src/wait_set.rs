//! The waiting room: jobs whose clients are not ready, in one epoll set with the queue and a timer, for every dispatch
//! alike. So no thread is ever held by a client, and whoever has nothing to do waits here for all of them.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
const BELL: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
/// Events taken at once by who takes several.
const EVENTS_MAX: usize = 64;
/// When epoll has no room for a FIFO, its job is looked at again after this.
const UNWATCHED_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Room<C: FileCopy> {
    epoll: OwnedFd,
    /// Rung once, when everybody is to leave.
    bell: EventFd,
    timer: OwnedFd,
    jobs_max: usize,
    stall_timeout: Duration,
    seats: Mutex<Seats<C>>,
}

struct Seats<C: FileCopy> {
    jobs: Slab<Seat<C>>,
    /// When who has to be called up.
    alarms: BTreeSet<(Duration, usize)>,
    /// What the timer is set to.
    armed: Option<Duration>,
    visits: u32,
}

struct Seat<C: FileCopy> {
    job: Job<C>,
    alarm: Duration,
    /// Tells it from others who had the seat.
    visit: u32,
}

/// What somebody was woken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// The queue may have messages.
    pub(crate) messages: bool,
    /// Everybody is to leave.
    pub(crate) closed: bool,
    /// There was nothing for as long as was asked for.
    pub(crate) idle: bool,
}

impl<C: FileCopy> Room<C> {
    pub(crate) fn new(queue: &Queue, jobs_max: usize, stall_timeout: Duration) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = EventFd::new()?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, queue, EventData::new_u64(MESSAGES), EventFlags::IN)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let seats = Seats { jobs: Slab::new(), alarms: BTreeSet::new(), armed: None, visits: 0 };
        Ok(Self { epoll, bell, timer, jobs_max, stall_timeout, seats: Mutex::new(seats) })
    }

    /// Waits until there is something to do, or for as long as `patience`; appends up to `max` jobs whose clients may be
    /// ready, or whose time is over.
    pub(crate) fn next(&self, clock: &Clock, max: usize, patience: Option<Duration>, out: &mut Vec<Job<C>>) -> Woken {
        let mut events = Vec::with_capacity(max.clamp(1, EVENTS_MAX));
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let watch = clock.watch();
        let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        drop(watch);
        let mut woken = Woken { idle: waited == Ok(0), ..Woken::default() };
        if waited.is_err_and(|errno| errno != Errno::INTR) {
            tracing::error!("epoll_wait: {waited:?}"); // Only a bug makes it fail.
            woken.closed = true;
        }
        for event in events {
            match event.data.u64() {
                MESSAGES => woken.messages = true,
                BELL => woken.closed = true,
                TIMER => self.call_up(clock, max.saturating_sub(out.len()), out),
                seat => out.extend(self.seats().take_seat(seat)),
            }
        }
        woken
    }

    /// Lets a job wait. Where there is no room, the one whose client has done nothing for longest gives way.
    pub(crate) fn park(&self, copy: &C, clock: &Clock, mut job: Job<C>, wait: Wait) -> Option<Job<C>> {
        let now = clock.now();
        let expires = job.expires(self.stall_timeout);
        let mut seats = self.seats();
        let evicted = if seats.jobs.len() >= self.jobs_max { seats.take_longest() } else { None };
        seats.visits = seats.visits.wrapping_add(1);
        let (seat, visit) = (seats.jobs.vacant_key(), seats.visits);
        let alarm = match wait {
            Wait::Until(time) => time.min(expires),
            Wait::Ready => {
                let is_watched = self.watch(copy, &mut job, seat, visit).is_ok();
                if is_watched { expires } else { now + UNWATCHED_PAUSE }
            }
        };
        seats.jobs.insert(Seat { job, alarm, visit });
        seats.alarms.insert((alarm, seat));
        if seats.armed.is_none_or(|armed| alarm < armed) {
            self.arm(&mut seats, now);
        }
        evicted
    }

    fn watch(&self, copy: &C, job: &mut Job<C>, seat: usize, visit: u32) -> rustix::io::Result<()> {
        let data = EventData::new_u64(u64::from(visit) << 32 | seat as u64);
        let is_known = job.pipe().is_some_and(|pipe| pipe.is_registered);
        let is_fifo = match job.readiness(copy).ok_or(Errno::INVAL)? {
            Readiness::Writable(fifo) => {
                let flags = EventFlags::OUT | EventFlags::ONESHOT;
                if is_known {
                    epoll::modify(&self.epoll, fifo, data, flags)?;
                } else {
                    epoll::add(&self.epoll, fifo, data, flags)?;
                }
                true
            }
            Readiness::Readable(news) => {
                let flags = EventFlags::IN | EventFlags::ONESHOT;
                match epoll::add(&self.epoll, news, data, flags) {
                    Err(Errno::EXIST) => epoll::modify(&self.epoll, news, data, flags)?,
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

    /// From here on messages wake nobody.
    pub(crate) fn forget_messages(&self, queue: &Queue) {
        let _ = epoll::delete(&self.epoll, queue); // It fails when that has been done.
    }

    /// Wakes everybody, now and whenever they come back.
    pub(crate) fn close(&self) {
        self.bell.poke();
    }

    /// Readable from then on.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn take_all(&self) -> Vec<Job<C>> {
        let mut seats = self.seats();
        seats.alarms.clear();
        seats.jobs.drain().map(|seat| seat.job).collect()
    }

    /// Those whose alarm has rung, up to `max`; the others ring on.
    fn call_up(&self, clock: &Clock, max: usize, out: &mut Vec<Job<C>>) {
        let now = clock.now();
        let mut seats = self.seats();
        for _ in 0..max.max(1) {
            match seats.alarms.first() {
                Some(&(alarm, seat)) if alarm <= now => out.extend(seats.take(seat)),
                _ => break,
            }
        }
        self.arm(&mut seats, now);
    }

    /// Sets the timer to the first alarm; that also ends what it has been ringing for.
    fn arm(&self, seats: &mut Seats<C>, now: Duration) {
        seats.armed = seats.alarms.first().map(|&(alarm, _)| alarm);
        // Zero would disarm it.
        let rest = seats.armed.map(|alarm| alarm.saturating_sub(now).max(Duration::from_nanos(1)));
        let value = rest.and_then(|rest| Timespec::try_from(rest).ok()).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let setting = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        if let Err(errno) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting) {
            tracing::error!("timerfd_settime: {errno}"); // Only a bug makes it fail.
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats<C>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: FileCopy> Seats<C> {
    /// Who an event is for, unless they have been called up already.
    fn take_seat(&mut self, data: u64) -> Option<Job<C>> {
        let (visit, seat) = ((data >> 32) as u32, (data & u64::from(u32::MAX)) as usize);
        self.jobs.get(seat).filter(|taken| taken.visit == visit)?;
        self.take(seat)
    }

    fn take(&mut self, seat: usize) -> Option<Job<C>> {
        let Seat { job, alarm, .. } = self.jobs.try_remove(seat)?;
        self.alarms.remove(&(alarm, seat));
        Some(job)
    }

    fn take_longest(&mut self) -> Option<Job<C>> {
        let (seat, _) = self.jobs.iter().min_by_key(|(_, seat)| seat.job.progressed())?;
        self.take(seat)
    }
}
