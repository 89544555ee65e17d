//! Listening sockets that go from one process to the next: from a service manager (sd_listen_fds(3)), or from the process
//! that this one succeeds, which may hand over more than sockets.
//!
//! Both are told by the environment: `LISTEN_FDS` counts the descriptors, which begin at 3, and `LISTEN_FDNAMES` has the
//! [`Role`] of each. `LISTEN_PID` says whom a service manager means; behind the descriptors of a predecessor there is a pipe,
//! which is to be told that this process is ready, and whose inode number is `QUINTET_PREDECESSOR`.

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use command_fds::{CommandFdExt, FdMapping};
use nix::libc;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::fstat,
    io::{Errno, FdFlags},
    pipe::PipeFlags,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid},
};

use crate::{
    launcher::close_range,
    listen::{Listener, ListenerHandle},
    notify::WATCHDOG_PROCESS,
};

const COUNT: &str = "LISTEN_FDS";
const NAMES: &str = "LISTEN_FDNAMES";
const ADDRESSEE: &str = "LISTEN_PID";
const PREDECESSOR: &str = "QUINTET_PREDECESSOR";
/// The first inherited descriptor.
const FIRST: RawFd = 3;

/// Role of a descriptor that a process hands to its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Listener,
    /// Unix socket whose file its last listener has to remove.
    ListenerWithFile,
    MessageQueue,
    /// Directory of FIFOs that the last process removes.
    FifoDirectory,
    /// Pipe from the predecessor.
    FromPredecessor,
    /// Pipe to the predecessor.
    ToPredecessor,
    /// File in memory that the service manager keeps for the next process ([`crate::notify::ServiceManager::keep`]).
    KeptFile,
}

impl Role {
    const ALL: [Self; 7] = [
        Self::Listener,
        Self::ListenerWithFile,
        Self::MessageQueue,
        Self::FifoDirectory,
        Self::FromPredecessor,
        Self::ToPredecessor,
        Self::KeptFile,
    ];

    /// Returns the name in the environment.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listener => "",
            Self::ListenerWithFile => "owns-file",
            Self::MessageQueue => "message-queue",
            Self::FifoDirectory => "fifo-directory",
            Self::FromPredecessor => "from-predecessor",
            Self::ToPredecessor => "to-predecessor",
            Self::KeptFile => "kept-file",
        }
    }

    /// Returns the byte that stands for the role in a message.
    pub(crate) fn byte(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.byte() == byte)
    }
}

/// Descriptors that the process was started with.
#[derive(Debug, Default)]
pub struct Inherited {
    pub listeners: Vec<Listener>,
    /// Descriptors that are no sockets.
    state: Vec<HandedDescriptor>,
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
        let number = |variable: &str| env::var(variable).ok().and_then(|value| value.parse::<u64>().ok());
        let count = RawFd::try_from(number(COUNT).unwrap_or(0).min(4096)).unwrap_or(0);
        // Programs that a successor starts have its environment and not its descriptors.
        let has_predecessor = number(PREDECESSOR).is_some_and(|pipe| inode(FIRST + count) == Some(pipe));
        let is_addressee = number(ADDRESSEE) == Some(getpid().as_raw_nonzero().get().unsigned_abs().into());
        if !has_predecessor && !is_addressee || TAKEN.swap(true, Ordering::AcqRel) {
            return Ok(Self::default());
        }
        let names = env::var(NAMES).unwrap_or_default();
        let mut names = names.split(':');
        let mut inherited = Self::default();
        for at in 0..count {
            let role = names.next().and_then(|name| Role::ALL.into_iter().find(|role| role.name() == name));
            // A service manager names sockets as it likes, and keeps nothing but what it was given to keep.
            let role = role.filter(|&role| has_predecessor || role == Role::KeptFile).unwrap_or(Role::Listener);
            let taken =
                inherit(FIRST + at).and_then(|descriptor| inherited.adopt(HandedDescriptor { descriptor, role }));
            let explain = |error: io::Error| {
                io::Error::new(error.kind(), format!("inherited descriptor {}: {error}", FIRST + at))
            };
            taken.map_err(explain)?;
        }
        inherited.predecessor = has_predecessor.then(|| inherit(FIRST + count).map(Predecessor)).transpose()?;
        Ok(inherited)
    }

    fn adopt(&mut self, handed: HandedDescriptor) -> io::Result<()> {
        match handed.role {
            Role::Listener => self.listeners.push(Listener::adopt(handed.descriptor, false)?),
            Role::ListenerWithFile => self.listeners.push(Listener::adopt(handed.descriptor, true)?),
            Role::MessageQueue | Role::FifoDirectory | Role::FromPredecessor | Role::ToPredecessor | Role::KeptFile => {
                self.state.push(handed)
            }
        }
        Ok(())
    }

    /// Takes the descriptor of a role; `None`: there is none.
    pub fn take_state(&mut self, role: Role) -> Option<OwnedFd> {
        let at = self.state.iter().position(|handed| handed.role == role)?;
        Some(self.state.swap_remove(at).descriptor)
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

/// Inode number of what a descriptor is of, if there is such a descriptor.
fn inode(number: RawFd) -> Option<u64> {
    // SAFETY: the borrow lasts for this call alone, which fails for a descriptor that is not open.
    fstat(unsafe { BorrowedFd::borrow_raw(number) }).ok().map(|stat| stat.st_ino)
}

/// Descriptor for a successor.
#[derive(Debug)]
pub struct HandedDescriptor {
    pub descriptor: OwnedFd,
    pub role: Role,
}

impl HandedDescriptor {
    /// Duplicates the listening sockets that are still open.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn duplicate_all(sockets: &[ListenerHandle]) -> io::Result<Vec<Self>> {
        let duplicate = |handle: &ListenerHandle| {
            let role = if handle.owns_file() { Role::ListenerWithFile } else { Role::Listener };
            Some(handle.duplicate().transpose()?.map(|descriptor| Self { descriptor, role }))
        };
        sockets.iter().filter_map(duplicate).collect()
    }
}

