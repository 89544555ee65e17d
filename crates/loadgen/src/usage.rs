//! What another process has used: CPU time to the nanosecond, memory, context switches.

use std::{collections::HashMap, ffi::OsString, fs, path::PathBuf};

use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};

use crate::{
    instructions::{CounterError, InstructionCounter},
    result::ServerUsage,
};

/// Looks at one process.
#[derive(Debug)]
pub struct ServerProbe {
    pid: u32,
    clock: ClockId,
    proc: PathBuf,
    /// Nothing, if nobody wants them counted.
    instructions: Option<Result<InstructionCounter, CounterError>>,
}

/// What a process had used at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerReading {
    /// Seconds of all its threads, past ones included, from its CPU clock.
    pub cpu_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    pub rss_bytes: u64,
    /// Context switches of each thread that lives at this moment.
    switches: HashMap<OsString, Switches>,
    /// Since the probe began to count, if it does, or why that is not known.
    instructions: Option<Result<u64, String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

/// Why a process cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error("no process {0}")]
    NoProcess(u32),
    #[error("cannot read {path}: {why}")]
    Unreadable { path: PathBuf, why: std::io::Error },
    #[error("{0} is not in the format proc(5) describes")]
    Format(PathBuf),
}

impl ServerProbe {
    /// Fails if there is no such process.
    pub fn open(pid: u32) -> Result<Self, UsageError> {
        let raw = i32::try_from(pid).ok().filter(|&raw| raw > 0).ok_or(UsageError::NoProcess(pid))?;
        let clock = clock_getcpuclockid(Pid::from_raw(raw)).map_err(|_| UsageError::NoProcess(pid))?;
        let probe = Self { pid, clock, proc: PathBuf::from(format!("/proc/{pid}")), instructions: None };
        probe.read_after()?;
        Ok(probe)
    }

    /// Also counts instructions from now on, where that can be done.
    #[must_use]
    pub fn counting_instructions(self) -> Self {
        Self { instructions: Some(InstructionCounter::of_process(self.pid)), ..self }
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// For the beginning of a window: the CPU clock is read last.
    pub fn read_before(&self) -> Result<ServerReading, UsageError> {
        let reading = self.read_files()?;
        let instructions = self.instructions();
        Ok(ServerReading { cpu_s: self.cpu_s()?, instructions, ..reading })
    }

    /// For the end of a window: the CPU clock is read first.
    pub fn read_after(&self) -> Result<ServerReading, UsageError> {
        let (cpu_s, instructions) = (self.cpu_s()?, self.instructions());
        Ok(ServerReading { cpu_s, instructions, ..self.read_files()? })
    }

    /// The difference of two readings, as a result reports it. Context switches of threads that have ended in between
    /// are lost.
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
        Ok(std::time::Duration::from(time).as_secs_f64())
    }

    #[expect(clippy::cast_precision_loss, reason = "ticks of a process fit a double for ages")]
    fn read_files(&self) -> Result<ServerReading, UsageError> {
        let stat = self.proc.join("stat");
        let text = read(&stat)?;
        let (user, system) = parse_stat(&text).ok_or(UsageError::Format(stat))?;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let status = self.proc.join("status");
        let rss_kib = status_value(&read(&status)?, "VmRSS:").ok_or(UsageError::Format(status))?;
        Ok(ServerReading {
            cpu_s: 0.0,
            user_s: user as f64 / ticks,
            system_s: system as f64 / ticks,
            rss_bytes: rss_kib * 1024,
            switches: self.context_switches()?,
            instructions: None,
        })
    }

    /// Of every thread; one that ends while we look is left out.
    fn context_switches(&self) -> Result<HashMap<OsString, Switches>, UsageError> {
        let tasks = self.proc.join("task");
        let unreadable = |why| UsageError::Unreadable { path: tasks.clone(), why };
        let mut switches = HashMap::new();
        for task in fs::read_dir(&tasks).map_err(unreadable)?.flatten() {
            let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
            let value = |key| status_value(&status, key).unwrap_or(0);
            let (voluntary, involuntary) = (value("voluntary_ctxt_switches:"), value("nonvoluntary_ctxt_switches:"));
            switches.insert(task.file_name(), Switches { voluntary, involuntary });
        }
        Ok(switches)
    }
}

fn read(path: &PathBuf) -> Result<String, UsageError> {
    fs::read_to_string(path).map_err(|why| UsageError::Unreadable { path: path.clone(), why })
}

/// `utime` and `stime`, fields 14 and 15 of proc_pid_stat(5). The name in field 2 may contain anything, `)` included.
fn parse_stat(text: &str) -> Option<(u64, u64)> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The number behind a key of proc_pid_status(5).
fn status_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_the_last_parenthesis() {
        let text = "12 (a) R (b) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14";
        assert_eq!(parse_stat(text), Some((111, 222)));
    }

    #[test]
    fn status_keys_are_whole() {
        let text = "VmRSS:\t  123 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t8\n";
        assert_eq!(status_value(text, "VmRSS:"), Some(123));
        assert_eq!(status_value(text, "voluntary_ctxt_switches:"), Some(7));
        assert_eq!(status_value(text, "nonvoluntary_ctxt_switches:"), Some(8));
        assert_eq!(status_value(text, "Missing:"), None);
    }

    #[test]
    fn our_own_work_is_seen() {
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
    fn instructions_are_counted_or_it_is_said_why_not() {
        let probe = ServerProbe::open(std::process::id()).expect("we exist");
        let usage = |probe: &ServerProbe, before: &ServerReading, after: &ServerReading| {
            let usage = probe.between(before, after);
            (usage.instructions, usage.instructions_modes.is_some(), usage.instructions_unknown)
        };
        let read = |probe: &ServerProbe| probe.read_after().expect("readable");
        assert_eq!(usage(&probe, &read(&probe), &read(&probe)), (None, false, None), "nobody asked");
        let probe = probe.counting_instructions();
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
    fn a_process_that_is_not_there_is_an_error() {
        assert!(matches!(ServerProbe::open(0), Err(UsageError::NoProcess(0))));
        assert!(matches!(ServerProbe::open(u32::MAX), Err(UsageError::NoProcess(_))));
    }
}
