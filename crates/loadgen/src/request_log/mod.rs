//! A bounded log of single requests: which ones are kept, and what is told of each.
//!
//! Memory does not grow with the run. What is kept of each kind does not depend on the number of threads: each keeps as
//! many as the whole may have, and the best of all are the whole.

mod gather;
mod keep;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::gather::{Gathered, Kept, Reader};
use self::keep::{Highest, Ranked, Ring};
pub use self::write::LogFormat;
use crate::{clock::Nanos, protocol::Verdict};

/// Of the last, the slowest and the failed requests a log has this part of what its sample may have, rounded up.
const OTHERS_PART: usize = 10;

/// Reason why a request is in the log. A request may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Chosen by chance; every request of the window has the same chance.
    Sample,
    /// One of the last that got their verdict.
    Last,
    /// One of the verified ones that took longest.
    Slowest,
    /// One of the last that failed.
    Failed,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Sample, Self::Last, Self::Slowest, Self::Failed];
}

/// The reasons of one request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reasons(u8);

impl Reasons {
    fn add(&mut self, reason: Reason) {
        self.0 |= 1 << reason as u8;
    }

    #[must_use]
    pub fn has(self, reason: Reason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }
}

/// One request as a thread saw it; times are those of the clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Event {
    /// Open loop only.
    pub(crate) due: Option<Nanos>,
    /// Nothing if it failed before it could be sent.
    pub(crate) sent: Option<Nanos>,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) finished: Nanos,
    /// Of those of this thread.
    pub(crate) connection: Option<usize>,
    /// As [`ClientProtocol::operation`](crate::protocol::ClientProtocol::operation) numbers them.
    pub(crate) operation: Option<u32>,
    #[serde(with = "gather::verdict")]
    pub(crate) verdict: Verdict,
    pub(crate) bytes: u64,
}

impl Event {
    /// What the histogram of latencies has of it.
    fn latency(&self) -> Nanos {
        self.due.or(self.sent).map_or(0, |begin| self.finished.saturating_sub(begin))
    }
}

/// What has come of a reply, or of several together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// When the first of it was read.
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) bytes: u64,
}

impl Heard {
    #[inline]
    pub(crate) fn more(&mut self, bytes: u64, now: Nanos) {
        self.first_byte.get_or_insert(now);
        self.bytes += bytes;
    }
}

/// Which of a thread's requests it is, so that one with two reasons is known for one.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Numbered {
    number: u64,
    event: Event,
}

/// Twice as much as this, as collections grow, is what the documentation promises for each place.
const _: () = assert!(size_of::<Ranked<Numbered>>() <= 128);

/// One thread's part.
#[derive(Debug)]
pub(crate) struct Recorder {
    rng: fastrand::Rng,
    seen: u64,
    sample: Highest<Numbered>,
    last: Ring<Numbered>,
    slowest: Highest<Numbered>,
    failed: Ring<Numbered>,
}

impl Recorder {
    /// For a sample of `size` requests. The thread's number and `seed` decide which ones.
    pub(crate) fn new(size: usize, seed: u64, thread: usize) -> Self {
        let others = size.div_ceil(OTHERS_PART);
        Self {
            // Not the sequence that a schedule or a choice of keys with the same seed draws from.
            rng: fastrand::Rng::with_seed(seed.rotate_left(17) ^ !(thread as u64)),
            seen: 0,
            sample: Highest::new(size),
            last: Ring::new(others),
            slowest: Highest::new(others),
            failed: Ring::new(others),
        }
    }

    /// Takes note of a request that was counted.
    pub(crate) fn add(&mut self, event: Event) {
        let numbered = Numbered { number: self.seen, event };
        self.seen += 1;
        let finished = numbered.event.finished;
        match numbered.event.verdict {
            Ok(()) => self.slowest.offer(numbered.event.latency(), numbered.clone()),
            Err(_) => self.failed.push(finished, numbered.clone()),
        }
        self.last.push(finished, numbered.clone());
        self.sample.offer(self.rng.u64(..), numbered);
    }

    /// Ends the recording.
    pub(crate) fn close(self) -> Kept {
        let Self { seen, sample, last, slowest, failed, .. } = self;
        Kept { seen, lists: [sample.into_ranked(), last.into_ranked(), slowest.into_ranked(), failed.into_ranked()] }
    }
}

/// One request and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub reasons: Reasons,
    /// When it should have been sent; open loop only. Nanoseconds since the window opened, as all times here, and
    /// negative before that.
    pub scheduled: Option<i64>,
    /// When it was sent, or the attempt to connect began where every request has a connection of its own; nothing if it
    /// failed before that.
    pub sent: Option<i64>,
    /// When something of the reply was first read; nothing if nothing came.
    pub first_byte: Option<i64>,
    /// When it got its verdict.
    pub finished: i64,
    /// Counted from 0 over all threads; nothing if it never had one.
    pub connection: Option<u64>,
    /// What was asked for; nothing for a failure that belongs to no request.
    pub operation: Option<Arc<str>>,
    pub verdict: Verdict,
    /// Of the reply, as far as it came.
    pub bytes: u64,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// How many requests got a verdict that counts, kept or not.
    pub seen: u64,
    /// In the order in which they got it.
    pub records: Vec<Record>,
}

#[cfg(test)]
mod tests;
