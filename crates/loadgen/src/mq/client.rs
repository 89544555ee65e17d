//! One client: it sends one request after the other until the limit.

use std::sync::{
    Arc,
    mpsc::{Receiver, Sender, channel},
};

use parking_lot::{RwLock, RwLockWriteGuard};
use sys::{
    fifo::Directory,
    mqueue::{Access, Queue, QueueError, QueueName},
};
use wire::mserve::Request;

use super::{
    MqError,
    coordinator::{ClientEvent, Clients, Edges},
    directory,
    exchange::Exchange,
    fifo::Fifo,
    load::{MqLoad, ReplyForm},
    log::Log,
    recorder::{ClientRecorder, ClientReport, CompletedRequest, FailureDetail},
    reply::{IncomingReply, Lengths},
    sink::ReplyReader,
};
use crate::{
    clock::{self, MILLISECOND, Nanos, SECOND},
    engine::{Collector, Limit, LiveStats, Pacing, Schedule, Slicer, Timeline, Window, begin_of, share},
    error::ErrorClass,
    protocol::RequestOutcome,
    request_log::{Received, Recorder},
    sample::Sampler,
};

/// Without any reply for this long, and with failures only, a client gives up.
const PATIENCE_MIN: Nanos = 10 * SECOND;
const FAILURES_MAX: u32 = 3;
/// Interval at which a client that sleeps checks whether the run was interrupted.
const POLL_INTERVAL: Nanos = 50 * MILLISECOND;
/// Limit of the digits of a client's number, and of a request's.
const NUMBER_DIGITS: usize = 20;

/// Queue and directory of the clients.
pub(super) struct ClientResources {
    queue: Queue,
    directory: Directory,
}

impl ClientResources {
    pub(super) fn open(plan: &MqLoad) -> Result<Self, MqError> {
        let failed = |why: String| MqError::Queue { name: plan.queue.clone(), why };
        let name: QueueName = plan.queue.parse().map_err(|error| failed(format!("{error}")))?;
        let queue = Queue::open(&name, Access::Send).map_err(|error| {
            let advice = if matches!(error, QueueError::Missing) { "; is a server running on it?" } else { "" };
            failed(format!("{error}{advice}"))
        })?;
        let directory = directory::open(&plan.fifo_directory, plan.sharing)?;
        Ok(Self { queue, directory })
    }
}

/// Checks that every request fits into a message of the queue.
pub(super) fn check(plan: &MqLoad) -> Result<(), MqError> {
    let resources = ClientResources::open(plan)?;
    let names = if plan.form == ReplyForm::Status { 2 } else { 1 };
    let name = 1 + plan.prefix.len() + 2 * NUMBER_DIGITS + 2;
    let path = plan.files.iter().map(|requested| requested.path.len()).max().unwrap_or_default();
    let (need, max) = (path + names * name, resources.queue.size().message_bytes_max);
    if need > max {
        return Err(MqError::MessageSize { need, max });
    }
    Ok(())
}

/// One client.
pub(super) struct Client<'a> {
    plan: &'a MqLoad,
    resources: &'a ClientResources,
    window: &'a Window,
    /// Live statistics, and the client's place in them.
    live: (&'a LiveStats, usize),
    lengths: &'a Lengths,
    sampler: Sampler,
    index: usize,
    reply_reader: ReplyReader,
    recorder: ClientRecorder<'a>,
    /// Requests that may still be sent; `None` if time is the limit.
    quota: Option<u64>,
    /// Number of FIFOs that have been made.
    made: u64,
    /// The file that is asked for next.
    file: usize,
    last_reply: Nanos,
    failures_in_row: u32,
}

/// Bytes that came, the outcome, and what more is known of a failure.
type ExchangeEnd = (Received, RequestOutcome, Option<FailureDetail>);

/// The FIFOs of one request.
struct Fifos<'a> {
    data: Fifo<'a>,
    status: Option<Fifo<'a>>,
}

