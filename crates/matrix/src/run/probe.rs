//! Counters of a server's process while it was loaded, from two readings of /proc.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use procfs::{
    FromBufRead as _, FromRead as _,
    process::{Schedstat, Stat, Status},
};
use results::record::{CpuSource, ProcessDuring};

use crate::run::{
    host::{Ticks, ticks_per_second},
    machine::Files,
};

/// Unit of the sizes in proc_pid_status(5).
const KIB: u64 = 1024;

/// One reading.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    at: Instant,
    /// Ticks of the machine it runs on.
    pub(crate) ticks: Ticks,
    /// Which machine, and since when it runs.
    pub(crate) boot: String,
    user_ticks: u64,
    system_ticks: u64,
    minor_faults: u64,
    major_faults: u64,
    pub(crate) rss_bytes: u64,
    peak_rss_bytes: u64,
    threads: BTreeMap<String, Thread>,
}

/// proc_pid_schedstat and the context switches of one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    run: Duration,
    wait: Duration,
    voluntary: u64,
    involuntary: u64,
}

impl Snapshot {
    pub(crate) fn parse(files: &Files, pid: u32) -> Result<Self> {
        let file = |path: &str| files.get(path).with_context(|| format!("{path}: not there"));
        let path = format!("/proc/{pid}/status");
        let status = Status::from_buf_read(file(&path)?.as_bytes()).context(path)?;
        let path = format!("/proc/{pid}/stat");
        let stat = Stat::from_read(file(&path)?.as_bytes()).context(path)?;
        let tasks = format!("/proc/{pid}/task/");
        let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
        for (path, text) in files.iter().filter(|(path, _)| path.starts_with(&tasks)) {
            let Some((thread, name)) = path[tasks.len()..].split_once('/') else { continue };
            let thread = threads.entry(thread.to_owned()).or_default();
            match name {
                "schedstat" => {
                    let Ok(times) = Schedstat::from_read(text.as_bytes()) else { continue };
                    thread.run = Duration::from_nanos(times.sum_exec_runtime);
                    thread.wait = Duration::from_nanos(times.run_delay);
                }
                _ => {
                    // A thread that ended while it was read has counted nothing.
                    let Ok(status) = Status::from_buf_read(text.as_bytes()) else { continue };
                    thread.voluntary = status.voluntary_ctxt_switches.unwrap_or(0);
                    thread.involuntary = status.nonvoluntary_ctxt_switches.unwrap_or(0);
                }
            }
        }
        Ok(Self {
            at: Instant::now(),
            ticks: Ticks::parse(file("/proc/stat")?)?,
            boot: files.get("/proc/sys/kernel/random/boot_id").cloned().unwrap_or_default(),
            minor_faults: stat.minflt,
            major_faults: stat.majflt,
            user_ticks: stat.utime,
            system_ticks: stat.stime,
            rss_bytes: status.vmrss.context("VmRSS")? * KIB,
            peak_rss_bytes: status.vmhwm.unwrap_or(0) * KIB,
            threads,
        })
    }

    /// CPU time so far, of the threads that live where the scheduler's nanoseconds are to be had, and of all by the tick
    /// otherwise.
    fn cpu(&self) -> (Duration, Duration) {
        let by_threads = self.threads.values().map(|thread| thread.run).sum();
        let ticks = (self.user_ticks + self.system_ticks) as f64 / ticks_per_second();
        (by_threads, Duration::from_secs_f64(ticks))
    }

