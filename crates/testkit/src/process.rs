//! A running process, seen from outside (proc(5)).

use std::{fs, io, time::Duration};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(i32);

impl Process {
    pub fn new(id: u32) -> Self {
        Self(id.cast_signed())
    }

    pub fn id(self) -> i32 {
        self.0
    }

    /// Open descriptors.
    pub fn descriptors(self) -> anyhow::Result<usize> {
        self.entries("fd")
    }

    pub fn threads(self) -> anyhow::Result<usize> {
        self.entries("task")
    }

    fn entries(self, of: &str) -> anyhow::Result<usize> {
        let path = format!("/proc/{}/{of}", self.0);
        Ok(fs::read_dir(&path).with_context(|| format!("cannot list {path}"))?.count())
    }

    /// Resident memory, in bytes.
    pub fn resident_bytes(self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
        Ok(kib * 1024)
    }

    /// CPU time of all its threads.
    pub fn cpu(self) -> io::Result<Duration> {
        sys::clock::process_cpu(self.0)
    }

    pub fn terminate(self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops it where it is, so that what is sent to it meanwhile arrives all at once.
    pub fn pause(self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Whether all its threads stand still.
    pub fn is_paused(self) -> anyhow::Result<bool> {
        let path = format!("/proc/{}/task", self.0);
        let mut threads = fs::read_dir(&path).with_context(|| format!("cannot list {path}"))?;
        threads.try_fold(true, |so_far, thread| {
            let status = fs::read_to_string(thread?.path().join("status"))?;
            Ok(so_far && status.contains("\nState:\tT"))
        })
    }

    pub fn resume(self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.0).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }
}
