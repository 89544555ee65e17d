//! The engine: it moves a protocol's bytes, keeps the time, and counts.
//!
//! One thread per core and nothing shared between them but the window's edges. Each has its own edge-triggered epoll,
//! connections, histograms and schedule. A batch of requests costs one `recv` and one `send`; `EPOLLOUT` is armed only
//! for a socket that would not take a request. [`EngineKind::Uring`] does the same on a ring per thread: receives stay
//! armed, and all sends of one wake-up are submitted together.
//!
//! In a closed loop with a duration, replies that arrive inside the window are counted. Otherwise (with a schedule, or
//! a number of requests) the requests that fall due inside the window are counted, however late their replies are, and
//! the window closes with the last of them. In either case a failure is counted even if it shows only after the window,
//! so that a server that falls silent near the end cannot hide it.

mod backlog;
mod cpu;
mod endpoint;
mod error;
mod kind;
mod live;
mod load;
mod measured;
mod pace;
mod pause;
mod skew;
mod steady;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;
mod timetable;
mod tls;
mod turns;
mod window;
mod worker;

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use parking_lot::RwLock;

pub(crate) use self::{
    backlog::Backlog,
    cpu::CpuWindow,
    pace::{Schedule, begin_of, share},
    timeline::{Collector, Slicer},
    turns::TurnProgress,
    window::Window,
};
pub use self::{
    cpu::CpuTime,
    endpoint::{Endpoint, EndpointError},
    error::EngineError,
    kind::EngineKind,
    live::{LiveReading, LiveStats},
    load::{Lifetime, Load, Requestor, Reuse, Timeouts},
    measured::Measured,
    pace::{Arrivals, Limit, Pacing},
    pause::Pause,
    skew::Skew,
    steady::WarmUp,
    tally::{LATENCY_NANOS_MAX, Tally},
    timeline::{Interval, Timeline},
    timetable::{Phase, RateProfile, Shape, Timetable},
    tls::{Agreed, Tls, TlsError, TlsOptions, Trust, tls_advice},
    turns::{TurnOrder, TurnReport, Turns},
};
use self::{
    steady::Steadiness,
    timeline::Slice,
    worker::{Thread, ThreadReport, Worker, merge_logs},
};
use crate::{
    clock::{self, MILLISECOND, Nanos},
    protocol::ClientProtocol,
    usage::{ServerProbe, ServerReading},
};

/// Interval at which the main thread checks the interrupt flag and reports progress.
const OBSERVE_INTERVAL: Nanos = 50 * MILLISECOND;

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
    // Nobody closes a connection before the readings are taken: what closing costs the server is no part of the window.
    let closing = RwLock::new(());
    // Best effort: without it the edges of the window are late by the default slack of 50 µs.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));

    std::thread::scope(|scope| {
        let (window, live, barrier, closing) = (&window, &live, &barrier, &closing);
        let until_readings = closing.write();
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let protocol = make_protocol(thread);
                let (done, slices) = (done_sender.clone(), slices.0.clone());
                let thread = Thread { endpoint, load, window, live, index: thread, threads };
                scope.spawn(move || {
                    let prepared = Worker::prepare(thread, protocol, slices);
                    if prepared.is_err() {
                        window.stop(0);
                    }
                    barrier.wait();
                    barrier.wait();
                    let at_end = move || {
                        // The receiver lives until every thread is joined.
                        let _ = done.send(());
                        drop(done);
                        drop(closing.read());
                    };
                    match prepared {
                        Ok(worker) => worker.run(at_end),
                        Err(error) => {
                            at_end();
                            Err(error)
                        }
                    }
                })
            })
            .collect();
        drop(done_sender);
        barrier.wait();
        let slices = &slices.1;
        let coordinator =
            Coordinator { load, window, live, interrupt, done: &done, running: threads, slices, timeline };
        let readings = coordinator.run(barrier, server, &mut observe);
        drop(until_readings);
        let reports = handles.into_iter().map(|handle| handle.join().map_err(|_| EngineError::Panicked)?);
        let reports = reports.collect::<Result<Vec<_>, _>>()?;
        let concurrency = load.connections.saturating_mul(load.pipeline);
        Ok(Measured { concurrency, ..merge(readings, slices, reports, load.request_log) })
    })
}

/// Main thread's part: it sets the edges of the window, and takes the readings that belong exactly there.
struct Coordinator<'a> {
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

