//! A running process, seen from outside (proc(5)).

use std::{collections::BTreeMap, io, thread, time::Duration};

use anyhow::Context;
use procfs::process::{FDTarget, Process as ProcEntry};
use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// Time between two counts: when both are equal, nothing is under way.
const SETTLING_TIME: Duration = Duration::from_millis(150);

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(i32);

/// Kernel resources that a process has, to see whether it gives them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceCounts {
    pub descriptors: usize,
    pub threads: usize,
}

impl Process {
    pub fn new(id: u32) -> Self {
        Self(id.cast_signed())
    }

    pub fn id(self) -> i32 {
        self.0
    }

    /// Counts the open descriptors.
    pub fn descriptors(self) -> anyhow::Result<usize> {
        self.proc_entry()?.fd_count().with_context(|| format!("cannot count the descriptors of process {}", self.0))
    }

    /// Counts the threads.
    pub fn threads(self) -> anyhow::Result<usize> {
        let threads = self.proc_entry()?.tasks();
        Ok(threads.with_context(|| format!("cannot count the threads of process {}", self.0))?.count())
    }

    pub fn resources(self) -> anyhow::Result<ResourceCounts> {
        Ok(ResourceCounts { descriptors: self.descriptors()?, threads: self.threads()? })
    }

    /// Returns the resources once they no longer change.
    pub fn settled_resources(self) -> anyhow::Result<ResourceCounts> {
        let mut last = self.resources()?;
        eventually("the resources of the process settle", || {
            thread::sleep(SETTLING_TIME);
            let now = self.resources()?;
            Ok(std::mem::replace(&mut last, now) == now)
        })?;
        Ok(last)
    }

    /// Waits until the process has no more than `before`, plus `spare` descriptors and threads that it may keep for
    /// reuse.
    pub fn wait_until_released(self, before: ResourceCounts, spare: ResourceCounts) -> anyhow::Result<()> {
        eventually("descriptors and threads are released", || {
            let now = self.resources()?;
            Ok(now.descriptors <= before.descriptors + spare.descriptors
                && now.threads <= before.threads + spare.threads)
        })
        .with_context(|| format!("{before:?} before, {:?} after: {:?}", self.resources(), self.open_descriptors()))
    }

    /// Counts the open descriptors of each kind.
    fn open_descriptors(self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut kinds = BTreeMap::new();
        for descriptor in self.proc_entry()?.fd()? {
            let target = descriptor?.target;
            let kind = match &target {
                FDTarget::Path(path) => path.display().to_string(),
                FDTarget::Socket(_) => "socket".to_owned(),
                FDTarget::Pipe(_) => "pipe".to_owned(),
                FDTarget::Net(_)
                | FDTarget::AnonInode(_)
                | FDTarget::MemFD(_)
                | FDTarget::Other(..)
                | FDTarget::Unknown(..) => format!("{target:?}"),
            };
            *kinds.entry(kind).or_default() += 1;
        }
        Ok(kinds)
    }

    /// Returns the resident memory, in bytes.
    pub fn resident_bytes(self) -> anyhow::Result<u64> {
        let status = self.proc_entry()?.status();
        let status = status.with_context(|| format!("cannot read the status of process {}", self.0))?;
        Ok(status.vmrss.context("no VmRSS")? * 1024)
    }

    /// Returns the CPU time of all its threads.
    pub fn cpu(self) -> io::Result<Duration> {
        sys::clock::process_cpu(self.0)
    }

    /// Returns true once the process has ended, whether or not anybody has asked how.
    pub fn has_ended(self) -> bool {
        self.proc_entry().and_then(|entry| Ok(entry.stat()?.state)).map_or(true, |state| state == 'Z')
    }

    /// Returns true if `other` is its parent, or the parent of that, and so on.
    pub fn descends_from(self, other: Self) -> anyhow::Result<bool> {
        let mut parent = self.proc_entry()?.stat()?.ppid;
        while parent > 1 && parent != other.0 {
            parent = Self(parent).proc_entry()?.stat()?.ppid;
        }
        Ok(parent == other.0)
    }

    pub fn terminate(self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks it to read its configuration again.
    pub fn hang_up(self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops the process until [`Process::resume`]: all that is sent to it meanwhile is there at once when it goes on.
    pub fn pause(self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Returns true if all its threads are stopped.
    pub fn is_paused(self) -> anyhow::Result<bool> {
        let mut threads = self.proc_entry()?.tasks()?;
        threads.try_fold(true, |so_far, thread| Ok(so_far && thread?.status()?.state.starts_with('T')))
    }

    pub fn resume(self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn proc_entry(self) -> anyhow::Result<ProcEntry> {
        ProcEntry::new(self.0).with_context(|| format!("no process {}", self.0))
    }

    pub fn signal(self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.0).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }
}
