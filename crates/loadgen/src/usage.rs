//! Usage of another process: CPU time to the nanosecond, memory, context switches.

use std::{collections::HashMap, time::Duration};

use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};
use procfs::{
    ProcError, ProcResult,
    process::{Process, Status},
};

use crate::{
    instructions::{CounterError, InstructionCounter},
    result::ServerUsage,
};

/// Observer of one process.
#[derive(Debug)]
pub struct ServerProbe {
    pid: u32,
    clock: ClockId,
    process: Process,
    /// `None` if instructions are not to be counted.
    instructions: Option<Result<InstructionCounter, CounterError>>,
}

/// Usage of a process up to one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReading {
    /// CPU time of all its threads, past ones included, from its CPU clock.
    pub cpu_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    pub rss_bytes: u64,
    /// Context switches of each thread that lives at this moment.
    switches: HashMap<i32, Switches>,
    /// Instructions since the probe began to count, if it does, or why they are not known.
    instructions: Option<Result<u64, String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

/// Reasons why a process cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error("no process {0}")]
    NoProcess(u32),
    #[error("cannot read what /proc has of process {pid}: {why}")]
    Proc { pid: u32, why: ProcError },
}

impl ServerProbe {
    /// Opens a process of which there is everything that a reading needs.
    ///
    /// # Errors
    /// There is no such process, or it cannot be observed.
    pub fn open(pid: u32) -> Result<Self, UsageError> {
        let raw = i32::try_from(pid).ok().filter(|&raw| raw > 0).ok_or(UsageError::NoProcess(pid))?;
        let clock = clock_getcpuclockid(Pid::from_raw(raw)).map_err(|_| UsageError::NoProcess(pid))?;
        let process = Process::new(raw).map_err(|why| UsageError::Proc { pid, why })?;
        let probe = Self { pid, clock, process, instructions: None };
        probe.read_after()?;
        Ok(probe)
    }

