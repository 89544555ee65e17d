//! SIGTERM, SIGINT, SIGQUIT and what the protocol asks for itself: drain at the first, stop at the second signal, and
//! never later than the drain timeout.

use std::{
    fmt, mem, process,
    sync::{Arc, mpsc},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use drivers::{Loop, Registration, Shutdown};
use parking_lot::{Mutex, MutexGuard};
use sys::{
    listen::ListenerHandle,
    signals::{Meaning, ServerSignal, ServerSignals},
};

use crate::{
    LineWriter,
    hooks::{RunningHooks, SignalHooks},
    manager::Manager,
    output,
};

/// A signal that follows the first one sooner is the same wish: timeout(1) sends it to the process and to its group.
const REPEAT_MIN: Duration = Duration::from_millis(100);
/// Time that lines have to be written at the end.
const LINES_PATIENCE: Duration = Duration::from_secs(1);

/// Stops a server from within: the same drain that SIGTERM begins, with the same timeout and the same exit status, 0.
#[derive(Clone, Debug)]
pub struct Stop {
    shutdown: Shutdown,
    asked: mpsc::Sender<()>,
    manager: Manager,
}

impl Stop {
    pub(crate) fn new(manager: Manager) -> (Self, mpsc::Receiver<()>) {
        let (asked, stopped) = mpsc::channel();
        (Self { shutdown: Shutdown::default(), asked, manager }, stopped)
    }

    /// Begins the drain and returns at once: connections that are idle are closed, what has arrived is answered. `why`
    /// is for the log. May be called by a protocol, on any thread, more than once.
    pub fn drain(&self, why: impl fmt::Display) {
        tracing::info!("{why}: draining");
        self.manager.stopping();
        let _ = self.asked.send(()); // Nobody listens any more: it is past that.
        self.shutdown.drain();
    }

    /// Accepts no more connections, which another process does, and lets those there are come to their end.
    pub(crate) fn retire(&self) {
        self.shutdown.retire();
    }

    /// Registers a loop of the server's own that takes requests, which is asked for signs of life.
    pub fn register_loop(&self, waker: Waker) -> Loop {
        self.shutdown.register_loop(waker)
    }

    pub fn is_draining(&self) -> bool {
        self.shutdown.is_draining()
    }

    /// Wakes `waker` when the drain begins, until what is returned is dropped. Ask [`Stop::is_draining`] afterwards:
    /// it may have begun before.
    pub fn on_drain(&self, waker: Waker) -> OnDrain {
        OnDrain(self.shutdown.register(waker))
    }

    pub(crate) fn manager(&self) -> &Manager {
        &self.manager
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}

/// See [`Stop::on_drain`].
#[derive(Debug)]
pub struct OnDrain(#[expect(dead_code, reason = "dropping it is what ends it")] Registration);

type FinalAction = Box<dyn FnOnce() -> anyhow::Result<()> + Send>;
/// Action at the second signal.
pub(crate) type AtOnce = Box<dyn FnOnce() + Send>;

/// Action that is run once at the end: by the thread that served, or else when the drain takes too long.
#[derive(Clone, Default)]
pub(crate) struct AtEnd(Arc<Mutex<End>>);

#[derive(Default)]
struct End {
    last: Vec<FinalAction>,
    begun: bool,
    lines: Vec<LineWriter>,
}

impl End {
    /// Does what is to be done last, of which nothing is left then.
    fn run(last: Vec<FinalAction>, lines: Vec<LineWriter>) -> anyhow::Result<()> {
        // Each is run whatever became of those before it; the first error is that of all.
        let outcome = last.into_iter().map(|last| last()).fold(Ok(()), anyhow::Result::and);
        lines.iter().for_each(|lines| lines.finish(LINES_PATIENCE));
        outcome
    }
}

impl AtEnd {
    pub(crate) fn push(&self, last: impl FnOnce() -> anyhow::Result<()> + Send + 'static) {
        self.0.lock().last.push(Box::new(last));
    }

    /// Waits at the end until the lines are written.
    pub(crate) fn finish_lines(&self, lines: LineWriter) {
        self.0.lock().lines.push(lines);
    }

    /// The drain has ended. Never returns when it took too long.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut end = self.0.lock();
        end.begun = true;
        let (last, lines) = (mem::take(&mut end.last), mem::take(&mut end.lines));
        drop(end); // However long this takes, it is not the drain that does.
        End::run(last, lines)
    }

    /// Keeps the thread that served from ending the process, unless it has begun to, for as long as what is returned lives.
    fn hold(&self) -> Option<MutexGuard<'_, End>> {
        self.0.try_lock()
    }

    /// Ends the process after a drain that takes too long, unless the thread that served has begun to.
    fn run_and_exit(&self, drain_timeout: Duration, sockets: &[ListenerHandle]) {
        let mut end = self.0.lock();
        if end.begun {
            return;
        }
        tracing::warn!("connections still open after the drain timeout of {drain_timeout:?} are cut off");
        let outcome = End::run(mem::take(&mut end.last), mem::take(&mut end.lines));
        if let Err(error) = &outcome {
            output::to_stderr(format_args!("error: {}", output::chain(error)));
        }
        remove_and_exit(sockets, i32::from(outcome.is_err()))
    }
}

/// Sees to it that the server ends, and obeys its other signals meanwhile.
pub(crate) struct Watch {
    stop: Stop,
    drain_timeout: Duration,
    sockets: Vec<ListenerHandle>,
    at_end: AtEnd,
    at_once: Vec<AtOnce>,
    hooks: SignalHooks,
}

impl Watch {
    pub(crate) fn new(
        stop: Stop,
        drain_timeout: Duration,
        sockets: Vec<ListenerHandle>,
        at_end: AtEnd,
        at_once: Vec<AtOnce>,
        hooks: SignalHooks,
    ) -> Self {
        Self { stop, drain_timeout, sockets, at_end, at_once, hooks }
    }

    /// Waits for signals, and for a drain to take too long, on threads of its own.
    pub(crate) fn start(self, signals: ServerSignals, stopped: mpsc::Receiver<()>) {
        let Self { stop, drain_timeout, sockets, at_end, at_once, hooks } = self;
        let (late, ended) = (sockets.clone(), at_end.clone());
        thread::spawn(move || {
            let Ok(()) = stopped.recv() else { return };
            thread::sleep(drain_timeout);
            at_end.run_and_exit(drain_timeout, &late);
        });
        let running = hooks.start(stop.clone());
        thread::spawn(move || {
            let Some(signal) = next_stop(&signals, &running) else { return };
            stop.drain(signal);
            let begun = Instant::now();
            let signal = loop {
                let Some(signal) = next_stop(&signals, &running) else { return };
                if begun.elapsed() >= REPEAT_MIN {
                    break signal;
                }
            };
            tracing::warn!("{signal} again: stopping at once");
            // What is done at once may end the drain, whose status is another.
            let _held = ended.hold();
            at_once.into_iter().for_each(|last| last());
            remove_and_exit(&sockets, 1);
        });
    }
}

/// Waits for a signal to stop, and obeys the others. `None`: there is no waiting for signals.
fn next_stop(signals: &ServerSignals, hooks: &RunningHooks) -> Option<ServerSignal> {
    loop {
        let signal = signals.wait().ok()?;
        match signal.meaning() {
            Meaning::Stop => return Some(signal),
            Meaning::Reload => hooks.reload(signal),
            Meaning::Reopen => hooks.reopen(signal),
            Meaning::Upgrade => hooks.upgrade(signal),
            Meaning::Nothing => tracing::info!("{signal} ignored: it has no meaning to this server"),
        }
    }
}

/// Removes socket files, as a listener does when it is dropped, for exits that drop nothing.
fn remove_and_exit(sockets: &[ListenerHandle], status: i32) -> ! {
    sockets.iter().for_each(ListenerHandle::remove_file);
    process::exit(status)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn nobody_comes_to_the_end_while_it_is_held() {
        let (at_end, (done, ends)) = (AtEnd::default(), mpsc::channel());
        let held = at_end.hold();
        let served = at_end.clone();
        thread::spawn(move || done.send(served.run().is_ok()).unwrap());
        assert_eq!(ends.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
        drop(held);
        assert_eq!(ends.recv(), Ok(true));
    }

    #[test]
    fn every_hook_of_the_end_is_run_in_order_and_once() {
        let (at_end, run) = (AtEnd::default(), Arc::<Mutex<Vec<u32>>>::default());
        for number in 0..3 {
            let run = Arc::clone(&run);
            at_end.push(move || {
                run.lock().push(number);
                if number < 2 { bail!("hook {number}") } else { Ok(()) }
            });
        }
        assert_eq!(at_end.run().unwrap_err().to_string(), "hook 0");
        at_end.run().unwrap();
        assert_eq!(*run.lock(), [0, 1, 2]);
    }
}
