//! A run cut into intervals, those of the warm-up counted backwards from its end. A measuring thread hands its
//! histograms over when an interval has passed. Another thread reads, empties and returns them, so that the measuring
//! threads do nothing that takes long.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::tally::empty_histogram;
use crate::{clock::Nanos, protocol::RequestOutcome};

/// Counts of one thread in one interval.
#[derive(Debug)]
pub(crate) struct Slice {
    /// Number of the interval from the beginning of the window; negative in the warm-up.
    interval: i64,
    ok: u64,
    failed: u64,
    lag_max: Nanos,
    service: Histogram<u64>,
    response: Histogram<u64>,
    /// Channel by which it returns when it has been read.
    return_to: Sender<Box<Self>>,
}

/// One thread's part of a timeline.
#[derive(Debug)]
pub(crate) struct Slicer {
    width: Nanos,
    warmup: Nanos,
    current: Option<Box<Slice>>,
    out: Sender<Box<Slice>>,
    return_to: Sender<Box<Slice>>,
    returned: Receiver<Box<Slice>>,
}

impl Slicer {
    /// Cuts intervals of `width` nanoseconds, and sends those that have passed to `out`.
    pub(crate) fn new(width: Nanos, out: Sender<Box<Slice>>) -> Self {
        let (return_to, returned) = channel();
        Self { width: width.max(1), warmup: 0, current: None, out, return_to, returned }
    }

    /// Adds a warm-up of so many nanoseconds before the window.
    pub(super) fn with_warm_up(self, warmup: Nanos) -> Self {
        Self { warmup, ..self }
    }

    /// Adds `count` requests that had this outcome, `elapsed` after the window had begun. `response` is `Some` in an
    /// open loop.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        elapsed: Nanos,
        outcome: RequestOutcome,
        count: u64,
        service: Nanos,
        response: Option<Nanos>,
    ) {
        let interval = self.interval(elapsed);
        self.at(interval).count(outcome, count, service, response);
    }

    /// Does the same before the window, `since_origin` after the load began.
    pub(super) fn warm_up(
        &mut self,
        since_origin: Nanos,
        outcome: RequestOutcome,
        count: u64,
        service: Nanos,
        response: Option<Nanos>,
    ) {
        if let Some(interval) = self.warm_up_interval(since_origin) {
            self.at(interval).count(outcome, count, service, response);
        }
    }

    /// Adds a request that was sent late by the generator's own fault.
    #[inline]
    pub(crate) fn lag(&mut self, elapsed: Nanos, lag: Nanos) {
        let interval = self.interval(elapsed);
        let slice = self.at(interval);
        slice.lag_max = slice.lag_max.max(lag);
    }

    /// Does the same before the window.
    pub(super) fn warm_up_lag(&mut self, since_origin: Nanos, lag: Nanos) {
        if let Some(interval) = self.warm_up_interval(since_origin) {
            let slice = self.at(interval);
            slice.lag_max = slice.lag_max.max(lag);
        }
    }

    /// Hands over what has been counted.
    pub(crate) fn flush(&mut self) {
        if let Some(slice) = self.current.take() {
            // The receiver is gone only after everything has been counted.
            let _ = self.out.send(slice);
        }
    }

    #[inline]
    fn interval(&self, elapsed: Nanos) -> i64 {
        (elapsed / self.width).cast_signed()
    }

    /// Returns the interval of the warm-up. Whole intervals end where the warm-up was to end: what is left over at its
    /// beginning, and what comes between that end and the opening of the window, belongs to none.
    fn warm_up_interval(&self, since_origin: Nanos) -> Option<i64> {
        let left = self.warmup.checked_sub(since_origin).filter(|left| *left > 0)?;
        let back = left.div_ceil(self.width);
        (back * self.width <= self.warmup).then(|| -back.cast_signed())
    }

    #[inline]
    fn at(&mut self, interval: i64) -> &mut Slice {
        if self.current.as_ref().is_some_and(|slice| slice.interval != interval) {
            self.flush();
        }
        self.current.get_or_insert_with(|| match self.returned.try_recv() {
            Ok(slice) => Box::new(Slice { interval, ..*slice }),
            Err(_) => Box::new(Slice {
                interval,
                ok: 0,
                failed: 0,
                lag_max: 0,
                service: empty_histogram(),
                response: empty_histogram(),
                return_to: self.return_to.clone(),
            }),
        })
    }
}

impl Slice {
    #[inline]
    fn count(&mut self, outcome: RequestOutcome, count: u64, service: Nanos, response: Option<Nanos>) {
        if outcome.is_err() {
            self.failed += count;
            return;
        }
        self.ok += count;
        self.service.saturating_record_n(service, count);
        if let Some(response) = response {
            self.response.saturating_record_n(response, count);
        }
    }
}

