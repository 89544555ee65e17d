//! Monotonic time as nanoseconds in a `u64`: cheap to compare, to share between threads and to subtract.

use std::time::Duration;

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub type Nanos = u64;

pub const MICROSECOND: Nanos = 1_000;
pub const MILLISECOND: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000_000_000;

/// Returns the time.
#[inline]
#[must_use]
pub fn now() -> Nanos {
    nanos_of(clock_gettime(ClockId::Monotonic))
}

/// Returns the CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu() -> Nanos {
    nanos_of(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the CPU time as the kernel divides it: in this program, and in the kernel on its behalf. Microseconds are
/// the unit of getrusage(2); the kernel finds out by sampling.
#[must_use]
pub fn thread_cpu_modes() -> (Nanos, Nanos) {
    let nanos = |time: TimeVal| Nanos::try_from(time.num_microseconds()).unwrap_or(0) * MICROSECOND;
    // It fails for no thread that asks about itself.
    getrusage(UsageWho::RUSAGE_THREAD).map_or((0, 0), |usage| (nanos(usage.user_time()), nanos(usage.system_time())))
}

/// Converts a duration to nanoseconds; longer than five centuries becomes five centuries.
#[must_use]
pub fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a measured time is not that precise")]
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Converts nanoseconds for a system call that sleeps.
#[must_use]
pub(crate) fn timespec(nanos: Nanos) -> Timespec {
    Timespec { tv_sec: i64::try_from(nanos / SECOND).unwrap_or(i64::MAX), tv_nsec: (nanos % SECOND).cast_signed() }
}

fn nanos_of(time: Timespec) -> Nanos {
    time.tv_sec.cast_unsigned() * SECOND + time.tv_nsec.cast_unsigned()
}
