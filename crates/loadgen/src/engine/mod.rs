//! The engine: moves a protocol's bytes, keeps the time, counts.
//!
//! One thread per core and nothing shared between them but the window's edges. Each has its own edge-triggered epoll,
//! connections, histograms and schedule. A batch of requests costs one `recv` and one `send`; `EPOLLOUT` is armed only
//! for a socket that would not take a request. [`EngineKind::Uring`] does the same on a ring per thread: receives stay
//! armed, and what a turn of the loop has to send is submitted together.
//!
//! What is counted: in a closed loop with a duration, replies that arrive inside the window. Otherwise (a schedule, or
//! a number of requests) the requests that fall due inside the window, however late their replies are; the window then
//! closes with the last of them. A failure is counted in either case even if it shows only after the window, so that a
//! server that falls silent near the end cannot hide it.

mod backlog;
mod cpu;
mod endpoint;
mod kind;
mod live;
mod pace;
mod pause;
mod steady;
mod tally;
mod timeline;
mod tls;
mod window;
mod worker;

use std::{
    net::IpAddr,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use sys::affinity::Cpus;

pub(crate) use self::{
    backlog::Backlog,
    cpu::CpuWindow,
    pace::{Schedule, begin_of, share},
    timeline::{Collector, Slicer},
    window::Window,
};
pub use self::{
    cpu::CpuTime,
    endpoint::{Endpoint, EndpointError},
    kind::EngineKind,
    live::LiveReading,
    pace::{Arrivals, Limit, Pacing},
    pause::Pause,
    steady::WarmUp,
    tally::{LATENCY_NANOS_MAX, Tally},
    timeline::{Interval, Timeline},
    tls::{Tls, TlsError, Trust, advice as tls_advice},
    window::LiveStats,
};
use self::{
    steady::Steadiness,
    timeline::Slice,
    worker::{Place, Worker, WorkerReport, merge_logs},
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    protocol::ClientProtocol,
    request_log::RequestLog,
    usage::{ServerProbe, ServerReading},
};

/// How often the main thread looks at the interrupt flag and reports progress.
const OBSERVE_EVERY: Nanos = 50 * MILLISECOND;

/// What to do to the server.
#[derive(Clone, Debug)]
pub struct Load {
    pub connections: usize,
    /// At most one per connection.
    pub threads: usize,
    /// CPUs for the threads, round robin; empty leaves them where the scheduler puts them.
    pub pin: Cpus,
    /// Requests in flight on one connection.
    pub pipeline: usize,
    /// Requests that travel together: sent in one write, and followed by the next batch when all are answered.
    /// [`Self::pipeline`] is a multiple of it. In an open loop it is 1, since requests fall due one by one.
    pub batch: usize,
    pub reuse: Reuse,
    pub pacing: Pacing,
    pub limit: Limit,
    /// Of a closed loop: each connection behaves like one person.
    pub requestor: Option<Requestor>,
    /// Connections are opened evenly over this time, and the rate of an open loop grows linearly from 0. It is a part of
    /// [`Self::warmup`], which is never shorter.
    pub ramp: Duration,
    pub warmup: Duration,
    /// Goes on with the warm-up until no trend leads through five windows of 100 ms, at most this long (in whole windows).
    pub warmup_max: Option<Duration>,
    pub timeouts: Timeouts,
    /// Shortly before a request of the open loop falls due, look at the clock instead of sleeping.
    pub spin: bool,
    /// Also count by intervals of this length.
    pub timeline: Option<Duration>,
    pub engine: EngineKind,
    pub tls: Option<Tls>,
    /// TCP: the addresses that connections come from, in turn; empty leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// TCP: what is said first goes out with the SYN where the server has given a cookie for it.
    pub is_fast_open: bool,
    /// TCP: what the client closes is reset, and leaves nothing behind in TIME_WAIT.
    pub is_linger_zero: bool,
    /// Keep a log of requests, of which this many are a sample of all.
    pub request_log: Option<usize>,
    pub seed: u64,
}

impl Load {
    fn longest_warm_up(&self) -> Nanos {
        let most = self.warmup_max.map(|most| steady::whole(clock::nanos(most.max(self.warmup))).max(steady::WIDTH));
        most.unwrap_or_else(|| clock::nanos(self.warmup))
    }
}

/// How long to wait for a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// For a connection attempt, TLS included.
    pub connect: Duration,
    /// For the first byte of a reply, from the sending of its request.
    pub first_byte: Option<Duration>,
    /// For the last byte of it.
    pub total: Duration,
}

