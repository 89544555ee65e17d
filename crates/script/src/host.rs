//! The server, as far as a script sees it.

use scoped_tls_hkt::{ReborrowMut, scoped_thread_local};
use wire::resp::Version;

/// The server during one run of a script.
pub trait Host {
    /// Runs a command, and appends its reply in the version of [`Host::set_version`].
    ///
    /// # Errors
    /// The script has to end: it is run again in another way.
    fn call(&mut self, args: &[&[u8]], reply: &mut Vec<u8>) -> Result<(), Interrupt>;

    /// Called now and then while Lua code runs.
    ///
    /// # Errors
    /// The script has to end.
    fn poll(&mut self) -> Result<(), Interrupt>;

    /// Sets the version of the replies that the script reads.
    fn set_version(&mut self, version: Version);

    /// Writes a line of `redis.log`.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// True if there is such a command.
    fn has_command(&self, args: &[&[u8]]) -> bool;
}

/// Reason for which a script ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// SCRIPT KILL.
    Killed,
    /// The host runs it again in another way.
    Restarted,
}

/// Level of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// The host of the run on this thread.
pub(crate) struct HostRef<'a>(pub(crate) &'a mut (dyn Host + 'a));

impl<'short> ReborrowMut<'short> for HostRef<'_> {
    type Result = HostRef<'short>;

    fn reborrow_mut(&'short mut self) -> HostRef<'short> {
        HostRef(&mut *self.0)
    }
}

scoped_thread_local!(static mut HOST: for<'a> HostRef<'a>);

/// Makes `host` that of all scripts on this thread while `run` runs.
pub(crate) fn with_host<T>(host: &mut dyn Host, run: impl FnOnce() -> T) -> T {
    HOST.set(HostRef(host), run)
}

/// Hands the host of the run to `ask`. `None` outside of a run.
pub(crate) fn ask_host<T>(ask: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
    HOST.is_set().then(|| HOST.with(|HostRef(host)| ask(host)))
}