struct RunReadings {
    warm_up: WarmUp,
    opened: Nanos,
    window: Nanos,
    timeline: Option<Timeline>,
    server: Option<(ServerReading, ServerReading)>,
    was_interrupted: bool,
}

impl Coordinator<'_> {
    fn run(
        mut self,
        barrier: &Barrier,
        server: Option<&ServerProbe>,
        observe: &mut impl FnMut(&LiveStats),
    ) -> RunReadings {
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
            // The window of a timetable is where that has it, however late this thread wakes up.
            let planned = origin.saturating_add(clock::nanos(self.load.warmup));
            let planned = self.load.timetable.is_some().then_some(planned);
            if let Some(start) = planned {
                self.window.open(start);
            }
            barrier.wait();
            warm_up.is_steady = self.warm_up(origin, observe);
            before = read_before();
            start = planned.unwrap_or_else(clock::now);
            self.window.open(start);
            warm_up.duration = start - origin;
        }
        match (self.load.limit, self.load.pacing) {
            (Limit::Duration(duration), Pacing::Closed) => {
                let end = start.saturating_add(clock::nanos(duration));
                match &self.load.turns {
                    Some(turns) => self.take_turns(turns, end, observe),
                    None => self.wait_until(end, observe),
                }
                self.window.close(clock::now());
                if let Some(turns) = &self.load.turns {
                    turns.end();
                }
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
        RunReadings {
            warm_up,
            opened: start,
            window: end - start,
            timeline: self.timeline,
            server: before.zip(after),
            was_interrupted,
        }
    }

    /// Waits until the measured window may be opened. Returns true if the load was steady then, with all its connections;
    /// `None` if the warm-up has a fixed length.
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
            let window =
                steady::WindowFigures::new(&reading.since(&before), now.saturating_sub(read_at), self.load.pacing);
            let is_steady = steadiness.push(window);
            (before, read_at) = (reading, now);
            // It takes thousands of connections a while to open, and the server CPU time.
            let is_connected = self.load.reuse == Reuse::Once || self.live.opened() >= self.load.connections as u64;
            let may_end = origin + passed >= least && is_steady && is_connected;
            if may_end || passed >= most || self.running == 0 || self.interrupt.load(Ordering::Relaxed) {
                if let Some(timeline) = &mut self.timeline {
                    timeline.end_warm_up_early(most - passed);
                }
                return Some(may_end);
            }
        }
    }

    /// Carries out the orders, until `deadline`, the end of every thread, or an interrupt.
    fn take_turns(&mut self, turns: &Turns, deadline: Nanos, observe: &mut impl FnMut(&LiveStats)) {
        let mut progress = TurnProgress::new(self.live);
        while progress.step(turns, self.live, self.running, Duration::from_nanos(OBSERVE_INTERVAL)).is_continue() {
            self.running -= self.done.try_iter().count();
            if self.interrupt.load(Ordering::Relaxed) {
                self.window.stop(clock::now());
            }
            observe(self.live);
            if self.running == 0 || self.window.is_stopped() || clock::now() >= deadline {
                return;
            }
        }
    }

    /// Waits for `deadline`, for the end of every thread, or for an interrupt.
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
            match self.done.recv_timeout(Duration::from_nanos((deadline - now).min(OBSERVE_INTERVAL))) {
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
    readings: RunReadings,
    rest: &Receiver<Box<Slice>>,
    mut reports: Vec<ThreadReport<P>>,
    log_size: Option<usize>,
) -> Measured<P> {
    let request_log = log_size.map(|size| merge_logs(size, readings.opened, &mut reports));
    let mut measured = Measured {
        warm_up: readings.warm_up,
        opened: readings.opened,
        window: Duration::from_nanos(readings.window),
        tally: Tally::new(),
        timeline: readings.timeline,
        request_log,
        client_cpu: Duration::ZERO,
        client_system_cpu: Duration::ZERO,
        busiest_thread_cpu: Duration::ZERO,
        threads: reports.len(),
        concurrency: 1,
        connections_opened: reports.iter().map(|report| report.connections_opened).sum(),
        server: readings.server,
        was_interrupted: readings.was_interrupted,
        was_abandoned: false,
        protocols: Vec::with_capacity(reports.len()),
        bodies: Vec::new(),
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