impl Timeouts {
    fn shortest(self) -> Duration {
        self.connect.min(self.total).min(self.first_byte.unwrap_or(self.total))
    }
}

/// What a connection is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reuse {
    /// As many requests as the server will answer on it.
    Keep,
    /// One batch. The client closes it after the last reply, if the server has not, and latency counts from the attempt
    /// to connect. In an open loop that is made when the request falls due.
    Once,
}

/// What one connection does in a run: so many requests one after the other, with a pause behind each. A connection that
/// fails has had its turn. [`Load::limit`] is the number of requests of all connections, and [`Load::pipeline`] 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requestor {
    pub reps: u64,
    pub pause: Pause,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot set up an epoll instance: {0}")]
    Epoll(rustix::io::Errno),
    #[error("cannot pin a thread to one of the CPUs {cpus}: {why}")]
    Pin { cpus: Cpus, why: std::io::Error },
    #[error("cannot wait for events (epoll_pwait2 needs Linux 5.11): {0}")]
    Wait(rustix::io::Errno),
    #[error(
        "cannot set up an io_uring: {0} (it needs Linux 6.1, and a sysctl or a seccomp filter may forbid it; \
         --engine epoll needs none)"
    )]
    Ring(std::io::Error),
    #[error("cannot wait on the io_uring: {0}")]
    RingWait(std::io::Error),
    #[error("a generator thread panicked")]
    Panicked,
}

/// What the engine saw.
#[derive(Debug, Default)]
pub struct Measured<P> {
    pub warm_up: WarmUp,
    /// When the window was opened.
    pub opened: Nanos,
    pub window: Duration,
    pub tally: Tally,
    /// If [`Load::timeline`] asked for it.
    pub timeline: Option<Timeline>,
    /// If [`Load::request_log`] asked for it.
    pub request_log: Option<RequestLog>,
    pub client_cpu: Duration,
    /// Of [`Self::client_cpu`]: in the kernel.
    pub client_system_cpu: Duration,
    /// CPU time of the busiest thread in the window.
    pub busiest_thread_cpu: Duration,
    pub threads: usize,
    /// Requests that may be under way at once.
    pub lanes: usize,
    /// The server at both edges of the window, if it could be read.
    pub server: Option<(ServerReading, ServerReading)>,
    pub was_interrupted: bool,
    /// The engine gave up before the limit, because the server had not answered for long.
    pub was_abandoned: bool,
    /// The protocols as the threads left them.
    pub protocols: Vec<P>,
}

impl<P> Measured<P> {
    /// Adds another run's counts and times, but not what the server used.
    pub fn absorb(&mut self, other: &Self) {
        self.warm_up.absorb(other.warm_up);
        self.window += other.window;
        self.tally.merge(&other.tally);
        (self.timeline, self.request_log) = (None, None);
        self.client_cpu += other.client_cpu;
        self.client_system_cpu += other.client_system_cpu;
        self.busiest_thread_cpu += other.busiest_thread_cpu;
        self.server = None;
        self.was_interrupted |= other.was_interrupted;
        self.was_abandoned |= other.was_abandoned;
    }
}

