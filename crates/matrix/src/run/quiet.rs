//! Wait until the machine is idle enough to be measured. The load average is no guide to that: it remembers the build of a
//! minute ago.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::run::host::Reading;

/// Limit of what others may use, in cores. [`results::Flag::Noisy`] marks single visits at a tenth of it.
const BUSY_MAX: f64 = 0.5;
const LOOK: Duration = Duration::from_millis(500);
/// Limit of the wait, half a minute: what was just built is still being written to the disk, and what was stopped may take
/// a while to end.
const LOOKS_MAX: u32 = 60;
/// Look after which the wait is announced.
const LOOKS_QUIETLY: u32 = 4;

/// Waits until nothing else uses more than half a core.
///
/// # Errors
/// It does not end within half a minute.
pub(crate) fn wait() -> Result<()> {
    settle(used_by_others, |used| eprintln!("waiting for a quiet machine: something else uses {used:.1} cores"))
}

/// Warns where something else uses more than half a core, and does not wait.
pub(crate) fn warn() -> Result<()> {
    let used = used_by_others()?;
    if used > BUSY_MAX {
        eprintln!("warning: something else uses {used:.1} cores: expect larger noise");
    }
    Ok(())
}

fn settle(mut used: impl FnMut() -> Result<f64>, announce: impl Fn(f64)) -> Result<()> {
    let mut last = 0.0;
    for look in 1..=LOOKS_MAX {
        last = used()?;
        if last <= BUSY_MAX {
            return Ok(());
        }
        if look == LOOKS_QUIETLY {
            announce(last);
        }
    }
    bail!("the machine is busy: something else uses {last:.1} cores (--force measures all the same)")
}

/// Cores that others used over a [`LOOK`].
fn used_by_others() -> Result<f64> {
    let (before, began) = (Reading::take(None)?, Instant::now());
    std::thread::sleep(LOOK);
    Ok(Reading::take(None)?.since(&before, began.elapsed(), 0.0).foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_measured_when_calm_and_refused_when_not() {
        let announced = std::cell::Cell::new(0);
        let announce = |_| announced.set(announced.get() + 1);
        let mut looks = [1.7, 0.6, 0.4].into_iter();
        settle(|| Ok(looks.next().unwrap()), announce).unwrap();
        assert_eq!(announced.get(), 0, "a second and a half is not worth a word");
        let mut count = 0;
        let busy = || {
            count += 1;
            Ok(1.25)
        };
        let error = settle(busy, announce);
        assert_eq!(announced.get(), 1);
        let error = error.unwrap_err().to_string();
        assert!(count == LOOKS_MAX && error.contains("1.2 cores (--force"), "{count} {error}");
        assert!(used_by_others().unwrap() >= 0.0);
    }
}
