//! SIGUSR2: the program is started again with the sockets of this process, which leaves its connections to the new one as
//! soon as that is ready. So no connection is refused when a program or its flags change. What the process holds beside its
//! sockets, it hands over by its [`HandOver`].

use std::{env, ffi::OsString, fs::File, thread, time::Duration};

use anyhow::{Context, ensure};
use proto::RETIRE_AFTER;
use sys::{
    launcher::Launcher,
    listen::{Listener, ListenerHandle},
    successor::{HandedDescriptor, Role, Successor},
};

use crate::{hooks::Hook, stopping::Stop};

/// Time that a new process has to become ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Time that connections have to come to their end before the drain begins: enough for each to see that it is to, whatever
/// its driver waits in, and to be quiet afterwards for as long as a request may be on its way.
const RETIREMENT: Duration = RETIRE_AFTER.saturating_mul(3);

/// Hand-over of what a process holds beside its sockets.
pub trait HandOver: Send {
    /// Begins, before the successor is started. Returns descriptors for it, which it takes by their roles.
    ///
    /// # Errors
    /// Nothing can be handed over now: no successor is started.
    fn begin(&mut self) -> anyhow::Result<Vec<HandedDescriptor>>;

    /// Ends after the successor has said that it is ready: this process is the owner no more.
    fn complete(&mut self);

    /// Ends without a successor: this process goes on.
    fn cancel(&mut self);
}

/// Hand-over of a process that holds nothing else.
pub(crate) struct NoState;

impl HandOver for NoState {
    fn begin(&mut self) -> anyhow::Result<Vec<HandedDescriptor>> {
        Ok(Vec::new())
    }

    fn complete(&mut self) {}

    fn cancel(&mut self) {}
}

/// Checks sockets that the process was started with and does not listen on. A predecessor may have had more addresses, or
/// more threads.
pub(crate) fn check_unwanted(unwanted: &[Listener], has_predecessor: bool) -> anyhow::Result<()> {
    for listener in unwanted {
        let address = listener.address();
        ensure!(has_predecessor, "the inherited socket on {address} is not asked for: name its address by a flag");
        tracing::info!("a socket on {address} is not needed any more");
    }
    Ok(())
}

/// Possessions of a process that go to its successor.
pub(crate) struct Held {
    pub(crate) sockets: Vec<ListenerHandle>,
    /// File that the service manager keeps.
    pub(crate) kept: Option<File>,
    pub(crate) state: Box<dyn HandOver>,
}

/// Starts the program anew, waits until it is ready, and then ends this process. One that is confined asks its `launcher`.
pub(crate) fn hook(Held { sockets, kept, mut state }: Held, stop: Stop, launcher: Option<Launcher>) -> Hook {
    Box::new(move || {
        if stop.is_draining() {
            return Ok(()); // The last one is about to end this process.
        }
        let mut handed = HandedDescriptor::duplicate_all(&sockets)?;
        if let Some(file) = &kept {
            handed.push(HandedDescriptor { descriptor: file.try_clone()?.into(), role: Role::KeptFile });
        }
        handed.append(&mut state.begin()?);
        let started = match &launcher {
            Some(launcher) => launcher.start(handed).map_err(anyhow::Error::from),
            None => start(handed),
        };
        let id = started.inspect_err(|_| state.cancel())?;
        state.complete();
        tracing::info!("process {id} has taken over");
        stop.manager().handed_over(id);
        sockets.iter().for_each(ListenerHandle::give_file_away);
        stop.retire();
        thread::sleep(RETIREMENT);
        stop.drain(format_args!("process {id} has taken over"));
        Ok(())
    })
}

fn start(handed: Vec<HandedDescriptor>) -> anyhow::Result<u32> {
    let mut line = env::args_os();
    let program = line.next().unwrap_or_default();
    let args: Vec<OsString> = line.collect();
    let successor = Successor::start(&program, &args, handed).context("it cannot be started")?;
    let id = successor.id();
    successor.wait(PATIENCE).with_context(|| format!("process {id}"))?;
    Ok(id)
}