impl<'a> Client<'a> {
    /// Everything that can fail or takes time, before the clock starts.
    pub(super) fn prepare(
        plan: &'a MqLoad,
        resources: &'a ClientResources,
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
            resources,
            window,
            live,
            lengths,
            sampler: Sampler::new(plan.sample, plan.seed, index),
            index,
            reply_reader: ReplyReader::new(plan)?,
            recorder: ClientRecorder::new(window, plan.pacing != Pacing::Closed, plan.counts_by_issue())
                .with(slicer, recorder),
            quota,
            made: 0,
            file: index % plan.files.len(),
            last_reply: 0,
            failures_in_row: 0,
        })
    }

    /// Sends requests until the limit, an interrupt, or a server that has not answered for long.
    pub(super) fn run(mut self) -> ClientReport {
        let (begin, mut schedule) = self.start_and_schedule();
        self.last_reply = begin;
        let patience = PATIENCE_MIN.max(clock::nanos(self.plan.timeout).saturating_mul(3));
        let mut was_abandoned = false;
        while !self.window.is_stopped() {
            if let Some(turns) = self.plan.turns.as_ref().filter(|turns| !turns.is_open()) {
                turns.rest();
                continue;
            }
            let now = clock::now().max(begin);
            let due = schedule.as_ref().map_or(now, Schedule::due);
            was_abandoned = self.failures_in_row > FAILURES_MAX && now.saturating_sub(self.last_reply) > patience;
            if was_abandoned || self.window.has_ended(due) || self.quota == Some(0) || self.ask(due).is_none() {
                break;
            }
            if let Some(schedule) = &mut schedule {
                schedule.advance();
            }
        }
        self.recorder.close(was_abandoned)
    }

    /// Returns when this client begins, and in an open loop its schedule, which alone has the ramp there.
    fn start_and_schedule(&self) -> (Nanos, Option<Schedule>) {
        let MqLoad { seed, clients, pacing, .. } = *self.plan;
        let (origin, ramp) = (self.window.origin(), clock::nanos(self.plan.ramp));
        match pacing {
            Pacing::Open { rate, arrivals } => {
                let schedule = Schedule::new(arrivals, rate, ramp, origin, seed, self.index, clients);
                let schedule = match &self.plan.timetable {
                    Some(timetable) => schedule.following(Arc::new(timetable.clone()), clock::nanos(self.plan.warmup)),
                    None => schedule,
                };
                (origin, Some(schedule))
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
        let run_deadline = self.window.end().saturating_add(timeout);
        // It has waited for this client to be free as long as anything may take.
        if free >= due.saturating_add(timeout) || free >= run_deadline {
            let (outcome, received) = (Err(ErrorClass::NotSent), Received::default());
            self.recorder.record_departure(due, free);
            self.settle(CompletedRequest {
                file,
                due,
                free,
                sent: free,
                was_tried: false,
                received,
                ended: free,
                outcome,
                detail: None,
            });
            return Some(());
        }
        let fifos = self.fifos();
        self.wait_until(due)?;
        let sent = clock::now();
        self.recorder.record_departure(due, sent);
        let was_tried = fifos.is_ok();
        let (received, outcome, detail) = match fifos {
            Ok(fifos) => self.exchange(&fifos, file, (sent + timeout).min(run_deadline))?,
            Err((class, detail)) => (Received::default(), Err(class), detail),
        };
        let ended = clock::now();
        self.settle(CompletedRequest { file, due, free, sent, was_tried, received, ended, outcome, detail });
        Some(())
    }

    fn fifos(&mut self) -> Result<Fifos<'a>, (ErrorClass, Option<FailureDetail>)> {
        let mut make = || {
            let name = format!("{}{}-{}", self.plan.prefix, self.index, self.made);
            self.made += 1;
            Fifo::make(&self.resources.directory, name).map_err(|error| match error.raw_os_error() {
                Some(number) if is_descriptor_shortage(number) => (ErrorClass::FdLimit, None),
                number => (ErrorClass::Fifo, number.map(FailureDetail::System)),
            })
        };
        let data = make()?;
        let status = if self.plan.form == ReplyForm::Status { Some(make()?) } else { None };
        Ok(Fifos { data, status })
    }

    fn exchange(&mut self, fifos: &Fifos<'_>, file: usize, deadline: Nanos) -> Option<ExchangeEnd> {
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
            Err(_) => return Some((Received::default(), Err(ErrorClass::WriteError), None)),
        }
        let mut exchange = Exchange {
            window: self.window,
            recorder: &mut self.recorder,
            reply_reader: &mut self.reply_reader,
            data: &fifos.data.reader,
            status: status.map(|fifo| &fifo.reader),
            deadline,
            received: Received::default(),
            refusal: None,
        };
        let reply = IncomingReply::new(self.plan, file, self.lengths, self.sampler.draw());
        let outcome = exchange.run(&self.resources.queue, &message, reply)?;
        Some((exchange.received, outcome, exchange.refusal.map(FailureDetail::Refused)))
    }

    fn settle(&mut self, completed: CompletedRequest) {
        match completed.outcome {
            Ok(()) => (self.failures_in_row, self.last_reply) = (0, completed.ended),
            Err(_) => self.failures_in_row = self.failures_in_row.saturating_add(1),
        }
        self.recorder.settle(completed);
        let (live, slot) = self.live;
        let begin = if self.plan.pacing == Pacing::Closed { completed.sent } else { completed.due };
        live.add(slot, completed.outcome, 1, completed.ended.saturating_sub(begin));
        live.set(slot, self.recorder.tally.ok, self.recorder.tally.failed());
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
            std::thread::sleep(std::time::Duration::from_nanos((due - now).min(POLL_INTERVAL)));
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
    start_guard: Option<RwLockWriteGuard<'a, ()>>,
    events: Receiver<ClientEvent>,
    collector: Option<Collector>,
}