    /// Returns the difference to `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> ProcessDuring {
        let of_threads = |pick: fn(&Thread) -> u64| -> u64 {
            let difference =
                |(id, now): (&String, &Thread)| pick(now).saturating_sub(earlier.threads.get(id).map_or(0, pick));
            self.threads.iter().map(difference).sum()
        };
        let seconds = |ticks: u64, before: u64| ticks.saturating_sub(before) as f64 / ticks_per_second();
        let (user_s, system_s) =
            (seconds(self.user_ticks, earlier.user_ticks), seconds(self.system_ticks, earlier.system_ticks));
        let (by_threads, by_ticks) = (self.cpu().0, user_s + system_s);
        let precise = by_threads.saturating_sub(earlier.cpu().0).as_secs_f64();
        // What threads that have ended used is in the process's ticks only. Two ticks are rounding.
        let has_lost = precise + 2.0 / ticks_per_second() < by_ticks;
        let (cpu_s, cpu_source) = if has_lost { (by_ticks, CpuSource::Ticks) } else { (precise, CpuSource::Schedstat) };
        ProcessDuring {
            elapsed_s: (self.at - earlier.at).as_secs_f64(),
            cpu_s,
            cpu_source,
            user_s,
            system_s,
            run_queue_wait_s: Duration::from_nanos(of_threads(|thread| nanos(thread.wait))).as_secs_f64(),
            switches_voluntary: of_threads(|thread| thread.voluntary),
            switches_involuntary: of_threads(|thread| thread.involuntary),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            rss_bytes: self.rss_bytes,
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::machine::Machine;

    /// proc_pid_status(5) of this process, with other sizes and counts.
    fn status(rss_kib: u64, peak_kib: u64, voluntary: u64) -> String {
        let other = |line: &str| match line.split_once(':').map(|(key, _)| key) {
            Some("VmRSS") => format!("VmRSS:\t {rss_kib} kB\n"),
            Some("VmHWM") => format!("VmHWM:\t {peak_kib} kB\n"),
            Some("voluntary_ctxt_switches") => format!("voluntary_ctxt_switches:\t{voluntary}\n"),
            _ => format!("{line}\n"),
        };
        std::fs::read_to_string("/proc/self/status").unwrap().lines().map(other).collect()
    }

    fn files(user: u64, run_ns: u64, threads: &[&str]) -> Files {
        let mut files = Files::from([
            ("/proc/stat".to_owned(), "cpu  1 2 3 4 5 6 7 8\nctxt 9\nbtime 1\nprocesses 3\n".to_owned()),
            ("/proc/7/status".to_owned(), status(10, 20, 0)),
            (
                "/proc/7/stat".to_owned(),
                format!(
                    "7 (a) b) S 1 1 1 0 -1 0 {user} 0 3 0 {user} 2 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"
                ),
            ),
        ]);
        for thread in threads {
            let task = format!("/proc/7/task/{thread}");
            files.insert(format!("{task}/schedstat"), format!("{run_ns} {} 5\n", run_ns / 10));
            files.insert(format!("{task}/status"), status(10, 20, run_ns / 1_000_000));
        }
        files
    }

    fn during(before: &Files, after: &Files) -> ProcessDuring {
        let snapshot = |files| Snapshot::parse(files, 7).unwrap();
        snapshot(after).since(&snapshot(before))
    }

    #[test]
    fn two_readings_are_a_difference_of_all_threads() {
        let during = during(&files(10, 100_000_000, &["7", "8"]), &files(60, 350_000_000, &["7", "8"]));
        assert!((during.cpu_s - 0.5).abs() < 1e-9 && during.cpu_source == CpuSource::Schedstat, "{during:?}");
        assert!((during.run_queue_wait_s - 0.05).abs() < 1e-9);
        assert_eq!((during.switches_voluntary, during.minor_faults, during.major_faults), (500, 50, 0));
        assert_eq!((during.rss_bytes, during.peak_rss_bytes), (10 * 1024, 20 * 1024));
    }

    #[test]
    fn what_threads_that_have_ended_used_is_taken_from_the_process() {
        // A second by the tick, of which the thread that is left had a tenth.
        let during = during(&files(0, 0, &["7", "8"]), &files(100, 100_000_000, &["7"]));
        assert_eq!((during.cpu_s, during.cpu_source), (1.0, CpuSource::Ticks));
    }

    #[test]
    fn this_process_can_be_read_and_another_cannot() {
        let pid = std::process::id();
        let files = Machine::Here.read(pid).unwrap();
        let snapshot = Snapshot::parse(&files, pid).unwrap();
        assert!(snapshot.rss_bytes > 0 && !snapshot.boot.is_empty() && !snapshot.threads.is_empty());
        assert!(snapshot.cpu().0 > Duration::ZERO, "the scheduler keeps nanoseconds");
        assert!(Snapshot::parse(&files, 0).is_err());
    }
}
