//! SIGHUP, SIGUSR1 and SIGUSR2: what a server has registered to be done then.

use std::{sync::mpsc, thread};

use sys::signals::ServerSignal;

use crate::{output, stopping::Stop};

/// Action at a signal, each time that it comes.
pub(crate) type Hook = Box<dyn FnMut() -> anyhow::Result<()> + Send>;

/// Actions of a server at signals that do not stop it.
pub(crate) struct SignalHooks {
    pub(crate) reload: Vec<Hook>,
    pub(crate) reopen: Vec<Hook>,
    pub(crate) upgrade: Vec<Hook>,
    /// Reason where there is nothing to do at an upgrade.
    pub(crate) why_no_upgrade: &'static str,
}

impl Default for SignalHooks {
    fn default() -> Self {
        let why_no_upgrade = "this server cannot hand over what it holds";
        Self { reload: Vec::new(), reopen: Vec::new(), upgrade: Vec::new(), why_no_upgrade }
    }
}

/// The same, each kind on a thread of its own: a slow one delays no other signal.
pub(crate) struct RunningHooks {
    stop: Stop,
    reload: Option<mpsc::SyncSender<()>>,
    reopen: Option<mpsc::SyncSender<()>>,
    upgrade: Option<mpsc::SyncSender<()>>,
    why_no_upgrade: &'static str,
}

impl SignalHooks {
    pub(crate) fn start(self, stop: Stop) -> RunningHooks {
        let told = || Some(stop.clone());
        let reload = run_on_thread("cannot reload, and goes on as it was", told(), self.reload);
        let reopen = run_on_thread("cannot reopen the logs", None, self.reopen);
        let upgrade = run_on_thread("this process goes on: no other has taken over", told(), self.upgrade);
        RunningHooks { stop, reload, reopen, upgrade, why_no_upgrade: self.why_no_upgrade }
    }
}

impl RunningHooks {
    pub(crate) fn reload(&self, signal: ServerSignal) {
        match &self.reload {
            None => {
                tracing::info!("{signal} ignored: there is nothing to reload");
                // Whoever asked by way of the service manager waits for an answer.
                let manager = self.stop.manager();
                manager.reloading();
                manager.ready("there is nothing to reload");
            }
            Some(_) if self.stop.is_draining() => tracing::info!("{signal} ignored: the server is draining"),
            Some(asked) => {
                tracing::info!("{signal}: reloading");
                ask(asked);
            }
        }
    }

    pub(crate) fn upgrade(&self, signal: ServerSignal) {
        match &self.upgrade {
            None => tracing::info!("{signal} ignored: {}", self.why_no_upgrade),
            Some(_) if self.stop.is_draining() => tracing::info!("{signal} ignored: the server is draining"),
            Some(asked) => {
                tracing::info!("{signal}: starting the program anew");
                ask(asked);
            }
        }
    }

    pub(crate) fn reopen(&self, signal: ServerSignal) {
        match &self.reopen {
            None => tracing::info!("{signal} ignored: there is no log file to reopen"),
            Some(asked) => {
                tracing::info!("{signal}: reopening the logs");
                ask(asked);
            }
        }
    }
}

/// Asks for one more run. Where one is asked for already that has not begun, it will see whatever this one would.
fn ask(asked: &mpsc::SyncSender<()>) {
    let _ = asked.try_send(());
}

/// Runs the hooks, in their order, each time that it is asked for; `None` where there is nothing to run. A hook that
/// fails is logged, and the others are run. The service manager of what is `told` is told when a run begins and ends.
fn run_on_thread(failure: &'static str, told: Option<Stop>, mut hooks: Vec<Hook>) -> Option<mpsc::SyncSender<()>> {
    if hooks.is_empty() {
        return None;
    }
    let (asked, wanted) = mpsc::sync_channel(1);
    thread::spawn(move || {
        while wanted.recv().is_ok() {
            if let Some(stop) = &told {
                stop.manager().reloading();
            }
            let mut status = String::new();
            for hook in &mut hooks {
                if let Err(error) = hook() {
                    status = format!("{failure}: {}", output::chain(&error));
                    tracing::error!("{status}");
                }
            }
            if let Some(stop) = &told {
                stop.manager().ready(status);
            }
        }
    });
    Some(asked)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// However often it is asked for, a run begins after the last time.
    #[test]
    fn no_wish_is_lost_while_a_hook_runs() {
        let (state, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (source, last) = (Arc::clone(&state), Arc::clone(&seen));
        let hook = move || {
            last.store(source.load(Relaxed), Relaxed);
            thread::yield_now();
            anyhow::bail!("a failure ends no thread")
        };
        let asked = run_on_thread("test", None, vec![Box::new(hook)]).unwrap();
        for n in 1..=1_000 {
            state.store(n, Relaxed);
            ask(&asked);
        }
        while seen.load(Relaxed) < 1_000 {
            thread::yield_now();
        }
        assert!(run_on_thread("test", None, Vec::new()).is_none());
    }
}
