//! Judging it: from visits to a summary. Pure, so that the same files give the same figures at any time.

pub(crate) mod analysis;
pub(crate) mod flags;
pub(crate) mod latency;
pub(crate) mod load_sweep;
pub(crate) mod paired;
pub(crate) mod proportion;
pub(crate) mod raw;
pub(crate) mod significance;
pub(crate) mod stats;
pub(crate) mod windows;
