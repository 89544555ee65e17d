//! The clocks that `std` does not read (clock_gettime(2)).

use std::{io, time::Duration};

use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::{TimeVal, TimeValLike},
    },
    time::clock_getcpuclockid,
    unistd::Pid,
};
use rustix::time::{ClockId, clock_gettime};

/// Time since the Unix epoch, a few milliseconds coarse and a fifth of the price of a fine reading.
pub fn unix_coarse() -> Duration {
    read(ClockId::RealtimeCoarse)
}

/// Time since some moment, as coarse and as cheap; never set back.
pub fn monotonic_coarse() -> Duration {
    read(ClockId::MonotonicCoarse)
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// CPU time that a process has used, all threads, those that have ended included.
///
/// # Errors
/// ESRCH when there is no such process.
pub fn process_cpu(pid: i32) -> io::Result<Duration> {
    Ok(clock_getcpuclockid(Pid::from_raw(pid))?.now()?.into())
}

/// CPU time of a process's parts (getrusage(2)).
#[derive(Clone, Copy, Debug)]
pub struct CpuTimes {
    pub user: Duration,
    pub system: Duration,
}

/// Returns the time that all threads of this process have used together.
pub fn own_cpu() -> io::Result<CpuTimes> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(CpuTimes { user: duration(usage.user_time()), system: duration(usage.system_time()) })
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_coarse_clock_is_the_wall_clock() {
        let fine = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert!(fine.abs_diff(unix_coarse()) < Duration::from_secs(1));
    }

    #[test]
    fn cpu_time_of_a_process_grows_as_it_works() {
        let me = std::process::id() as i32;
        let before = process_cpu(me).unwrap();
        while process_cpu(me).unwrap() == before {}
        assert!(process_cpu(me).unwrap() > before);
    }
}
