//! What a process holds of the kernel's things, to see whether it gives them back.

use std::{thread, time::Duration};

use anyhow::Context;

use crate::{Process, eventually};

/// Two looks this far apart that see the same mean that nothing is under way.
const SETTLED: Duration = Duration::from_millis(150);

/// Counted from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    pub descriptors: usize,
    pub threads: usize,
}

impl Process {
    pub fn holdings(self) -> anyhow::Result<Holdings> {
        Ok(Holdings { descriptors: self.descriptors()?, threads: self.threads()? })
    }

    /// What it holds once that does not change any more.
    pub fn settled_holdings(self) -> anyhow::Result<Holdings> {
        let mut last = self.holdings()?;
        eventually("what the process holds settles", || {
            thread::sleep(SETTLED);
            let now = self.holdings()?;
            Ok(std::mem::replace(&mut last, now) == now)
        })?;
        Ok(last)
    }

    /// Waits until it holds no more than `before`, but for `spare` descriptors and threads that may be kept for reuse.
    pub fn is_back_at(self, before: Holdings, spare: Holdings) -> anyhow::Result<()> {
        eventually("descriptors and threads are back", || {
            let now = self.holdings()?;
            Ok(now.descriptors <= before.descriptors + spare.descriptors
                && now.threads <= before.threads + spare.threads)
        })
        .with_context(|| format!("{before:?} before, {:?} after", self.holdings()))
    }
}
