//! Counters of the server.

use std::mem;

use file_cache::Lookup;
use service::Counters;
use wire::http1::{Status, coding::Coding};

use crate::observer::Answer;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Responses by class of status, from 1xx to 5xx.
    pub responses: [u64; 5],
    /// Bytes of heads and bodies queued for sending.
    pub bytes: u64,
    /// Responses from the cache without a check of the file system.
    pub cache_hits: u64,
    /// Cached files found unchanged by a check of the file system.
    pub cache_revalidations: u64,
    /// Files opened.
    pub file_opens: u64,
}

const RESPONSES: usize = 5;
const INTERIM: usize = 0;
const BYTES: usize = 5;
const HITS: usize = 6;
const REVALIDATIONS: usize = 7;
const OPENS: usize = 8;
const COUNTED: usize = 9;

/// Counters of one server.
pub(crate) type Totals = Counters<COUNTED>;

impl From<[u64; COUNTED]> for Statistics {
    fn from(sums: [u64; COUNTED]) -> Self {
        let mut responses = [0; RESPONSES];
        responses.copy_from_slice(&sums[..RESPONSES]);
        Self {
            responses,
            bytes: sums[BYTES],
            cache_hits: sums[HITS],
            cache_revalidations: sums[REVALIDATIONS],
            file_opens: sums[OPENS],
        }
    }
}

/// Counts of one batch of requests; added to the totals once.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [u64; COUNTED],
    /// Code of the status of the latest response.
    status: Option<u16>,
    /// Bytes of its body, where they have been noted.
    body_bytes: u64,
    /// Its content coding, where that has been noted.
    coding: Option<Coding>,
    /// Bytes of the responses that [`Tally::take_answer`] has returned.
    taken: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn response(&mut self, status: Status, bytes: u64) {
        self.response_of(status.code(), bytes);
    }

    /// Counts a response with a status that need not be one of ours.
    #[inline]
    pub(crate) fn response_of(&mut self, code: u16, bytes: u64) {
        self.counts[usize::from(code / 100 - 1).min(RESPONSES - 1)] += 1;
        self.counts[BYTES] += bytes;
        self.status = Some(code);
    }

    /// Counts bytes of a response beside its head.
    pub(crate) fn body(&mut self, bytes: u64) {
        self.counts[BYTES] += bytes;
        self.body_bytes += bytes;
    }

    /// Notes bytes of the body that have been counted with the head.
    pub(crate) fn note_body(&mut self, bytes: u64) {
        self.body_bytes += bytes;
    }

    /// Notes the content coding of the response.
    pub(crate) fn note_coding(&mut self, coding: Option<Coding>) {
        self.coding = coding;
    }

    /// Returns the response since the last call.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        let status = self.status.take()?;
        let bytes = self.counts[BYTES] - mem::replace(&mut self.taken, self.counts[BYTES]);
        let coding = self.coding.take();
        Some(Answer { status, bytes, body_bytes: mem::take(&mut self.body_bytes).min(bytes), coding })
    }

    /// Counts a 1xx, which is not the final response.
    pub(crate) fn interim(&mut self, bytes: u64) {
        self.counts[INTERIM] += 1;
        self.counts[BYTES] += bytes;
    }

    /// Number of requests that have been answered.
    #[inline]
    pub(crate) fn responses(&self) -> u64 {
        self.counts[INTERIM + 1..RESPONSES].iter().sum()
    }

    #[inline]
    pub(crate) fn lookup(&mut self, lookup: Lookup) {
        self.counts[match lookup {
            Lookup::Hit => HITS,
            Lookup::Revalidated => REVALIDATIONS,
            Lookup::Miss => OPENS,
        }] += 1;
    }

    #[inline]
    pub(crate) fn add_to(&self, totals: &Totals) {
        totals.add(&self.counts);
    }
}
