//! SIGTERM and SIGINT as something to wait for (sigwait(3)).

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// From here on SIGTERM and SIGINT are only seen by [`StopSignals::wait`].
#[derive(Debug)]
pub struct StopSignals(SigSet);

impl StopSignals {
    /// Call before any thread is started: threads inherit the mask.
    pub fn block() -> io::Result<Self> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGTERM);
        set.add(Signal::SIGINT);
        set.thread_block()?;
        Ok(Self(set))
    }

    /// Returns the name of the signal that came.
    pub fn wait(&self) -> io::Result<&'static str> {
        Ok(self.0.wait()?.as_str())
    }
}
