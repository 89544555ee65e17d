//! A run cut into intervals. A thread hands its histograms over when an interval has passed, and somebody else reads,
//! empties and returns them: the threads that measure do nothing that takes long.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::tally::empty_histogram;
use crate::clock::Nanos;
use crate::protocol::Verdict;

/// What one thread counted in one interval.
#[derive(Debug)]
pub(crate) struct Slice {
    interval: u64,
    ok: u64,
    failed: u64,
    lag_max: Nanos,
    service: Histogram<u64>,
    response: Histogram<u64>,
    /// Where it goes when it has been read.
    home: Sender<Box<Self>>,
}

/// One thread's part.
#[derive(Debug)]
pub(crate) struct Slicer {
    width: Nanos,
    current: Option<Box<Slice>>,
    out: Sender<Box<Slice>>,
    home: Sender<Box<Slice>>,
    returned: Receiver<Box<Slice>>,
}

impl Slicer {
    /// Intervals of `width` nanoseconds; what is full goes to `out`.
    pub(crate) fn new(width: Nanos, out: Sender<Box<Slice>>) -> Self {
        let (home, returned) = channel();
        Self { width: width.max(1), current: None, out, home, returned }
    }

    /// `count` requests got this verdict, `elapsed` after the window had begun. `response` is of an open loop.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        elapsed: Nanos,
        verdict: Verdict,
        count: u64,
        service: Nanos,
        response: Option<Nanos>,
    ) {
        let slice = self.at(elapsed);
        if verdict.is_err() {
            slice.failed += count;
            return;
        }
        slice.ok += count;
        slice.service.saturating_record_n(service, count);
        if let Some(response) = response {
            slice.response.saturating_record_n(response, count);
        }
    }

    /// A request was sent so late by our own fault.
    #[inline]
    pub(crate) fn lag(&mut self, elapsed: Nanos, lag: Nanos) {
        let slice = self.at(elapsed);
        slice.lag_max = slice.lag_max.max(lag);
    }

    /// Hands over what there is.
    pub(crate) fn flush(&mut self) {
        if let Some(slice) = self.current.take() {
            // Nobody listens only after everything has been counted.
            let _ = self.out.send(slice);
        }
    }

    #[inline]
    fn at(&mut self, elapsed: Nanos) -> &mut Slice {
        let interval = elapsed / self.width;
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
                home: self.home.clone(),
            }),
        })
    }
}

/// Reads slices on a thread of its own, until nobody makes any more.
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

    /// What was counted. All slicers must be gone, or it waits for them.
    pub(crate) fn finish(self) -> Option<Timeline> {
        drop(self.out);
        self.thread.join().ok()
    }
}

/// What all threads counted, interval by interval.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Timeline {
    /// Nanoseconds.
    width: Nanos,
    intervals: BTreeMap<u64, Interval>,
}

/// One interval.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Interval {
    pub ok: u64,
    pub failed: u64,
    /// The longest that a request was sent too late by the generator's own fault, nanoseconds.
    pub lag_max: Nanos,
    service: Sparse,
    response: Sparse,
}

/// A histogram's values and how often each occurred; an interval has few.
type Sparse = Vec<(u64, u64)>;

impl Timeline {
    pub(super) fn new(width: Nanos) -> Self {
        Self { width, intervals: BTreeMap::new() }
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
        let home = slice.home.clone();
        // Its thread may have ended.
        let _ = home.send(slice);
    }

    /// Adds what others counted in the same run, in intervals of the same length.
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

    /// Nanoseconds of each interval.
    #[must_use]
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// Every interval from the window's beginning to the last with a verdict, those in which nothing happened included.
    pub fn intervals(&self) -> impl Iterator<Item = (u64, Interval)> + '_ {
        let end = self.intervals.last_key_value().map_or(0, |(last, _)| last + 1);
        (0..end).map(|index| (index, self.intervals.get(&index).cloned().unwrap_or_default()))
    }
}

impl Interval {
    /// From the actual sending, nanoseconds.
    #[must_use]
    pub fn service(&self) -> Histogram<u64> {
        filled(&self.service)
    }

    /// From the scheduled sending, nanoseconds; empty in a closed loop.
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
    fn timelines_of_several_processes_add_up_as_those_of_threads_do() {
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
