//! One client: asks, one request after the other, until the limit.

use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::{RwLock, RwLockWriteGuard};
use sys::{
    fifo::Directory,
    mqueue::{Access, Queue, QueueName},
};
use wire::mserve::Request;

use super::{
    MqError,
    account::{Account, Report, Settled},
    answer::{Answer, Lengths},
    conduct::{Crew, Edges, News},
    directory,
    exchange::Exchange,
    fifo::Fifo,
    log::Log,
    plan::{AnswerForm, MqLoad},
    sink::Drain,
};
use crate::{
    clock::{self, MILLISECOND, Nanos, SECOND},
    engine::{Collector, Limit, LiveStats, Pacing, Schedule, Slicer, Timeline, Window, begin_of, share},
    error::ErrorClass,
    protocol::Verdict,
    request_log::{Received, Recorder},
    sample::Sampler,
};

/// Without any answer for this long, and with failures only, a client gives up.
const PATIENCE_MIN: Nanos = 10 * SECOND;
const FAILURES_MAX: u32 = 3;
/// A client that sleeps looks this often whether the run was interrupted.
const LOOK_EVERY: Nanos = 50 * MILLISECOND;
/// Digits that the number of a client and that of its request have at most.
const NUMBER_DIGITS: usize = 20;

/// What clients need of the system.
pub(super) struct Place {
    queue: Queue,
    directory: Directory,
}

impl Place {
    pub(super) fn open(plan: &MqLoad) -> Result<Self, MqError> {
        let failed = |why: String| MqError::Queue { name: plan.queue.clone(), why };
        let name: QueueName = plan.queue.parse().map_err(|error| failed(format!("{error}")))?;
        let queue = Queue::open(&name, Access::Send).map_err(|error| failed(error.to_string()))?;
        let directory = directory::open(&plan.fifo_directory, plan.sharing)?;
        Ok(Self { queue, directory })
    }
}

/// Whether every request can be asked at all.
pub(super) fn check(plan: &MqLoad) -> Result<(), MqError> {
    let place = Place::open(plan)?;
    let names = if plan.form == AnswerForm::Status { 2 } else { 1 };
    let name = 1 + plan.prefix.len() + 2 * NUMBER_DIGITS + 2;
    let path = plan.files.iter().map(|wanted| wanted.path.len()).max().unwrap_or_default();
    let (need, max) = (path + names * name, place.queue.size().message_bytes_max);
    if need > max {
        return Err(MqError::MessageSize { need, max });
    }
    Ok(())
}

/// One client.
pub(super) struct Client<'a> {
    plan: &'a MqLoad,
    place: &'a Place,
    window: &'a Window,
    /// Where progress is told, and in which place.
    live: (&'a LiveStats, usize),
    lengths: &'a Lengths,
    sampler: Sampler,
    index: usize,
    drain: Drain,
    account: Account<'a>,
    /// Requests that may still be sent; `None` if time is the limit.
    quota: Option<u64>,
    /// Of FIFOs that have been made.
    made: u64,
    /// The file that is asked for next.
    file: usize,
    last_answer: Nanos,
    failures_in_row: u32,
}

/// The FIFOs of one request.
struct Fifos<'a> {
    data: Fifo<'a>,
    status: Option<Fifo<'a>>,
}

impl<'a> Client<'a> {
    /// Everything that can fail or takes time, before the clock starts.
    pub(super) fn prepare(
        plan: &'a MqLoad,
        place: &'a Place,
        window: &'a Window,
        lengths: &'a Lengths,
        index: usize,
        live: (&'a LiveStats, usize),
        slicer: Option<Slicer>,
    ) -> Result<Self, MqError> {
        if let Some(cpus) = plan.cpus() {
            cpus.pin_to_one(index).map_err(|why| MqError::Pin { cpus: cpus.to_string(), why })?;
        }
        // Best effort: the default slack of 50 µs would show in an open loop's latency.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let quota = match plan.limit {
            Limit::Requests(requests) => Some(share(requests, index, plan.clients)),
            Limit::Duration(_) => None,
        };
        let recorder = plan.request_log.map(|size| Recorder::new(size, plan.seed, index));
        Ok(Self {
            plan,
            place,
            window,
            live,
            lengths,
            sampler: Sampler::new(plan.sample, plan.seed, index),
            index,
            drain: Drain::new(plan)?,
            account: Account::new(window, plan.pacing != Pacing::Closed, plan.counts_by_issue()).with(slicer, recorder),
            quota,
            made: 0,
            file: index % plan.files.len(),
            last_answer: 0,
            failures_in_row: 0,
        })
    }

