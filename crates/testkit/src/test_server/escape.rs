//! Attempts to do what a confined server must not be able to, from inside of it.

use std::{
    fs::{self, OpenOptions},
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixStream,
    process::Command,
};

use memmap2::MmapMut;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, PidfdGetfdFlags, Signal, chroot, dumpable_behavior, kill_process, pidfd_getfd,
    pidfd_open,
};

/// Tries one way, and returns true if it was possible; `None` if there is no such way.
pub(crate) fn try_to(way: &str, target: &str) -> Option<bool> {
    Some(match way {
        "read" => fs::read(target).is_ok(),
        "list" => fs::read_dir(target).is_ok(),
        "write" => OpenOptions::new().append(true).create(true).open(target).is_ok(),
        "exec" => Command::new(target).status().is_ok(),
        "connect" => TcpStream::connect(target).is_ok(),
        "signal" => kill_process(pid(target)?, Signal::CONT).is_ok(),
        "trace" => takes_descriptor(pid(target)?),
        "datagram" => UdpSocket::bind(target).is_ok(),
        "socket" => UnixStream::connect(target).is_ok(),
        "code" => MmapMut::map_anon(target.parse().ok()?).and_then(MmapMut::make_exec).is_ok(),
        "root" => chroot(target).is_ok(),
        "dump" => dumpable_behavior().is_ok_and(|dumpable| dumpable == DumpableBehavior::Dumpable),
        _ => return None,
    })
}

fn pid(target: &str) -> Option<Pid> {
    Pid::from_raw(target.parse().ok()?)
}

/// Takes standard error out of another process, which the kernel allows to whom it allows ptrace(2).
fn takes_descriptor(victim: Pid) -> bool {
    pidfd_open(victim, PidfdFlags::empty()).and_then(|victim| pidfd_getfd(&victim, 2, PidfdGetfdFlags::empty())).is_ok()
}