/// State that the threads share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    plan: &'a MqLoad,
    resources: &'a ClientResources,
    window: &'a Window,
    lengths: &'a Lengths,
    live: &'a LiveStats,
    log: Option<&'a Log>,
    start_lock: &'a RwLock<()>,
}

impl Clients for Threads<'_> {
    fn events(&self) -> &Receiver<ClientEvent> {
        &self.events
    }

    fn live(&self) -> &LiveStats {
        self.live
    }

    fn start(&mut self, edges: Edges) {
        edges.apply(self.window);
        self.start_guard = None;
    }

    fn stop(&mut self) {
        self.window.stop(clock::now());
    }

    fn timeline(&mut self) -> Option<Timeline> {
        self.collector.take().and_then(Collector::finish)
    }
}

/// Starts a collector, if the load has a timeline.
pub(super) fn collector(plan: &MqLoad) -> Result<Option<Collector>, MqError> {
    plan.timeline.map(|width| Collector::start(clock::nanos(width))).transpose().map_err(MqError::Start)
}

/// Runs `coordinate` with a thread for each client.
pub(super) fn with_threads<T>(
    plan: &MqLoad,
    log: Option<&Log>,
    coordinate: impl FnOnce(&mut Threads<'_>) -> Result<T, MqError>,
) -> Result<T, MqError> {
    let resources = ClientResources::open(plan)?;
    let collector = collector(plan)?;
    let (window, lengths, live, start_lock) =
        (Window::default(), Lengths::of(plan), LiveStats::new(plan.clients), RwLock::new(()));
    let shared = Shared {
        plan,
        resources: &resources,
        window: &window,
        lengths: &lengths,
        live: &live,
        log,
        start_lock: &start_lock,
    };
    let (sender, events) = channel();
    std::thread::scope(|scope| {
        let start_guard = start_lock.write();
        let mut clients = Threads { window: &window, live: &live, start_guard: Some(start_guard), events, collector };
        for index in 0..plan.clients {
            let (sender, slicer) = (sender.clone(), clients.collector.as_ref().map(Collector::slicer));
            let client = move || shared.run_client_thread(index, slicer, &sender);
            let spawned = std::thread::Builder::new().spawn_scoped(scope, client);
            if let Err(why) = spawned {
                // Those that have started end as soon as the start lock opens.
                clients.stop();
                return Err(MqError::Start(why));
            }
        }
        drop(sender);
        coordinate(&mut clients)
    })
}

impl Shared<'_> {
    fn run_client_thread(self, index: usize, slicer: Option<Slicer>, events: &Sender<ClientEvent>) {
        let Self { plan, resources, window, lengths, live, log, start_lock } = self;
        let prepared = Client::prepare(plan, resources, window, lengths, index, (live, index), slicer);
        // The coordinator may have left after an error: then there is no receiver, and the window is stopped.
        let _ = events.send(ClientEvent::Ready);
        drop(start_lock.read());
        let mut report = prepared.map(|client| Box::new(client.run()));
        if let (Ok(report), Some(log)) = (&mut report, log)
            && let Some(kept) = report.kept.take()
        {
            log.add(index, kept);
        }
        let _ = events.send(ClientEvent::Ended(report));
    }
}