/// Reader of slices on a thread of its own, until there are no more slicers.
#[derive(Debug)]
pub(crate) struct Collector {
    width: Nanos,
    out: Sender<Box<Slice>>,
    thread: JoinHandle<Timeline>,
}

impl Collector {
    pub(crate) fn start(width: Nanos) -> std::io::Result<Self> {
        let (out, slices) = channel::<Box<Slice>>();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut timeline = Timeline::new(width);
            slices.iter().for_each(|slice| timeline.absorb(slice));
            timeline
        })?;
        Ok(Self { width, out, thread })
    }

    pub(crate) fn slicer(&self) -> Slicer {
        Slicer::new(self.width, self.out.clone())
    }

    /// Returns the timeline. All slicers must be gone, or it waits for them.
    pub(crate) fn finish(self) -> Option<Timeline> {
        drop(self.out);
        self.thread.join().ok()
    }
}

/// Counts of all threads, interval by interval.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Timeline {
    /// Nanoseconds.
    width: Nanos,
    intervals: BTreeMap<i64, Interval>,
    /// Number of intervals by which the warm-up was shorter than its threads assumed when they numbered its intervals.
    #[serde(default)]
    unused: i64,
}

/// One interval.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Interval {
    pub ok: u64,
    pub failed: u64,
    /// Longest delay of a request by the generator's own fault, in nanoseconds.
    pub lag_max: Nanos,
    service: Sparse,
    response: Sparse,
}

/// Values of a histogram and their counts; an interval has few.
type Sparse = Vec<(u64, u64)>;

impl Timeline {
    pub(super) fn new(width: Nanos) -> Self {
        Self { width, intervals: BTreeMap::new(), unused: 0 }
    }

    /// Reads a slice, and sends it back empty.
    pub(super) fn absorb(&mut self, mut slice: Box<Slice>) {
        let interval = self.intervals.entry(slice.interval).or_default();
        interval.ok += slice.ok;
        interval.failed += slice.failed;
        interval.lag_max = interval.lag_max.max(slice.lag_max);
        let pairs = [(&mut slice.service, &mut interval.service), (&mut slice.response, &mut interval.response)];
        for (histogram, sparse) in pairs {
            sparse.extend(histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())));
            histogram.reset();
        }
        (slice.ok, slice.failed, slice.lag_max) = (0, 0, 0);
        let return_to = slice.return_to.clone();
        // Its thread may have ended.
        let _ = return_to.send(slice);
    }

    /// Adds another timeline of the same run, with intervals of the same length.
    pub(crate) fn merge(&mut self, other: Self) {
        for (index, theirs) in other.intervals {
            let ours = self.intervals.entry(index).or_default();
            ours.ok += theirs.ok;
            ours.failed += theirs.failed;
            ours.lag_max = ours.lag_max.max(theirs.lag_max);
            ours.service.extend(theirs.service);
            ours.response.extend(theirs.response);
        }
    }

    /// Returns the length of an interval, in nanoseconds.
    #[must_use]
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// Returns every interval from the window's beginning to the last with an outcome, those in which nothing happened
    /// included.
    pub fn intervals(&self) -> impl Iterator<Item = (u64, Interval)> + '_ {
        let end = self.intervals.last_key_value().map_or(0, |(last, _)| last + 1);
        (0..end).map(|index| (index.unsigned_abs(), self.at(index)))
    }

    /// Returns every interval of the warm-up from the first with an outcome on, each with the number of intervals by
    /// which it began before the window.
    pub fn warm_up(&self) -> impl Iterator<Item = (u64, Interval)> + '_ {
        let begin = self.intervals.first_key_value().map_or(0, |(first, _)| *first);
        (begin..-self.unused).map(|index| ((index + self.unused).unsigned_abs(), self.at(index)))
    }

    /// Takes note that the warm-up was `by` nanoseconds shorter than the slicers assumed.
    pub(super) fn end_warm_up_early(&mut self, by: Nanos) {
        self.unused = (by / self.width).cast_signed();
    }

    fn at(&self, index: i64) -> Interval {
        self.intervals.get(&index).cloned().unwrap_or_default()
    }
}

impl Interval {
    /// Returns the latencies from the actual sending, in nanoseconds.
    #[must_use]
    pub fn service(&self) -> Histogram<u64> {
        filled(&self.service)
    }

    /// Returns the latencies from the scheduled sending, in nanoseconds; empty in a closed loop.
    #[must_use]
    pub fn response(&self) -> Histogram<u64> {
        filled(&self.response)
    }
}

