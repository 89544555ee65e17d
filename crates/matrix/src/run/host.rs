//! The machine: its facts, and its load while a visit runs.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use loadgen::instructions::{CountedModes, InstructionCounter};
use nix::{
    sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use procfs::{CpuInfo, CpuTime, Current as _, CurrentSI as _, FromReadSI as _, KernelStats, LoadAverage, Meminfo};
use results::{Host, record::HostDuring};

use crate::plan::cpus::CpuList;

/// The facts a reader needs to judge the figures; what cannot be read is `None`.
pub(crate) fn facts() -> Result<Host> {
    let (open_files_soft, open_files_hard) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    let cpus = CpuInfo::current().ok();
    let flags = cpus.as_ref().and_then(|cpus| cpus.flags(0)).unwrap_or_default();
    Ok(Host {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").unwrap_or_default()),
        cpu_model: cpus.as_ref().and_then(|cpus| cpus.model_name(0)).unwrap_or_default().to_owned(),
        cores: cores()?,
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        smt: read("/sys/devices/system/cpu/smt/control"),
        virtual_machine: flags.contains(&"hypervisor"),
        mitigations: mitigations(),
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        transparent_hugepages: read("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| bracketed(&text)),
        somaxconn: read("/proc/sys/net/core/somaxconn").and_then(|text| text.parse().ok()),
        congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        port_range: read("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| {
            let mut ports = text.split_whitespace().map(str::parse);
            Some([ports.next()?.ok()?, ports.next()?.ok()?])
        }),
        open_files_soft,
        open_files_hard,
        load1: load1(),
        instruction_counter: Some(instruction_counter()),
        confinement: Some(confinement()),
    })
}

/// A server that confines itself has its system calls filtered, and its files checked when they are opened.
fn confinement() -> String {
    let landlock = sys::confinement::landlock_version().map(|version| format!("Landlock {version}"));
    let has_filters = Path::new("/proc/sys/kernel/seccomp").exists();
    let facilities: Vec<_> = landlock.into_iter().chain(has_filters.then(|| "seccomp".to_owned())).collect();
    if facilities.is_empty() { "none".to_owned() } else { facilities.join(", ") }
}

/// Servers are other processes of the same user: what may be counted here may be counted there.
fn instruction_counter() -> String {
    match InstructionCounter::for_process(std::process::id()).map(|counter| counter.modes()) {
        Ok(CountedModes::UserAndKernel) => "instructions of user and kernel are counted".to_owned(),
        Ok(CountedModes::User) => "instructions are counted, without the kernel's".to_owned(),
        Err(why) => format!("instructions are not counted ({why})"),
    }
}

pub(crate) fn cores() -> Result<u32> {
    let cores = std::thread::available_parallelism().context("cores")?.get();
    Ok(u32::try_from(cores).unwrap_or(u32::MAX))
}

/// The CPUs that share a core with this one, itself included; none where the kernel does not say.
pub(crate) fn siblings(cpu: usize) -> Vec<usize> {
    let text = read(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    text.and_then(|text| CpuList::parse(&text).ok()).map_or_else(Vec::new, |list| list.as_slice().to_vec())
}

/// One-minute load average.
pub(crate) fn load1() -> f64 {
    LoadAverage::current().map_or(0.0, |load| f64::from(load.one))
}

/// Servers and generator inherit the limit of open files; thousands of connections need the hard one.
pub(crate) fn raise_open_files() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("RLIMIT_NOFILE")
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The chosen word of a sysfs choice: `always [madvise] never` → `madvise`.
fn bracketed(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(word, _)| word).to_owned()
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return BTreeMap::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let state = read(entry.path())?;
            (state != "Not affected").then(|| (entry.file_name().to_string_lossy().into_owned(), state))
        })
        .collect()
}

/// Readings of the machine's clocks at one moment; two of them make a [`HostDuring`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    ticks: Ticks,
    /// CPU time of the measured server's process; zero where it runs on another machine.
    server: Duration,
    /// CPU time of this process and of every child it has waited for: the generator, once it has ended.
    ours: Duration,
}

impl Reading {
    /// `server` is that of a process of this machine.
    pub(crate) fn take(server: Option<u32>) -> Result<Self> {
        let stat = KernelStats::current().context("/proc/stat")?;
        let usage = |who| -> Result<Duration> {
            let usage = getrusage(who).context("getrusage")?;
            let micros = |time: nix::sys::time::TimeVal| {
                Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0))
            };
            Ok(micros(usage.user_time()) + micros(usage.system_time()))
        };
        let cpu = |pid: u32| -> Result<Duration> {
            let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).context("pid")?)).context("CPU clock")?;
            Ok(Duration::from(clock_gettime(clock).context("CPU clock")?))
        };
        Ok(Self {
            ticks: Ticks::new(&stat.total),
            server: server.map_or(Ok(Duration::ZERO), cpu)?,
            ours: usage(UsageWho::RUSAGE_SELF)? + usage(UsageWho::RUSAGE_CHILDREN)?,
        })
    }

    /// Returns the load of the machine since `earlier` and was not ours.
    /// `unread_s`: CPU time of a server here that is in neither reading.
    pub(crate) fn since(&self, earlier: &Self, elapsed: Duration, unread_s: f64) -> HostDuring {
        let ours = self.server.saturating_sub(earlier.server) + self.ours.saturating_sub(earlier.ours);
        let (steal, foreign) = self.ticks.since(&earlier.ticks, ours.as_secs_f64() + unread_s, elapsed);
        HostDuring { steal, foreign, load1: load1() }
    }
}

