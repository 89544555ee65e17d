//! What a process holds of the kernel's things, to see whether it gives them back.

use std::{thread, time::Duration};

use anyhow::Context;

use crate::{Process, eventually};

/// Two looks this far apart that see the same mean that nothing is under way.
const SETTLED: Duration = Duration::from_millis(150);

/// Counted from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceCounts {
    pub descriptors: usize,
    pub threads: usize,
}

impl Process {
    pub fn resources(self) -> anyhow::Result<ResourceCounts> {
        Ok(ResourceCounts { descriptors: self.descriptors()?, threads: self.threads()? })
    }

    /// What it holds once that does not change any more.
    pub fn settled_resources(self) -> anyhow::Result<ResourceCounts> {
        let mut last = self.resources()?;
        eventually("what the process holds settles", || {
            thread::sleep(SETTLED);
            let now = self.resources()?;
            Ok(std::mem::replace(&mut last, now) == now)
        })?;
        Ok(last)
    }

    /// Waits until it holds no more than `before`, but for `spare` descriptors and threads that may be kept for reuse.
    pub fn wait_until_released(self, before: ResourceCounts, spare: ResourceCounts) -> anyhow::Result<()> {
        eventually("descriptors and threads are back", || {
            let now = self.resources()?;
            Ok(now.descriptors <= before.descriptors + spare.descriptors
                && now.threads <= before.threads + spare.threads)
        })
        .with_context(|| format!("{before:?} before, {:?} after", self.resources()))
    }
}
