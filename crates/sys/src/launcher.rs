//! A process beside a confined one, which may start what that may not, its successor and nothing else, and opens files beneath
//! directories that have taken the place of those that the other one may read (`beneath::broker`).
//!
//! It is forked before the other one has a thread and gives anything up. The program and its arguments are those of the
//! command line; the confined process says when, and hands over its listening sockets and what else the successor is to have. It ends
//! with the other one.

use std::{
    env,
    ffi::OsString,
    fmt,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    process, thread,
    time::Duration,
};

use nix::{libc, sys::signal::SigSet};
use rustix::{
    cmsg_space,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
    },
};

use crate::{
    beneath::broker::{self, Opener},
    confinement::hide_memory,
    successor::{HandedDescriptor, Role, Successor},
    user::Account,
};

/// Descriptors in one message: the kernel takes 253.
const DESCRIPTORS_MAX: usize = 128;
/// Message that ends a request.
const END: &[u8] = b".";
/// First byte of an answer; the rest is the number of the process, or the reason.
const READY: u8 = b'1';
const FAILED: u8 = b'0';
/// Length of an answer.
const ANSWER_BYTES_MAX: usize = 512;
const NAME: &std::ffi::CStr = c"launcher";

/// The other end of that process.
#[derive(Debug)]
pub struct Launcher(OwnedFd);

/// Reason why there is no successor.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{0}")]
    Failed(String),
    #[error("the process that starts successors has ended")]
    Gone,
    #[error("the process that starts successors cannot be asked")]
    Unreachable(#[from] io::Error),
}

impl Launcher {
    /// Starts the process, which becomes `user`. A successor that is not ready after `patience` is ended. Files beneath
    /// `directories`, absolute paths, are opened there when their names mean others than now.
    ///
    /// # Errors
    /// Those of socketpair(2) and fork(2); this process has a second thread.
    pub fn fork(user: Option<Account>, patience: Duration, directories: Vec<PathBuf>) -> io::Result<Self> {
        let (broker, opener) = broker::pair(directories)?;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Err(io::Error::other("this process has more than one thread"));
        }
        // SAFETY: there is no other thread that could hold a lock for ever in the copy, or leave its data half written.
        match unsafe { libc::fork() } {
            ..0 => Err(io::Error::last_os_error()),
            0 => process::exit(i32::from(launch_when_asked(&theirs, opener, user, patience).is_err())),
            1.. => {
                broker.install();
                Ok(Self(ours))
            }
        }
    }

    /// Starts a successor with the descriptors, waits until it is ready, and returns its number.
    ///
    /// # Errors
    /// There is none: this process goes on.
    pub fn start(&self, handed: Vec<HandedDescriptor>) -> Result<u32, LaunchError> {
        for handed in handed.chunks(DESCRIPTORS_MAX) {
            let bytes: Vec<_> = handed.iter().map(|handed| handed.role.byte()).collect();
            let descriptors: Vec<BorrowedFd<'_>> = handed.iter().map(|handed| handed.descriptor.as_fd()).collect();
            let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL).map_err(io::Error::from)?;
        }
        send(&self.0, END, SendFlags::NOSIGNAL).map_err(io::Error::from)?;
        // The end of a pipe has to show that the successor has ended.
        drop(handed);
        let mut answer = [0; ANSWER_BYTES_MAX];
        // By read(2), which every confined process may call.
        let length = rustix::io::read(&self.0, &mut answer).map_err(io::Error::from)?;
        let Some((&kind, text)) = answer[..length].split_first() else { return Err(LaunchError::Gone) };
        let text = String::from_utf8_lossy(text).into_owned();
        match text.parse() {
            Ok(id) if kind == READY => Ok(id),
            _ => Err(LaunchError::Failed(text)),
        }
    }
}

/// Starts a successor each time that the other process asks for one, until that has ended.
fn launch_when_asked(channel: &OwnedFd, opener: Opener, user: Option<Account>, patience: Duration) -> io::Result<()> {
    // A signal to the group is for the server; a successor begins without any blocked.
    SigSet::all().thread_block()?;
    rustix::thread::set_name(NAME)?;
    close_all_but([channel, opener.descriptor()])?;
    user.map_or(Ok(()), Account::assume).map_err(io::Error::other)?;
    hide_memory()?;
    // It waits for others than this thread does. Where it fails, the other process is told by the end of its channel.
    if opener.has_directories() {
        thread::Builder::new().name("opener".to_owned()).spawn(move || opener.serve())?;
    }
    let mut line = env::args_os();
    let program = line.next().unwrap_or_default();
    let args: Vec<OsString> = line.collect();
    while let Some(handed) = receive_request(channel)? {
        let answer = match launch(&program, &args, handed, patience) {
            Ok(id) => answer(READY, &id),
            Err(why) => answer(FAILED, &why),
        };
        send(channel, &answer, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

fn launch(
    program: &OsString,
    args: &[OsString],
    handed: Vec<HandedDescriptor>,
    patience: Duration,
) -> Result<u32, String> {
    let successor =
        Successor::start(program, args, handed).map_err(|error| format!("it cannot be started: {error}"))?;
    let id = successor.id();
    successor.wait(patience).map_err(|error| format!("process {id}: {error}"))?;
    Ok(id)
}

fn answer(kind: u8, said: &dyn fmt::Display) -> Vec<u8> {
    let mut answer = vec![kind];
    answer.extend(said.to_string().bytes().take(ANSWER_BYTES_MAX - 1));
    answer
}

/// Receives the descriptors of a successor; `None`: the other process has ended.
fn receive_request(channel: &OwnedFd) -> io::Result<Option<Vec<HandedDescriptor>>> {
    let mut received = Vec::new();
    loop {
        let mut bytes = [0; DESCRIPTORS_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut bytes)];
        let length = recvmsg(channel, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
        match &bytes[..length] {
            [] => return Ok(None),
            END => return Ok(Some(received)),
            roles => {
                let messages = ancillary.drain();
                let descriptors = messages.filter_map(|message| {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message { Some(descriptors) } else { None }
                });
                for (&byte, descriptor) in roles.iter().zip(descriptors.flatten()) {
                    let role = Role::from_byte(byte).ok_or(io::ErrorKind::InvalidData)?;
                    received.push(HandedDescriptor { descriptor, role });
                }
            }
        }
    }
}

/// Closes all descriptors but these and the standard streams: sockets that the process has inherited would never be closed.
fn close_all_but(kept: [&OwnedFd; 2]) -> io::Result<()> {
    let mut kept = kept.map(|kept| kept.as_raw_fd().unsigned_abs());
    kept.sort_unstable();
    let mut first = 3;
    for kept in kept {
        close_range(first, kept - 1)?;
        first = kept + 1;
    }
    close_range(first, libc::c_uint::MAX)
}

/// Closes descriptors of a process that is a copy of another one and never returns to what that did.
pub(crate) fn close_range(first: libc::c_uint, last: libc::c_uint) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: the process is a copy that has just been made, and nothing in it uses a descriptor in this range again: it goes
    // on with those that are kept, and never returns to what its original did.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