/// Drives `endpoint` until the limit, or until `interrupt` is set, and reports progress to `observe`.
pub fn run<P: ClientProtocol>(
    endpoint: &Endpoint,
    load: &Load,
    make_protocol: impl Fn(usize) -> P,
    server: Option<&ServerProbe>,
    interrupt: &AtomicBool,
    mut observe: impl FnMut(&LiveStats),
) -> Result<Measured<P>, EngineError> {
    let threads = load.threads.clamp(1, load.connections.max(1));
    let window = Window::default();
    let live = LiveStats::new(threads);
    let barrier = Barrier::new(threads + 1);
    let (done_sender, done) = channel();
    let (slices, timeline) = (channel(), load.timeline.map(|width| Timeline::new(clock::nanos(width))));
    // Best effort: without it the edges of the window are late by the default slack of 50 µs.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));

    std::thread::scope(|scope| {
        let (window, live, barrier) = (&window, &live, &barrier);
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let protocol = make_protocol(thread);
                let (done, slices) = (done_sender.clone(), slices.0.clone());
                scope.spawn(move || {
                    let prepared =
                        Worker::prepare(&Place { endpoint, load, window, live, thread, threads }, protocol, slices);
                    if prepared.is_err() {
                        window.stop(0);
                    }
                    barrier.wait();
                    barrier.wait();
                    let report = prepared.and_then(Worker::run);
                    // The receiver lives until every thread is joined.
                    let _ = done.send(());
                    report
                })
            })
            .collect();
        drop(done_sender);
        barrier.wait();
        let slices = &slices.1;
        let conductor = Conductor { load, window, live, interrupt, done: &done, running: threads, slices, timeline };
        let course = conductor.conduct(barrier, server, &mut observe);
        let reports = handles.into_iter().map(|handle| handle.join().map_err(|_| EngineError::Panicked)?);
        let reports = reports.collect::<Result<Vec<_>, _>>()?;
        let lanes = load.connections.saturating_mul(load.pipeline);
        Ok(Measured { lanes, ..merge(course, slices, reports, load.request_log) })
    })
}

/// The main thread's part: the edges of the window, and the readings that belong exactly there.
struct Conductor<'a> {
    load: &'a Load,
    window: &'a Window,
    live: &'a LiveStats,
    interrupt: &'a AtomicBool,
    done: &'a Receiver<()>,
    /// Threads that have not finished.
    running: usize,
    slices: &'a Receiver<Box<Slice>>,
    timeline: Option<Timeline>,
}

struct Course {
    warm_up: WarmUp,
    opened: Nanos,
    window: Nanos,
    timeline: Option<Timeline>,
    server: Option<(ServerReading, ServerReading)>,
    was_interrupted: bool,
}

