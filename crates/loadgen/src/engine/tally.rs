//! Counts and histograms of a run.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::{
    clock::{Nanos, SECOND},
    error::ErrorClass,
};

use super::tls::Agreed;

/// Longest latency that is told apart; longer ones are recorded as this.
pub const LATENCY_NANOS_MAX: Nanos = 60 * SECOND;

const SIGNIFICANT_DIGITS: u8 = 3;

/// Counts and histograms of one thread, or of all threads.
#[derive(Clone, Debug)]
pub struct Tally {
    pub ok: u64,
    /// Part of [`Self::ok`]: a key was found.
    pub hits: u64,
    /// Part of [`Self::ok`]: a key was not found.
    pub misses: u64,
    errors: [u64; ErrorClass::ALL.len()],
    /// Words of the server behind failures, with their numbers. Not all failures have some.
    details: BTreeMap<ErrorClass, BTreeMap<String, u64>>,
    /// Connections opened again because the server had closed one between two requests.
    pub reconnects: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Number of TLS handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Everything that any handshake of the run ended in, its warm-up included.
    pub agreed: Vec<Agreed>,
    /// Duration of every TLS handshake, from the connection to its end, in nanoseconds.
    pub handshake: Histogram<u64>,
    /// Latency from the actual sending, in nanoseconds.
    pub service: Histogram<u64>,
    /// Latency from the scheduled sending, in nanoseconds; empty in a closed loop.
    pub response: Histogram<u64>,
    /// Time to the first byte of the reply, from when latency counts, in nanoseconds; empty where the protocol does not
    /// tell.
    pub first_byte: Histogram<u64>,
    /// Delay of requests of an open loop that were sent late although a connection was free, in nanoseconds.
    pub lag: Histogram<u64>,
    /// Number of requests of an open loop that waited for a connection when one fell due, itself included: one value
    /// for each request, counted over its own thread, or its own client of a queue.
    pub backlog: Histogram<u64>,
}

impl Tally {
    #[must_use]
    pub fn new() -> Self {
        Self {
            ok: 0,
            hits: 0,
            misses: 0,
            errors: [0; ErrorClass::ALL.len()],
            details: BTreeMap::new(),
            reconnects: 0,
            bytes_in: 0,
            bytes_out: 0,
            resumed: 0,
            agreed: Vec::new(),
            handshake: empty_histogram(),
            service: empty_histogram(),
            response: empty_histogram(),
            first_byte: empty_histogram(),
            lag: empty_histogram(),
            backlog: empty_histogram(),
        }
    }

    pub fn fail(&mut self, class: ErrorClass, count: u64) {
        self.errors[class as usize] += count;
    }

    /// Adds what the server said with `count` of the failures of a class.
    pub fn add_detail(&mut self, class: ErrorClass, detail: String, count: u64) {
        *self.details.entry(class).or_default().entry(detail).or_default() += count;
    }

    /// Returns what the server said, by class.
    #[must_use]
    pub fn details(&self) -> &BTreeMap<ErrorClass, BTreeMap<String, u64>> {
        &self.details
    }

    /// Returns the failures by class; classes that did not occur are included as 0.
    pub fn errors(&self) -> impl Iterator<Item = (ErrorClass, u64)> + '_ {
        ErrorClass::ALL.iter().copied().zip(self.errors)
    }

    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Takes note of what a handshake has ended in.
    pub(super) fn add_agreed(&mut self, agreed: Agreed) {
        if !self.agreed.contains(&agreed) {
            self.agreed.push(agreed);
        }
    }

    /// Adds another thread's figures.
    pub fn merge(&mut self, other: &Self) {
        self.ok += other.ok;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, part)| *sum += part);
        for (&class, details) in &other.details {
            details.iter().for_each(|(detail, count)| self.add_detail(class, detail.clone(), *count));
        }
        self.reconnects += other.reconnects;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.resumed += other.resumed;
        other.agreed.iter().for_each(|&agreed| self.add_agreed(agreed));
        for (sum, part) in [
            (&mut self.handshake, &other.handshake),
            (&mut self.service, &other.service),
            (&mut self.response, &other.response),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.lag, &other.lag),
            (&mut self.backlog, &other.backlog),
        ] {
            // Both have the same bounds, so adding cannot fail.
            let added = sum.add(part);
            debug_assert!(added.is_ok());
        }
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::expect_used, reason = "the arguments are constants, and a test makes one")]
pub(super) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, SIGNIFICANT_DIGITS).expect("valid bounds")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_everything() {
        let mut one = Tally::new();
        one.ok = 2;
        one.misses = 1;
        one.fail(ErrorClass::FdLimit, 1);
        one.add_detail(ErrorClass::FdLimit, "why".to_owned(), 1);
        one.service.saturating_record(2 * LATENCY_NANOS_MAX);
        let mut sum = one.clone();
        sum.merge(&one);
        assert_eq!((sum.ok, sum.hits, sum.misses, sum.failed(), sum.service.len()), (4, 0, 2, 2, 2));
        assert_eq!(sum.details()[&ErrorClass::FdLimit]["why"], 2);
        assert!(sum.errors().all(|(class, count)| count == if class == ErrorClass::FdLimit { 2 } else { 0 }));
    }
}