/// CPU time by which /proc/stat can be wrong by over an interval: it samples at each tick who runs, so that a share of
/// one core comes with a standard error of up to √n/2 ticks; three of them.
pub(crate) fn tick_error(elapsed: Duration) -> Duration {
    let ticks = elapsed.as_secs_f64() * ticks_per_second();
    Duration::from_secs_f64(1.5 * ticks.sqrt() / ticks_per_second())
}

pub(crate) fn ticks_per_second() -> f64 {
    procfs::ticks_per_second() as f64
}

/// Ticks of all cores since boot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    busy: u64,
    steal: u64,
    total: u64,
}

impl Ticks {
    /// The fraction of all cores' time that was stolen since `earlier`, and the busy time that was not `ours_s`, as a
    /// fraction of one core.
    pub(crate) fn since(&self, earlier: &Self, ours_s: f64, elapsed: Duration) -> (f64, f64) {
        let busy_s = self.busy.saturating_sub(earlier.busy) as f64 / ticks_per_second();
        let total = self.total.saturating_sub(earlier.total).max(1) as f64;
        let steal = self.steal.saturating_sub(earlier.steal) as f64 / total;
        (steal, (busy_s - ours_s).max(0.0) / elapsed.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Parses /proc/stat, which may be another machine's.
    pub(crate) fn parse(stat: &str) -> Result<Self> {
        let stat = KernelStats::from_read(stat.as_bytes(), procfs::current_system_info()).context("/proc/stat")?;
        Ok(Self::new(&stat.total))
    }

    fn new(time: &CpuTime) -> Self {
        // proc_stat(5): guest is counted in user.
        let interrupts = time.irq.unwrap_or(0) + time.softirq.unwrap_or(0);
        let (busy, steal) = (time.user + time.nice + time.system + interrupts, time.steal.unwrap_or(0));
        Self { busy, steal, total: busy + steal + time.idle + time.iowait.unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_busy_stolen_and_idle_time() {
        let stat =
            "cpu  100 10 50 1000 40 5 15 20 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nctxt 9\nbtime 1700000000\nprocesses 3\n";
        assert_eq!(Ticks::parse(stat).unwrap(), Ticks { busy: 180, steal: 20, total: 1240 });
        assert!(Ticks::parse("cpu  1 2 3\n").is_err());
        assert!(Ticks::parse("intr 5\n").is_err());
    }

    #[test]
    fn what_is_busy_and_not_ours_is_foreign() {
        let reading = |busy, steal, total, server_ms, ours_ms| Reading {
            ticks: Ticks { busy, steal, total },
            server: Duration::from_millis(server_ms),
            ours: Duration::from_millis(ours_ms),
        };
        let per_second = ticks_per_second() as u64;
        let before = reading(0, 0, 0, 500, 100);
        // One second on two cores: 1.8 s busy, of which the server had 0.9 s and we 0.7 s; 2 % of all time stolen.
        let after = reading(per_second * 18 / 10, per_second * 4 / 100, per_second * 2, 1_400, 800);
        let during = after.since(&before, Duration::from_secs(1), 0.0);
        assert!((during.foreign - 0.2).abs() < 1e-9 && (during.steal - 0.02).abs() < 1e-9, "{during:?}");
        let unread = after.since(&before, Duration::from_secs(1), 0.15);
        assert!((unread.foreign - 0.05).abs() < 1e-9, "{unread:?}");
        let idle = before.since(&before, Duration::from_secs(1), 0.0);
        assert_eq!((idle.foreign, idle.steal), (0.0, 0.0));
    }

    #[test]
    fn facts_of_this_machine_can_be_read() {
        let host = facts().unwrap();
        assert!(host.kernel.len() > "Linux ".len() && host.cores > 0 && host.memory_bytes > 0, "{host:?}");
        assert!(host.open_files_soft <= host.open_files_hard);
        Reading::take(Some(std::process::id())).unwrap();
    }

    #[test]
    fn the_chosen_word_of_a_sysfs_choice_is_in_brackets() {
        assert_eq!(bracketed("always [madvise] never"), "madvise");
        assert_eq!(bracketed("none"), "none");
    }
}