    /// Asks until the limit, an interrupt, or a server that has not answered for long.
    pub(super) fn run(mut self) -> Report {
        let (begin, mut schedule) = self.course();
        self.last_answer = begin;
        let patience = PATIENCE_MIN.max(clock::nanos(self.plan.timeout).saturating_mul(3));
        let mut was_abandoned = false;
        while !self.window.is_stopped() {
            let now = clock::now().max(begin);
            let due = schedule.as_ref().map_or(now, Schedule::due);
            was_abandoned = self.failures_in_row > FAILURES_MAX && now.saturating_sub(self.last_answer) > patience;
            if was_abandoned || self.window.has_ended(due) || self.quota == Some(0) || self.ask(due).is_none() {
                break;
            }
            if let Some(schedule) = &mut schedule {
                schedule.advance();
            }
        }
        self.account.close(was_abandoned)
    }

    /// When this client begins, and in an open loop when its requests fall due: there the schedule alone has the ramp.
    fn course(&self) -> (Nanos, Option<Schedule>) {
        let MqLoad { seed, clients, pacing, .. } = *self.plan;
        let (origin, ramp) = (self.window.origin(), clock::nanos(self.plan.ramp));
        match pacing {
            Pacing::Open { rate, arrivals } => {
                (origin, Some(Schedule::new(arrivals, rate, ramp, origin, seed, self.index, clients)))
            }
            Pacing::Closed => (origin.saturating_add(begin_of(ramp, self.index, clients)), None),
        }
    }

    /// One request with all that belongs to it; `None` when the run was interrupted.
    fn ask(&mut self, due: Nanos) -> Option<()> {
        let timeout = clock::nanos(self.plan.timeout);
        let file = self.file;
        self.file = (file + 1) % self.plan.files.len();
        if let (Some(quota), true) = (&mut self.quota, self.window.has_started(due)) {
            *quota -= 1;
        }
        let free = clock::now();
        // It has waited for this client to be free as long as anything may take.
        if free >= due.saturating_add(timeout) {
            let (verdict, heard) = (Err(ErrorClass::Timeout), Received::default());
            self.account.left(due, free);
            self.settle(Settled { file, due, free, sent: free, was_tried: false, heard, ended: free, verdict });
            return Some(());
        }
        let fifos = self.fifos();
        self.wait_until(due)?;
        let sent = clock::now();
        self.account.left(due, sent);
        let was_tried = fifos.is_ok();
        let (heard, verdict) = match fifos {
            Ok(fifos) => self.exchange(&fifos, file, sent + timeout)?,
            Err(class) => (Received::default(), Err(class)),
        };
        self.settle(Settled { file, due, free, sent, was_tried, heard, ended: clock::now(), verdict });
        Some(())
    }

    fn fifos(&mut self) -> Result<Fifos<'a>, ErrorClass> {
        let mut make = || {
            let name = format!("{}{}-{}", self.plan.prefix, self.index, self.made);
            self.made += 1;
            Fifo::make(&self.place.directory, name).map_err(|error| match error.raw_os_error() {
                Some(number) if is_descriptor_shortage(number) => ErrorClass::FdLimit,
                _ => ErrorClass::Fifo,
            })
        };
        let data = make()?;
        let status = if self.plan.form == AnswerForm::Status { Some(make()?) } else { None };
        Ok(Fifos { data, status })
    }

    fn exchange(&mut self, fifos: &Fifos<'_>, file: usize, deadline: Nanos) -> Option<(Received, Verdict)> {
        let status = fifos.status.as_ref();
        let mut message = Vec::new();
        let request = Request::new(
            self.plan.files[file].path.as_bytes(),
            fifos.data.name.as_bytes(),
            status.map(|fifo| fifo.name.as_bytes()),
        );
        match request {
            Ok(request) => request.encode(&mut message),
            // The paths were checked with the command line.
            Err(_) => return Some((Received::default(), Err(ErrorClass::WriteError))),
        }
        let mut exchange = Exchange {
            window: self.window,
            account: &mut self.account,
            drain: &mut self.drain,
            data: &fifos.data.reader,
            status: status.map(|fifo| &fifo.reader),
            deadline,
            heard: Received::default(),
        };
        let answer = Answer::new(self.plan, file, self.lengths, self.sampler.draw());
        let verdict = exchange.run(&self.place.queue, &message, answer)?;
        Some((exchange.heard, verdict))
    }

    fn settle(&mut self, settled: Settled) {
        match settled.verdict {
            Ok(()) => (self.failures_in_row, self.last_answer) = (0, settled.ended),
            Err(_) => self.failures_in_row = self.failures_in_row.saturating_add(1),
        }
        self.account.settle(settled);
        let (live, slot) = self.live;
        let begin = if self.plan.pacing == Pacing::Closed { settled.sent } else { settled.due };
        live.add(slot, settled.verdict, 1, settled.ended.saturating_sub(begin));
        live.set(slot, self.account.tally.ok, self.account.tally.failed());
    }

    /// Sleeps; `None` when the run was interrupted.
    fn wait_until(&self, due: Nanos) -> Option<()> {
        loop {
            let now = clock::now();
            if self.window.is_stopped() {
                return None;
            }
            if now >= due {
                return Some(());
            }
            std::thread::sleep(std::time::Duration::from_nanos((due - now).min(LOOK_EVERY)));
        }
    }
}

