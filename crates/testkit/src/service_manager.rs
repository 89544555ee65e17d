//! A service manager's end of sd_notify(3), and descriptors that it passes as sd_listen_fds(3) has it.

use std::{
    ffi::OsStr,
    io::{ErrorKind, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    path::Path,
    process::Command,
};

use anyhow::{Context, ensure};
use command_fds::{CommandFdExt, FdMapping};
use rustix::{
    cmsg_space,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use crate::HANG;

/// The manager's end of the socket of messages.
#[derive(Debug)]
pub struct ServiceManager(UnixDatagram);

impl ServiceManager {
    /// Makes the socket at `path` and names it to what `command` starts.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn of(command: &mut Command, path: &Path) -> anyhow::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_read_timeout(Some(HANG))?;
        command.env("NOTIFY_SOCKET", path);
        Ok(Self(socket))
    }

    /// Waits for a message, and returns it and what came with it.
    ///
    /// # Errors
    /// There is none.
    pub fn next(&self) -> anyhow::Result<(String, Vec<OwnedFd>)> {
        let mut message = [0; 1 << 10];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut message)];
        let length = recvmsg(&self.0, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC).context("no message")?.bytes;
        let mut descriptors = Vec::new();
        for came in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = came {
                descriptors.extend(rights);
            }
        }
        Ok((String::from_utf8(message[..length].to_vec())?, descriptors))
    }

    /// # Errors
    /// There is no message, or it begins otherwise.
    pub fn expect(&self, beginning: &str) -> anyhow::Result<()> {
        let (message, _) = self.next()?;
        ensure!(message.starts_with(beginning), "{message:?} instead of {beginning}");
        Ok(())
    }

    /// Reads all messages that there are, and returns their number.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn take_all(&self) -> anyhow::Result<usize> {
        self.0.set_nonblocking(true)?;
        let mut count = 0;
        let outcome = loop {
            match self.0.recv(&mut [0; 1 << 10]) {
                Ok(_) => count += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(count),
                Err(error) => break Err(error.into()),
            }
        };
        self.0.set_nonblocking(false)?;
        outcome
    }
}

/// Returns a command that starts `program` with descriptors, which have these names.
///
/// # Errors
/// It has none to spare.
pub fn with_descriptors(program: impl AsRef<OsStr>, descriptors: Vec<(&str, OwnedFd)>) -> anyhow::Result<Command> {
    let (names, descriptors): (Vec<_>, Vec<_>) = descriptors.into_iter().unzip();
    let mut command = Command::new("sh");
    // The number of the process is known to itself alone.
    command.args(["-c", "LISTEN_PID=$$ exec \"$0\" \"$@\""]).arg(program);
    command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
    let mapping = |(parent_fd, child_fd)| FdMapping { parent_fd, child_fd };
    command.fd_mappings(descriptors.into_iter().zip(3..).map(mapping).collect())?;
    Ok(command)
}