impl Conductor<'_> {
    fn conduct(
        mut self,
        barrier: &Barrier,
        server: Option<&ServerProbe>,
        observe: &mut impl FnMut(&LiveStats),
    ) -> Course {
        let read_before = || server.and_then(|server| server.read_before().ok());
        let (before, start);
        let mut warm_up = WarmUp::default();
        if self.load.warmup.is_zero() && self.load.warmup_max.is_none() {
            before = read_before();
            start = clock::now();
            self.window.set_origin(start);
            self.window.open(start);
            barrier.wait();
        } else {
            let origin = clock::now();
            self.window.set_origin(origin);
            barrier.wait();
            warm_up.is_steady = self.warm_up(origin, observe);
            before = read_before();
            start = clock::now();
            self.window.open(start);
            warm_up.duration = start - origin;
        }
        match (self.load.limit, self.load.pacing) {
            (Limit::Duration(duration), Pacing::Closed) => {
                self.wait_until(start.saturating_add(clock::nanos(duration)), observe);
                self.window.close(clock::now());
            }
            (Limit::Duration(duration), Pacing::Open { .. }) => {
                self.window.close(start.saturating_add(clock::nanos(duration)));
                self.wait_until(Nanos::MAX, observe);
            }
            (Limit::Requests(_), _) => self.wait_until(Nanos::MAX, observe),
        }
        let end = clock::now();
        let after = server.and_then(|server| server.read_after().ok());
        // Let requests in flight end, in bounded time, so that their failures are seen.
        self.wait_until(Nanos::MAX, observe);
        let was_interrupted = self.interrupt.load(Ordering::Relaxed);
        Course {
            warm_up,
            opened: start,
            window: end - start,
            timeline: self.timeline,
            server: before.zip(after),
            was_interrupted,
        }
    }

    /// Returns when the measured window may be opened, and whether the load was steady then, if that was the question.
    fn warm_up(&mut self, origin: Nanos, observe: &mut impl FnMut(&LiveStats)) -> Option<bool> {
        let least = origin.saturating_add(clock::nanos(self.load.warmup));
        if self.load.warmup_max.is_none() {
            self.wait_until(least, observe);
            return None;
        }
        let most = self.load.longest_warm_up();
        let mut steadiness = Steadiness::default();
        let (mut before, mut read_at) = (LiveReading::default(), origin);
        let mut passed = 0;
        loop {
            passed += steady::WIDTH;
            self.wait_until(origin + passed, observe);
            let (reading, now) = (self.live.read(), clock::now());
            let window = steady::Window::of(&reading.since(&before), now.saturating_sub(read_at), self.load.pacing);
            let is_steady = steadiness.push(window);
            (before, read_at) = (reading, now);
            let may_end = origin + passed >= least && is_steady;
            if may_end || passed >= most || self.running == 0 || self.interrupt.load(Ordering::Relaxed) {
                if let Some(timeline) = &mut self.timeline {
                    timeline.end_warm_up_early(most - passed);
                }
                return Some(may_end);
            }
        }
    }

    /// Returns at `deadline`, or when every thread has finished, or right after an interrupt.
    fn wait_until(&mut self, deadline: Nanos, observe: &mut impl FnMut(&LiveStats)) {
        while self.running > 0 {
            if self.interrupt.load(Ordering::Relaxed) {
                self.window.stop(clock::now());
                return;
            }
            let now = clock::now();
            if now >= deadline {
                return;
            }
            self.collect();
            match self.done.recv_timeout(Duration::from_nanos((deadline - now).min(OBSERVE_EVERY))) {
                Ok(()) => self.running -= 1,
                Err(RecvTimeoutError::Timeout) => observe(self.live),
                Err(RecvTimeoutError::Disconnected) => self.running = 0,
            }
        }
    }

    /// Reads the slices that have come.
    fn collect(&mut self) {
        if let Some(timeline) = &mut self.timeline {
            self.slices.try_iter().for_each(|slice| timeline.absorb(slice));
        }
    }
}

fn merge<P: ClientProtocol>(
    course: Course,
    rest: &Receiver<Box<Slice>>,
    mut reports: Vec<WorkerReport<P>>,
    log_size: Option<usize>,
) -> Measured<P> {
    let request_log = log_size.map(|size| merge_logs(size, course.opened, &mut reports));
    let mut measured = Measured {
        warm_up: course.warm_up,
        opened: course.opened,
        window: Duration::from_nanos(course.window),
        tally: Tally::new(),
        timeline: course.timeline,
        request_log,
        client_cpu: Duration::ZERO,
        client_system_cpu: Duration::ZERO,
        busiest_thread_cpu: Duration::ZERO,
        threads: reports.len(),
        lanes: 1,
        server: course.server,
        was_interrupted: course.was_interrupted,
        was_abandoned: false,
        protocols: Vec::with_capacity(reports.len()),
    };
    if let Some(timeline) = &mut measured.timeline {
        rest.try_iter().for_each(|slice| timeline.absorb(slice));
    }
    for report in reports {
        let cpu = Duration::from_nanos(report.cpu.total);
        measured.tally.merge(&report.tally);
        measured.client_cpu += cpu;
        measured.client_system_cpu += Duration::from_nanos(report.cpu.system);
        measured.busiest_thread_cpu = measured.busiest_thread_cpu.max(cpu);
        measured.was_abandoned |= report.was_abandoned;
        measured.protocols.push(report.protocol);
    }
    measured
}