fn is_descriptor_shortage(number: i32) -> bool {
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].iter().any(|errno| errno.raw_os_error() == number)
}

/// Threads of this process. They wait at a lock until they may begin.
pub(super) struct Threads<'a> {
    window: &'a Window,
    live: &'a LiveStats,
    barred: Option<RwLockWriteGuard<'a, ()>>,
    news: Receiver<News>,
    collector: Option<Collector>,
}

/// What the threads share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    plan: &'a MqLoad,
    place: &'a Place,
    window: &'a Window,
    lengths: &'a Lengths,
    live: &'a LiveStats,
    log: Option<&'a Log>,
    gate: &'a RwLock<()>,
}

impl Crew for Threads<'_> {
    fn news(&self) -> &Receiver<News> {
        &self.news
    }

    fn live(&self) -> &LiveStats {
        self.live
    }

    fn go(&mut self, edges: Edges) {
        edges.tell(self.window);
        self.barred = None;
    }

    fn stop(&mut self) {
        self.window.stop(clock::now());
    }

    fn timeline(&mut self) -> Option<Timeline> {
        self.collector.take().and_then(Collector::finish)
    }
}

/// For a plan with a timeline.
pub(super) fn collector(plan: &MqLoad) -> Result<Option<Collector>, MqError> {
    plan.timeline.map(|width| Collector::start(clock::nanos(width))).transpose().map_err(MqError::Start)
}

/// Runs `conduct` with a thread for each client.
pub(super) fn with_threads<T>(
    plan: &MqLoad,
    log: Option<&Log>,
    conduct: impl FnOnce(&mut Threads<'_>) -> Result<T, MqError>,
) -> Result<T, MqError> {
    let place = Place::open(plan)?;
    let collector = collector(plan)?;
    let (window, lengths, live, gate) =
        (Window::default(), Lengths::of(plan), LiveStats::new(plan.clients), RwLock::new(()));
    let shared = Shared { plan, place: &place, window: &window, lengths: &lengths, live: &live, log, gate: &gate };
    let (sender, news) = channel();
    std::thread::scope(|scope| {
        let barred = gate.write();
        let mut crew = Threads { window: &window, live: &live, barred: Some(barred), news, collector };
        for index in 0..plan.clients {
            let (sender, slicer) = (sender.clone(), crew.collector.as_ref().map(Collector::slicer));
            let client = move || shared.be_a_thread(index, slicer, &sender);
            let spawned = std::thread::Builder::new().spawn_scoped(scope, client);
            if let Err(why) = spawned {
                // Those that have started end as soon as the gate opens.
                crew.stop();
                return Err(MqError::Start(why));
            }
        }
        drop(sender);
        conduct(&mut crew)
    })
}

impl Shared<'_> {
    fn be_a_thread(self, index: usize, slicer: Option<Slicer>, news: &Sender<News>) {
        let Self { plan, place, window, lengths, live, log, gate } = self;
        let prepared = Client::prepare(plan, place, window, lengths, index, (live, index), slicer);
        // Whoever conducts may have left after an error: then nobody listens, and the window is stopped.
        let _ = news.send(News::Ready);
        drop(gate.read());
        let mut report = prepared.map(|client| Box::new(client.run()));
        if let (Ok(report), Some(log)) = (&mut report, log)
            && let Some(kept) = report.kept.take()
        {
            log.add(index, kept);
        }
        let _ = news.send(News::Ended(report));
    }
}
