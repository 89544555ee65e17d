//! Signals to a server as something to wait for (sigwait(3)).

use std::{fmt, io};

use nix::sys::signal::{SigSet, Signal};

/// A signal that a server waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSignal(Signal);

/// Meaning of a signal to a server, as nginx has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// SIGTERM, SIGINT, SIGQUIT: drain and end.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: open the logs again.
    Reopen,
    /// SIGUSR2: start the program anew, and leave its connections to that.
    Upgrade,
    /// SIGALRM: nothing, where the system's default is to kill.
    Nothing,
}

const SIGNALS: [(Signal, Meaning); 7] = [
    (Signal::SIGTERM, Meaning::Stop),
    (Signal::SIGINT, Meaning::Stop),
    (Signal::SIGQUIT, Meaning::Stop),
    (Signal::SIGHUP, Meaning::Reload),
    (Signal::SIGUSR1, Meaning::Reopen),
    (Signal::SIGUSR2, Meaning::Upgrade),
    (Signal::SIGALRM, Meaning::Nothing),
];

impl ServerSignal {
    pub fn meaning(self) -> Meaning {
        SIGNALS.iter().find(|(signal, _)| *signal == self.0).map_or(Meaning::Nothing, |(_, meaning)| *meaning)
    }
}

impl fmt::Display for ServerSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// From here on the signals to a server are only seen by [`ServerSignals::wait`]. Programs that it starts with
/// `std::process` have their mask cleared.
#[derive(Debug)]
pub struct ServerSignals(SigSet);

impl ServerSignals {
    /// Call before any thread is started: threads inherit the mask.
    pub fn block() -> io::Result<Self> {
        let set = SIGNALS.iter().map(|(signal, _)| *signal).collect::<SigSet>();
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Waits for the next signal.
    pub fn wait(&self) -> io::Result<ServerSignal> {
        Ok(ServerSignal(self.0.wait()?))
    }
}
