//! A bounded log of single requests.
//!
//! Memory does not grow with the run. The choice of requests does not depend on the number of threads: each keeps as many as the
//! whole may have, and the whole takes the best of all.

mod bounded;
mod builder;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::bounded::{LastItems, Ranked, TopRanked};
pub(crate) use self::builder::{KeptRequests, LogBuilder, LogNames};
pub use self::write::LogFormat;
use crate::{clock::Nanos, protocol::RequestOutcome};

/// Divisor of the sample's size, rounded up, for the number of the last, the slowest and the failed requests.
const OTHERS_PART: usize = 10;

/// Reason why a request is in the log. A request may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Chosen by chance; every request of the window has the same chance.
    Sample,
    /// One of the last that were settled.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Time at which it fell due; open loop only.
    pub(crate) due: Option<Nanos>,
    /// Time at which it was sent; `None` if it failed before that.
    pub(crate) sent: Option<Nanos>,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) finished: Nanos,
    /// Number of the connection among those of this thread.
    pub(crate) connection: Option<usize>,
    /// Number of the operation, as [`ClientProtocol::operation`](crate::protocol::ClientProtocol::operation) has it.
    pub(crate) operation: Option<u32>,
    #[serde(with = "builder::outcome")]
    pub(crate) outcome: RequestOutcome,
    pub(crate) bytes: u64,
}

impl Event {
    /// Returns the latency as the histogram has it.
    fn latency(&self) -> Nanos {
        self.due.or(self.sent).map_or(0, |begin| self.finished.saturating_sub(begin))
    }
}

/// The part of a reply, or of several together, that has been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Time at which the first byte was read.
    pub first_byte: Option<Nanos>,
    pub bytes: u64,
}

impl Received {
    #[inline]
    /// Counts more bytes.
    pub(crate) fn add(&mut self, bytes: u64, now: Nanos) {
        self.first_byte.get_or_insert(now);
        self.bytes += bytes;
    }
}

/// A request with its number in the thread, by which one with two reasons is known for one.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Numbered {
    number: u64,
    event: Event,
}

/// The documentation promises twice this much for each place, since collections grow by doubling.
const _: () = assert!(size_of::<Ranked<Numbered>>() <= 128);

/// Recorder of one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    rng: fastrand::Rng,
    seen: u64,
    sample: TopRanked<Numbered>,
    last: LastItems<Numbered>,
    slowest: TopRanked<Numbered>,
    failed: LastItems<Numbered>,
}

impl Recorder {
    /// Begins a sample of `size` requests. The thread's number and `seed` decide which ones.
    pub(crate) fn new(size: usize, seed: u64, thread: usize) -> Self {
        let others = size.div_ceil(OTHERS_PART);
        Self {
            // Not the sequence that a schedule or a choice of keys with the same seed draws from.
            rng: fastrand::Rng::with_seed(seed.rotate_left(17) ^ !(thread as u64)),
            seen: 0,
            sample: TopRanked::new(size),
            last: LastItems::new(others),
            slowest: TopRanked::new(others),
            failed: LastItems::new(others),
        }
    }

    /// Records a request that was counted.
    pub(crate) fn add(&mut self, event: Event) {
        let numbered = Numbered { number: self.seen, event };
        self.seen += 1;
        let finished = numbered.event.finished;
        match numbered.event.outcome {
            Ok(()) => self.slowest.offer(numbered.event.latency(), numbered.clone()),
            Err(_) => self.failed.push(finished, numbered.clone()),
        }
        self.last.push(finished, numbered.clone());
        self.sample.offer(self.rng.u64(..), numbered);
    }

    /// Ends the recording, and returns what was kept.
    pub(crate) fn close(self) -> KeptRequests {
        let Self { seen, sample, last, slowest, failed, .. } = self;
        KeptRequests {
            seen,
            lists: [sample.into_ranked(), last.into_ranked(), slowest.into_ranked(), failed.into_ranked()],
        }
    }
}

/// One request and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub reasons: Reasons,
    /// Scheduled time of sending; open loop only. All times are nanoseconds since the window opened, and negative before that.
    pub scheduled: Option<i64>,
    /// Time of sending or, where every request has a connection of its own, of the attempt to connect; `None` if it failed before that.
    pub sent: Option<i64>,
    /// Time at which the first byte of the reply was read; `None` if nothing came.
    pub first_byte: Option<i64>,
    /// Time at which it was settled.
    pub finished: i64,
    /// Number of the connection, from 0 over all threads; `None` if it never had one.
    pub connection: Option<u64>,
    /// Name of the operation; `None` for a failure that belongs to no request.
    pub operation: Option<Arc<str>>,
    pub outcome: RequestOutcome,
    /// Bytes of the reply that were read.
    pub bytes: u64,
}

/// Requests of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// Number of requests with an outcome that counts, logged or not.
    pub seen: u64,
    /// The logged requests, in the order in which they were settled.
    pub records: Vec<Record>,
}

#[cfg(test)]
mod tests;
