//! CPU time of threads inside the window.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::clock::{self, Nanos};

/// CPU time, and how much of it was the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct CpuTime {
    pub total: Nanos,
    /// Part of [`Self::total`]. The kernel samples the mode in which a thread runs, some hundred times a second.
    pub system: Nanos,
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.system += other.system;
    }
}

/// CPU clock of this thread at the edges. A sleeping thread notices them late, but then its clock has stood still.
#[derive(Default)]
pub(crate) struct CpuWindow {
    start: Option<ThreadClocks>,
    end: Option<ThreadClocks>,
}

/// Clocks of a thread at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadClocks {
    /// Exact to the nanosecond.
    total: Nanos,
    user: Nanos,
    system: Nanos,
}

impl CpuWindow {
    pub(crate) fn note(&mut self, window: &Window, now: Nanos) {
        if self.start.is_none() && window.has_started(now) {
            self.start = Some(ThreadClocks::now());
        }
        if self.end.is_none() && window.has_ended(now) {
            self.end = Some(ThreadClocks::now());
        }
    }

    pub(crate) fn used(&self) -> CpuTime {
        ThreadClocks::between(self.start.unwrap_or_default(), self.end.unwrap_or_default())
    }
}

impl ThreadClocks {
    fn now() -> Self {
        let (user, system) = clock::thread_cpu_modes();
        Self { total: clock::thread_cpu(), user, system }
    }

    /// Returns the exact total, divided in the proportion of the sampled times.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a measured time"
    )]
    fn between(start: Self, end: Self) -> CpuTime {
        let total = end.total.saturating_sub(start.total);
        let (user, system) = (end.user.saturating_sub(start.user), end.system.saturating_sub(start.system));
        let share = if user + system > 0 { system as f64 / (user + system) as f64 } else { 0.0 };
        CpuTime { total, system: (total as f64 * share) as Nanos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_total_is_divided_as_the_sampled_times_are() {
        let start = ThreadClocks { total: 1_000, user: 5_000, system: 7_000 };
        let end = ThreadClocks { total: 9_000, user: 8_000, system: 8_000 };
        assert_eq!(ThreadClocks::between(start, end), CpuTime { total: 8_000, system: 2_000 });
        // Too short for the kernel to have looked.
        assert_eq!(
            ThreadClocks::between(start, ThreadClocks { total: 1_500, ..start }),
            CpuTime { total: 500, system: 0 }
        );
        // A window that never opened or never closed.
        assert_eq!(ThreadClocks::between(end, ThreadClocks::default()), CpuTime::default());
    }

    #[test]
    fn user_time_is_not_counted_as_kernel_time() {
        let window = Window::default();
        window.open(0);
        let mut cpu = CpuWindow::default();
        cpu.note(&window, 1);
        let until = clock::thread_cpu() + 200 * clock::MILLISECOND;
        while clock::thread_cpu() < until {
            // Long enough between two looks at the clock, which are system calls.
            (0..20_000).for_each(|_| std::hint::spin_loop());
        }
        cpu.note(&window, Nanos::MAX);
        let used = cpu.used();
        assert!(used.total >= 200 * clock::MILLISECOND, "{used:?}");
        assert!(used.system < used.total / 2, "{used:?}");
    }
}