    /// Begins to count instructions as well, where that can be done.
    #[must_use]
    pub fn with_instructions(self) -> Self {
        Self { instructions: Some(InstructionCounter::for_process(self.pid)), ..self }
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Reads the usage at the beginning of a window: the CPU clock last.
    pub fn read_before(&self) -> Result<ServerReading, UsageError> {
        let reading = self.read_proc()?;
        let instructions = self.instructions();
        Ok(ServerReading { cpu_s: self.cpu_s()?, instructions, ..reading })
    }

    /// Reads the usage at the end of a window: the CPU clock first.
    pub fn read_after(&self) -> Result<ServerReading, UsageError> {
        let (cpu_s, instructions) = (self.cpu_s()?, self.instructions());
        Ok(ServerReading { cpu_s, instructions, ..self.read_proc()? })
    }

    /// Returns the difference of two readings, as a result reports it. Context switches of threads that have ended in
    /// between are lost.
    #[must_use]
    pub fn between(&self, before: &ServerReading, after: &ServerReading) -> ServerUsage {
        let mut switches = Switches::default();
        for (thread, now) in &after.switches {
            let then = before.switches.get(thread).copied().unwrap_or_default();
            switches.voluntary += now.voluntary.saturating_sub(then.voluntary);
            switches.involuntary += now.involuntary.saturating_sub(then.involuntary);
        }
        let (instructions, instructions_unknown) = match (&before.instructions, &after.instructions) {
            (Some(Ok(then)), Some(Ok(now))) => (Some(now.saturating_sub(*then)), None),
            (Some(Err(why)), _) | (_, Some(Err(why))) => (None, Some(why.clone())),
            (None, _) | (_, None) => (None, None),
        };
        let counter = self.instructions.as_ref().and_then(|counter| counter.as_ref().ok());
        ServerUsage {
            pid: self.pid,
            cpu_s: after.cpu_s - before.cpu_s,
            user_s: after.user_s - before.user_s,
            system_s: after.system_s - before.system_s,
            rss_bytes: after.rss_bytes,
            context_switches_voluntary: switches.voluntary,
            context_switches_involuntary: switches.involuntary,
            instructions,
            instructions_modes: counter.filter(|_| instructions.is_some()).map(InstructionCounter::modes),
            instructions_unknown,
        }
    }

    fn instructions(&self) -> Option<Result<u64, String>> {
        let counter = self.instructions.as_ref()?;
        let told = |why: &dyn std::fmt::Display| why.to_string();
        Some(counter.as_ref().map_err(|why| told(why)).and_then(|counter| counter.read().map_err(|why| told(&why))))
    }

    fn cpu_s(&self) -> Result<f64, UsageError> {
        let time = self.clock.now().map_err(|_| UsageError::NoProcess(self.pid))?;
        Ok(Duration::from(time).as_secs_f64())
    }

    fn read_proc(&self) -> Result<ServerReading, UsageError> {
        self.try_read_proc().map_err(|why| UsageError::Proc { pid: self.pid, why })
    }

    #[expect(clippy::cast_precision_loss, reason = "ticks of a process fit a double for ages")]
    fn try_read_proc(&self) -> ProcResult<ServerReading> {
        let (stat, status) = (self.process.stat()?, self.process.status()?);
        let ticks = procfs::ticks_per_second() as f64;
        let rss_kib = status.vmrss.ok_or_else(|| ProcError::Other("no VmRSS in its status".to_owned()))?;
        Ok(ServerReading {
            cpu_s: 0.0,
            user_s: stat.utime as f64 / ticks,
            system_s: stat.stime as f64 / ticks,
            rss_bytes: rss_kib * 1024,
            switches: self.context_switches()?,
            instructions: None,
        })
    }

    /// Returns the context switches of every thread; one that ends meanwhile is left out.
    fn context_switches(&self) -> ProcResult<HashMap<i32, Switches>> {
        let tasks = self.process.tasks()?.flatten();
        Ok(tasks.filter_map(|task| Some((task.tid, Switches::from(&task.status().ok()?)))).collect())
    }
}

impl From<&Status> for Switches {
    fn from(status: &Status) -> Self {
        Self {
            voluntary: status.voluntary_ctxt_switches.unwrap_or(0),
            involuntary: status.nonvoluntary_ctxt_switches.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_measured() {
        let probe = ServerProbe::open(std::process::id()).expect("we exist");
        let before = probe.read_before().expect("readable");
        let start = crate::clock::thread_cpu();
        while crate::clock::thread_cpu() - start < 20 * crate::clock::MILLISECOND {
            std::hint::spin_loop();
        }
        let usage = probe.between(&before, &probe.read_after().expect("readable"));
        assert!(usage.cpu_s >= 0.02, "{usage:?}");
        assert!(usage.rss_bytes > 0);
    }

    #[test]
    fn instructions_are_counted_or_the_reason_is_given() {
        let probe = ServerProbe::open(std::process::id()).expect("we exist");
        let usage = |probe: &ServerProbe, before: &ServerReading, after: &ServerReading| {
            let usage = probe.between(before, after);
            (usage.instructions, usage.instructions_modes.is_some(), usage.instructions_unknown)
        };
        let read = |probe: &ServerProbe| probe.read_after().expect("readable");
        assert_eq!(usage(&probe, &read(&probe), &read(&probe)), (None, false, None), "nobody asked");
        let probe = probe.with_instructions();
        let (number, has_modes, why_not) = usage(&probe, &read(&probe), &read(&probe));
        assert_eq!(number.is_some(), has_modes);
        assert_ne!(number.is_some(), why_not.is_some());

        let reading = |instructions: Result<u64, &str>| ServerReading {
            instructions: Some(instructions.map_err(str::to_owned)),
            ..ServerReading::default()
        };
        let (number, _, why_not) = usage(&probe, &reading(Ok(7)), &reading(Ok(10)));
        assert_eq!((number, why_not), (Some(3), None));
        let (number, _, why_not) = usage(&probe, &reading(Ok(7)), &reading(Err("shared")));
        assert_eq!((number, why_not.as_deref()), (None, Some("shared")));
    }

    #[test]
    fn a_missing_process_is_an_error() {
        assert!(matches!(ServerProbe::open(0), Err(UsageError::NoProcess(0))));
        assert!(matches!(ServerProbe::open(u32::MAX), Err(UsageError::NoProcess(_))));
    }
}
