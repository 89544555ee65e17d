//! Listening sockets that go from one process to the next: from a service manager (sd_listen_fds(3)), or from the process
//! that this one succeeds.
//!
//! Both are told by the environment: `LISTEN_FDS` counts the descriptors, which begin at 3. `LISTEN_PID` says whom a
//! service manager means; a predecessor names itself in `QUINTET_PREDECESSOR`, and one more descriptor behind the others is
//! a pipe, which is to be told that this process is ready.

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    process::{Child, Command},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use command_fds::{CommandFdExt, FdMapping};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, FdFlags},
    pipe::PipeFlags,
    process::{getpid, getppid},
};

use crate::{
    listen::{Listener, ListenerHandle},
    notify::WATCHDOG_PROCESS,
};

const COUNT: &str = "LISTEN_FDS";
const NAMES: &str = "LISTEN_FDNAMES";
const ADDRESSEE: &str = "LISTEN_PID";
const PREDECESSOR: &str = "QUINTET_PREDECESSOR";
/// The first inherited descriptor.
const FIRST: RawFd = 3;
/// Name of a unix socket whose file its last listener has to remove; others have none.
const OWNS_FILE: &str = "owns-file";

/// Sockets that the process was started with.
#[derive(Debug, Default)]
pub struct Inherited {
    pub listeners: Vec<Listener>,
    /// The process that this one succeeds, if it was that which gave them.
    pub predecessor: Option<Predecessor>,
}

/// The process before this one, which goes on until it hears that this one is ready.
#[derive(Debug)]
pub struct Predecessor(OwnedFd);

impl Predecessor {
    /// Tells it that this process accepts connections.
    pub fn tell_ready(self) {
        // It may have ended meanwhile.
        let _ = rustix::io::write(&self.0, b"1");
    }
}

impl Inherited {
    /// Takes the sockets that the environment announces, once; later there are none.
    ///
    /// # Errors
    /// A descriptor that is announced is not there, or is no listening socket.
    pub fn take() -> io::Result<Self> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let is_named = |variable: &str, id: Option<i32>| {
            env::var(variable).ok().and_then(|value| value.parse().ok()).is_some_and(|named: i32| Some(named) == id)
        };
        let has_predecessor = is_named(PREDECESSOR, getppid().map(|id| id.as_raw_nonzero().get()));
        if !has_predecessor && !is_named(ADDRESSEE, Some(getpid().as_raw_nonzero().get()))
            || TAKEN.swap(true, Ordering::AcqRel)
        {
            return Ok(Self::default());
        }
        let count = env::var(COUNT).ok().and_then(|count| count.parse::<RawFd>().ok()).unwrap_or(0).clamp(0, 4096);
        let names = env::var(NAMES).unwrap_or_default();
        let mut names = names.split(':');
        let listeners = (0..count).map(|at| {
            let owns_file = has_predecessor && names.next() == Some(OWNS_FILE);
            inherit(FIRST + at)
                .and_then(|socket| Listener::adopt(socket, owns_file))
                .map_err(|error| io::Error::new(error.kind(), format!("inherited descriptor {}: {error}", FIRST + at)))
        });
        let listeners = listeners.collect::<io::Result<_>>()?;
        let predecessor = has_predecessor.then(|| inherit(FIRST + count).map(Predecessor)).transpose()?;
        Ok(Self { listeners, predecessor })
    }
}

/// Takes a descriptor that was open when the process was started. Programs that it starts do not get it.
#[expect(clippy::disallowed_methods, reason = "a number is all that the environment says")]
fn inherit(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the borrow lasts for this call alone, which fails for a descriptor that is not open.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and was so before this process had any descriptor of its own: the environment says that it was
    // given for this purpose, and is asked once only.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Listening socket for a successor.
#[derive(Debug)]
pub struct HandedSocket {
    pub socket: OwnedFd,
    /// True if it has a file, which its last listener removes.
    pub owns_file: bool,
}

impl HandedSocket {
    /// Duplicates those that are still open.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn duplicate_all(sockets: &[ListenerHandle]) -> io::Result<Vec<Self>> {
        let duplicate = |handle: &ListenerHandle| {
            let socket = handle.duplicate().transpose()?;
            Some(socket.map(|socket| Self { socket, owns_file: handle.owns_file() }))
        };
        sockets.iter().filter_map(duplicate).collect()
    }
}

/// A program that is to succeed this process.
#[derive(Debug)]
pub struct Successor {
    child: Child,
    ready: io::PipeReader,
}

/// Reason why there is no successor.
#[derive(Debug, thiserror::Error)]
pub enum SuccessorError {
    #[error("it ended before it was ready: {0}")]
    Ended(std::process::ExitStatus),
    #[error("it was not ready after {0:?}, and was ended")]
    TimedOut(Duration),
    #[error("it cannot be waited for")]
    Failed(#[source] io::Error),
}

impl Successor {
    /// Starts `program` with the sockets.
    ///
    /// # Errors
    /// Those of pipe(2), fork(2) and execve(2).
    pub fn start(program: &OsString, args: &[OsString], sockets: Vec<HandedSocket>) -> io::Result<Self> {
        let (mut mappings, mut names) = (Vec::new(), Vec::new());
        let mut map = |parent_fd| {
            let child_fd = FIRST + mappings.len() as RawFd;
            mappings.push(FdMapping { parent_fd, child_fd });
        };
        for HandedSocket { socket, owns_file } in sockets {
            map(socket);
            names.push(if owns_file { OWNS_FILE } else { "" });
        }
        let (ready, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        map(theirs);
        let mut command = Command::new(program);
        command.args(args);
        command.env(COUNT, names.len().to_string()).env(NAMES, names.join(":")).env_remove(ADDRESSEE);
        command.env_remove(WATCHDOG_PROCESS);
        command.env(PREDECESSOR, getpid().as_raw_nonzero().to_string());
        command.fd_mappings(mappings).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let child = command.spawn()?;
        // Its descriptors are still in the command: the pipe would never end.
        drop(command);
        Ok(Self { child, ready: ready.into() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is ready; then it is on its own.
    ///
    /// # Errors
    /// It ended instead, or was ended after `patience`.
    pub fn wait(mut self, patience: Duration) -> Result<(), SuccessorError> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(SuccessorError::TimedOut(patience));
            }
            match self.poll(left) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => return Err(SuccessorError::Failed(error)),
            }
        }
        match self.ready.read(&mut [0]) {
            Ok(1) => Ok(()),
            // Its end of the pipe is closed: it has ended, or is about to.
            Ok(_) => Err(self.child.wait().map_or_else(SuccessorError::Failed, SuccessorError::Ended)),
            Err(error) => Err(SuccessorError::Failed(error)),
        }
    }

    fn poll(&self, patience: Duration) -> io::Result<bool> {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        match poll(&mut [PollFd::from_borrowed_fd(self.ready.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