/// A program that is to succeed this process.
#[derive(Debug)]
pub struct Successor {
    id: Pid,
    /// Process between this one and the successor.
    starter: Child,
    ready: io::PipeReader,
}

/// Reason why there is no successor.
#[derive(Debug, thiserror::Error)]
pub enum SuccessorError {
    #[error("it ended before it was ready: {0}")]
    Ended(ExitStatus),
    #[error("it was not ready after {0:?}, and was ended")]
    TimedOut(Duration),
    #[error("it cannot be waited for")]
    Failed(#[source] io::Error),
}

impl Successor {
    /// Starts `program` with the descriptors.
    ///
    /// # Errors
    /// Those of pipe(2), fork(2) and execve(2).
    pub fn start(program: &OsString, args: &[OsString], handed: Vec<HandedDescriptor>) -> io::Result<Self> {
        let (mut mappings, mut names) = (Vec::new(), Vec::new());
        let mut map = |parent_fd| {
            let child_fd = FIRST + mappings.len() as RawFd;
            mappings.push(FdMapping { parent_fd, child_fd });
        };
        for HandedDescriptor { descriptor, role } in handed {
            map(descriptor);
            names.push(role.name());
        }
        let (ready, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let inode = fstat(&theirs)?.st_ino;
        let report = theirs.try_clone()?;
        map(theirs);
        let mut command = Command::new(program);
        command.args(args);
        command.env(COUNT, names.len().to_string()).env(NAMES, names.join(":")).env_remove(ADDRESSEE);
        command.env_remove(WATCHDOG_PROCESS);
        command.env(PREDECESSOR, inode.to_string());
        let step_aside = move || step_aside(&report);
        // SAFETY: between fork and exec only system calls that are safe there may be made: it makes no others, and neither
        // allocates nor takes a lock.
        unsafe { command.pre_exec(step_aside) };
        command.fd_mappings(mappings).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let starter = command.spawn()?;
        // Its descriptors are still in the command: the pipe would never end.
        drop(command);
        let (mut ready, mut id) = (io::PipeReader::from(ready), [0; size_of::<i32>()]);
        // It has been written before the program was started.
        ready.read_exact(&mut id)?;
        let id = Pid::from_raw(i32::from_ne_bytes(id)).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { id, starter, ready })
    }

    pub fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
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
                let _ = kill_process(self.id, Signal::KILL);
                let _ = self.starter.wait();
                return Err(SuccessorError::TimedOut(patience));
            }
            match self.poll(left) {
                Ok(false) => {}
                Ok(true) => break,
                Err(error) => return Err(SuccessorError::Failed(error)),
            }
        }
        match self.ready.read(&mut [0]) {
            Ok(1) => {
                let _ = self.starter.kill();
                self.starter.wait().map(drop).map_err(SuccessorError::Failed)
            }
            // Its end of the pipe is closed: it has ended, or is about to.
            Ok(_) => Err(self.starter.wait().map_or_else(SuccessorError::Failed, SuccessorError::Ended)),
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

/// Makes the calling process, a copy of one that starts a program, the starter of another copy, which is to be the program, and
/// returns in that one only. The starter reports the other's number and ends as it does.
///
/// A service manager waits for its own children, and becomes the parent of those whose parent has ended (it is a subreaper, see
/// prctl(2)): as a child of the process that it succeeds, a successor would be waited for by nobody after that has ended.
fn step_aside(report: &OwnedFd) -> io::Result<()> {
    // SAFETY: without flags this is fork(2), less what the C library does about its locks, which neither copy uses.
    let copy = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    let Some(id) = i32::try_from(copy).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let _ = rustix::io::write(report, &id.as_raw_nonzero().get().to_ne_bytes());
    // The ends of pipes have to show what has become of the other.
    let _ = close_range(0, libc::c_uint::MAX);
    let code = loop {
        match waitpid(Some(id), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                break status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => break None,
        }
    };
    // SAFETY: it ends the process, and nothing else is run in it.
    unsafe { libc::_exit(code.unwrap_or(libc::EXIT_FAILURE)) }
}
