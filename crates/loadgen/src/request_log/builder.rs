//! One log made of what all recorders have kept.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Event, Numbered, OTHERS_PART, Reason, Reasons, Record, RequestLog, bounded::Ranked};
use crate::clock::Nanos;

/// The requests that a recorder has kept, or a piece of them. It can be serialised, for recorders of other processes.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct KeptRequests {
    pub(super) seen: u64,
    /// A list for each reason, in the order of [`Reason::ALL`].
    pub(super) lists: [Vec<Ranked<Numbered>>; Reason::ALL.len()],
}

impl KeptRequests {
    /// Cuts the whole into pieces of at most `most` requests.
    pub(crate) fn pieces(mut self, most: usize) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let mut piece = Self { seen: std::mem::take(&mut self.seen), ..Self::default() };
            let mut room = most;
            for (list, part) in self.lists.iter_mut().zip(&mut piece.lists) {
                *part = list.split_off(list.len().saturating_sub(room));
                room -= part.len();
            }
            (piece.seen > 0 || room < most).then_some(piece)
        })
    }
}

/// A request, and the number of the recorder that kept it.
type Sourced = (usize, Numbered);

/// Builder of a log from what all recorders have kept. It never holds more than twice what the log may have.
#[derive(Debug)]
pub(crate) struct LogBuilder {
    size: usize,
    seen: u64,
    pub(super) lists: [Vec<Ranked<Sourced>>; Reason::ALL.len()],
}

/// Names behind the numbers of a recorder.
pub(crate) trait LogNames {
    /// Returns the number, among all connections, of the one in `slot` of recorder `source`.
    fn connection(&self, source: usize, slot: usize) -> u64;

    /// Returns the name of an [`Event::operation`] of recorder `source`.
    fn operation(&self, source: usize, operation: u32) -> Arc<str>;
}

impl LogBuilder {
    /// Begins a log with a sample of `size` requests.
    pub(crate) fn new(size: usize) -> Self {
        Self { size, seen: 0, lists: Default::default() }
    }

    /// Adds what recorder `source` has kept.
    pub(crate) fn add(&mut self, source: usize, kept: KeptRequests) {
        self.seen += kept.seen;
        for ((&reason, whole), part) in Reason::ALL.iter().zip(&mut self.lists).zip(kept.lists) {
            let most = most(self.size, reason);
            for Ranked { rank, item } in part {
                whole.push(Ranked { rank, item: (source, item) });
                if whole.len() >= 2 * most {
                    keep_best(whole, most);
                }
            }
        }
    }

    /// Makes the log of a window that was opened at `opened`.
    pub(crate) fn read(self, opened: Nanos, names: &(impl LogNames + ?Sized)) -> RequestLog {
        let mut operations = BTreeMap::new();
        let mut records = BTreeMap::new();
        for (&reason, mut list) in Reason::ALL.iter().zip(self.lists) {
            keep_best(&mut list, most(self.size, reason));
            for Ranked { item: (source, Numbered { number, event }), .. } in list {
                let record = records.entry((event.finished, source, number));
                record.or_insert_with(|| read(source, &event, opened, names, &mut operations)).reasons.add(reason);
            }
        }
        RequestLog { seen: self.seen, records: records.into_values().collect() }
    }
}

/// Returns how many requests a log with a sample of `size` has at most for this reason.
fn most(size: usize, reason: Reason) -> usize {
    if reason == Reason::Sample { size } else { size.div_ceil(OTHERS_PART) }
}

fn keep_best(list: &mut Vec<Ranked<Sourced>>, most: usize) {
    list.sort_unstable_by(best_first);
    list.truncate(most);
}

/// Orders requests by rank, and those of the same rank by recency, so that the order of the recorders does not matter.
fn best_first(one: &Ranked<Sourced>, other: &Ranked<Sourced>) -> Ordering {
    let recency = |it: &Ranked<Sourced>| (it.item.1.number, std::cmp::Reverse(it.item.0));
    other.cmp(one).then_with(|| recency(other).cmp(&recency(one)))
}

fn read(
    source: usize,
    event: &Event,
    opened: Nanos,
    names: &(impl LogNames + ?Sized),
    operations: &mut BTreeMap<(usize, u32), Arc<str>>,
) -> Record {
    let since = |time: Nanos| time.wrapping_sub(opened).cast_signed();
    let mut name = |operation| {
        let name = operations.entry((source, operation)).or_insert_with(|| names.operation(source, operation));
        Arc::clone(name)
    };
    Record {
        reasons: Reasons::default(),
        scheduled: event.due.map(since),
        sent: event.sent.map(since),
        first_byte: event.first_byte.map(since),
        finished: since(event.finished),
        connection: event.connection.map(|slot| names.connection(source, slot)),
        operation: event.operation.map(&mut name),
        outcome: event.outcome,
        bytes: event.bytes,
    }
}

/// Serialises an outcome as null, or as the name of its class.
pub(super) mod outcome {
    use std::borrow::Cow;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use crate::{error::ErrorClass, protocol::RequestOutcome};

    pub(crate) fn serialize<S: Serializer>(outcome: &RequestOutcome, serializer: S) -> Result<S::Ok, S::Error> {
        outcome.err().map(ErrorClass::name).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RequestOutcome, D::Error> {
        let Some(name) = Option::<Cow<'de, str>>::deserialize(deserializer)? else { return Ok(Ok(())) };
        ErrorClass::from_name(&name).map(Err).ok_or_else(|| D::Error::custom(format!("no class of errors: {name}")))
    }
}