fn filled(sparse: &Sparse) -> Histogram<u64> {
    let mut histogram = empty_histogram();
    sparse.iter().for_each(|&(value, count)| histogram.saturating_record_n(value, count));
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn intervals_of_all_threads_add_up_and_gaps_are_intervals() {
        let (out, slices) = channel();
        let mut threads = [Slicer::new(100, out.clone()), Slicer::new(100, out)];
        for (at, thread) in [(0, 0), (99, 1), (100, 0), (350, 1), (350, 1)] {
            threads[thread].settle(at, Ok(()), 2, 1_000 + at, Some(2_000));
        }
        threads[0].settle(399, Err(ErrorClass::Reset), 3, 0, None);
        threads[0].lag(399, 17);
        threads.iter_mut().for_each(Slicer::flush);
        drop(threads);
        let mut timeline = Timeline::new(100);
        slices.iter().for_each(|slice| timeline.absorb(slice));
        let found: Vec<_> = timeline.intervals().map(|(index, row)| (index, row.ok, row.failed, row.lag_max)).collect();
        assert_eq!(found, [(0, 4, 0, 0), (1, 2, 0, 0), (2, 0, 0, 0), (3, 4, 3, 17)]);
        let (_, first) = timeline.intervals().next().expect("four");
        let service = first.service();
        assert_eq!((service.len(), service.min(), service.max(), first.response().len()), (4, 1_000, 1_099, 4));
    }

    #[test]
    fn warm_up_intervals_are_whole_and_end_at_the_window() {
        let (out, slices) = channel();
        let mut slicer = Slicer::new(100, out).with_warm_up(250);
        // The first 50 are no whole interval, and from 250 on the window is about to open.
        for since_origin in [0, 49, 50, 149, 150, 249, 250, 251] {
            slicer.warm_up(since_origin, Ok(()), 1, since_origin, None);
        }
        slicer.warm_up(60, Err(ErrorClass::Reset), 2, 0, None);
        slicer.warm_up_lag(60, 9);
        slicer.settle(0, Ok(()), 5, 1, None);
        slicer.flush();
        let mut timeline = Timeline::new(100);
        slices.try_iter().for_each(|slice| timeline.absorb(slice));
        let found = |row: Interval| (row.ok, row.failed, row.lag_max);
        let warm_up: Vec<_> = timeline.warm_up().map(|(back, row)| (back, found(row))).collect();
        assert_eq!(warm_up, [(2, (2, 2, 9)), (1, (2, 0, 0))]);
        let window: Vec<_> = timeline.intervals().map(|(index, row)| (index, found(row))).collect();
        assert_eq!(window, [(0, (5, 0, 0))]);
    }

    #[test]
    fn a_short_warm_up_also_ends_at_the_window() {
        let (out, slices) = channel();
        let mut slicer = Slicer::new(100, out).with_warm_up(1_000);
        // It was to be ten intervals at most, and was three; an outcome came before the window was open.
        for since_origin in [0, 150, 250, 299, 301] {
            slicer.warm_up(since_origin, Ok(()), 1, 1, None);
        }
        slicer.flush();
        let mut timeline = Timeline::new(100);
        slices.try_iter().for_each(|slice| timeline.absorb(slice));
        timeline.end_warm_up_early(700);
        let warm_up: Vec<_> = timeline.warm_up().map(|(back, row)| (back, row.ok)).collect();
        assert_eq!(warm_up, [(3, 1), (2, 1), (1, 2)]);
        assert_eq!(timeline.intervals().count(), 0);
    }

    #[test]
    fn a_slice_comes_back_empty_and_is_used_again() {
        let (out, slices) = channel();
        let mut slicer = Slicer::new(10, out);
        let mut timeline = Timeline::new(10);
        for at in 0..50 {
            slicer.settle(at * 10, Ok(()), 1, 5, None);
            slices.try_iter().for_each(|slice| timeline.absorb(slice));
        }
        slicer.flush();
        slices.try_iter().for_each(|slice| timeline.absorb(slice));
        assert!(timeline.intervals().all(|(_, row)| row.ok == 1 && row.service().len() == 1));
        assert_eq!(timeline.intervals().count(), 50);
    }

    #[test]
    fn timelines_of_processes_add_up_like_those_of_threads() {
        let count = |times: &[u64]| {
            let collector = Collector::start(100).expect("a thread");
            let mut slicer = collector.slicer();
            times.iter().for_each(|&at| slicer.settle(at, Ok(()), 1, at, None));
            slicer.flush();
            drop(slicer);
            collector.finish().expect("it does not panic")
        };
        let (mut ours, theirs, all) = (count(&[1, 2, 250]), count(&[3, 120]), count(&[1, 2, 3, 120, 250]));
        let text = serde_json::to_string(&theirs).expect("JSON");
        ours.merge(serde_json::from_str(&text).expect("a timeline"));
        for ((index, merged), (_, whole)) in ours.intervals().zip(all.intervals()) {
            assert_eq!((merged.ok, merged.service()), (whole.ok, whole.service()), "{index}");
        }
        assert_eq!(ours.intervals().count(), 3);
    }
}
