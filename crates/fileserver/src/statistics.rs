//! Counters of the server.

use service::Counters;
use wire::file::Status;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Answers by their status, in the order of [`Status::ALL`].
    pub answers: [u64; STATUSES],
    /// Bytes of documents queued for sending.
    pub document_bytes: u64,
    /// Documents found in the cache and known to be current, by a check or without one.
    pub hits: u64,
    /// Hits that needed a check by the back end.
    pub revalidations: u64,
    /// Documents that were not, or no longer, in the cache.
    pub misses: u64,
    /// Misses that waited for the load of another miss.
    pub coalesced: u64,
    /// Loads from the back end.
    pub loads: u64,
}

const STATUSES: usize = Status::ALL.len();
const BYTES: usize = 5;
const HITS: usize = 6;
const REVALIDATIONS: usize = 7;
const MISSES: usize = 8;
const COALESCED: usize = 9;
const LOADS: usize = 10;
const COUNTED: usize = 11;

/// Counters of one server.
pub(crate) type Totals = Counters<COUNTED>;

impl From<[u64; COUNTED]> for Statistics {
    fn from(sums: [u64; COUNTED]) -> Self {
        let mut answers = [0; STATUSES];
        answers.copy_from_slice(&sums[..STATUSES]);
        Self {
            answers,
            document_bytes: sums[BYTES],
            hits: sums[HITS],
            revalidations: sums[REVALIDATIONS],
            misses: sums[MISSES],
            coalesced: sums[COALESCED],
            loads: sums[LOADS],
        }
    }
}

impl Statistics {
    /// Number of requests answered.
    pub fn requests(&self) -> u64 {
        self.answers.iter().sum()
    }
}

/// Counts of one batch of requests; added to the totals once.
#[derive(Debug, Default)]
pub(crate) struct Tally([u64; COUNTED]);

impl Tally {
    #[inline]
    pub(crate) fn answer(&mut self, status: Status, bytes: u64) {
        self.0[usize::from(status.byte())] += 1;
        self.0[BYTES] += bytes;
    }

    #[inline]
    pub(crate) fn hit(&mut self) {
        self.0[HITS] += 1;
    }

    pub(crate) fn revalidation(&mut self) {
        self.0[REVALIDATIONS] += 1;
    }

    pub(crate) fn miss(&mut self) {
        self.0[MISSES] += 1;
    }

    pub(crate) fn coalesced(&mut self) {
        self.0[COALESCED] += 1;
    }

    pub(crate) fn load(&mut self) {
        self.0[LOADS] += 1;
    }

    #[inline]
    pub(crate) fn add_to(&self, totals: &Totals) {
        totals.add(&self.0);
    }
}
