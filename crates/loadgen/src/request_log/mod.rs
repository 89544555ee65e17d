//! A bounded log of single requests: which ones are kept, and what is told of each.
//!
//! Memory does not grow with the run. What is kept of each kind does not depend on the number of threads: each keeps as
//! many as the whole may have, and the best of all are the whole.

mod keep;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::keep::{Highest, Ranked, Ring};
use crate::clock::Nanos;
use crate::protocol::{ClientProtocol, Verdict};

pub use self::write::Format;

/// Of the last, the slowest and the failed requests a log has this part of what its sample may have, rounded up.
const OTHERS_PART: usize = 10;

/// Declares the reasons once: the enum, [`Reason::ALL`] and the names of columns cannot differ.
macro_rules! reasons {
    ($($(#[doc = $about:literal])+ $reason:ident = $name:literal,)+) => {
        /// Why a request is in the log. One may have several.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Reason { $($(#[doc = $about])+ $reason,)+ }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$reason,)+];

            /// The column that says so.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)+ }
            }
        }
    };
}

reasons! {
    /// Chosen by chance, every request of the window alike
    Sample = "in_sample",
    /// One of the last that got their verdict
    Last = "in_last",
    /// One of the verified ones that took longest
    Slowest = "in_slowest",
    /// One of the last that failed
    Failed = "in_failed",
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
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Open loop only.
    pub(crate) due: Option<Nanos>,
    /// Nothing if it failed before it could be sent.
    pub(crate) sent: Option<Nanos>,
    pub(crate) first_byte: Option<Nanos>,
    pub(crate) finished: Nanos,
    /// Of those of this thread.
    pub(crate) connection: Option<usize>,
    /// As [`ClientProtocol::operation`] numbers them.
    pub(crate) operation: Option<u32>,
    pub(crate) verdict: Verdict,
    pub(crate) bytes: u64,
}

impl Event {
    /// What the histogram of latencies has of it.
    fn latency(&self) -> Nanos {
        self.due.or(self.sent).map_or(0, |begin| self.finished.saturating_sub(begin))
    }
}

/// Which of a thread's requests it is, so that one with two reasons is known for one.
#[derive(Clone, Debug)]
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

/// One thread's recorder, and what is needed to read it.
pub(crate) struct Part<'a, P> {
    pub(crate) recorder: Recorder,
    pub(crate) protocol: &'a P,
    /// The number of the thread's first connection among all.
    pub(crate) first_connection: u64,
}

impl RequestLog {
    /// Of all threads, in a window that was opened at `opened`.
    pub(crate) fn merge<P: ClientProtocol>(size: usize, opened: Nanos, parts: Vec<Part<'_, P>>) -> Self {
        let others = size.div_ceil(OTHERS_PART);
        let mut seen = 0;
        let mut kept: [Vec<Ranked<(usize, Numbered)>>; Reason::ALL.len()] = Default::default();
        let mut readers = Vec::new();
        for (thread, Part { recorder, protocol, first_connection }) in parts.into_iter().enumerate() {
            let Recorder { seen: count, sample, last, slowest, failed, .. } = recorder;
            seen += count;
            let all = [sample.into_ranked(), last.into_ranked(), slowest.into_ranked(), failed.into_ranked()];
            for (whole, part) in kept.iter_mut().zip(all) {
                whole.extend(part.into_iter().map(|Ranked { rank, thing }| Ranked { rank, thing: (thread, thing) }));
            }
            readers.push(Reader { protocol, first_connection, opened, names: BTreeMap::new() });
        }
        let mut records = BTreeMap::new();
        for (&reason, mut ranked) in Reason::ALL.iter().zip(kept) {
            ranked.sort_by(|one, other| other.cmp(one).then(other.thing.1.number.cmp(&one.thing.1.number)));
            ranked.truncate(if reason == Reason::Sample { size } else { others });
            for Ranked { thing: (thread, Numbered { number, event }), .. } in ranked {
                let record = records.entry((event.finished, thread, number));
                record.or_insert_with(|| readers[thread].record(&event)).reasons.add(reason);
            }
        }
        Self { seen, records: records.into_values().collect() }
    }
}

/// Makes records of a thread's events.
struct Reader<'a, P> {
    protocol: &'a P,
    first_connection: u64,
    opened: Nanos,
    names: BTreeMap<u32, Arc<str>>,
}

impl<P: ClientProtocol> Reader<'_, P> {
    fn record(&mut self, event: &Event) -> Record {
        let since = |time: Nanos| time.wrapping_sub(self.opened).cast_signed();
        let name = |operation| self.protocol.operation_name(operation).into();
        Record {
            reasons: Reasons::default(),
            scheduled: event.due.map(since),
            sent: event.sent.map(since),
            first_byte: event.first_byte.map(since),
            finished: since(event.finished),
            connection: event.connection.map(|slot| self.first_connection + slot as u64),
            operation: event
                .operation
                .map(|operation| Arc::clone(self.names.entry(operation).or_insert_with(|| name(operation)))),
            verdict: event.verdict,
            bytes: event.bytes,
        }
    }
}

#[cfg(test)]
mod tests;
