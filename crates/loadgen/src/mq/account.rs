//! What a client counts, and how a process tells it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::engine::{CpuTime, CpuWindow, Slicer, Tally, Timeline, Window};
use crate::error::ErrorClass;
use crate::protocol::Verdict;
use crate::summary::{decode, encode};

/// A request, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) due: Nanos,
    /// When the client had nothing else to do.
    pub(super) free: Nanos,
    pub(super) sent: Nanos,
    pub(super) first_byte: Option<Nanos>,
    pub(super) ended: Nanos,
    pub(super) verdict: Verdict,
}

/// The books of one client.
pub(super) struct Account<'a> {
    window: &'a Window,
    is_open_loop: bool,
    counts_by_issue: bool,
    pub(super) tally: Tally,
    pub(super) cpu: CpuWindow,
    slicer: Option<Slicer>,
    /// When the last request ended.
    last: Nanos,
}

/// The books when they are closed.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) tally: Tally,
    /// Inside the window.
    pub(super) cpu: CpuTime,
    pub(super) last: Nanos,
    pub(super) was_abandoned: bool,
    /// Of a process; threads share one.
    pub(super) timeline: Option<Timeline>,
}

impl<'a> Account<'a> {
    pub(super) fn new(window: &'a Window, is_open_loop: bool, counts_by_issue: bool, slicer: Option<Slicer>) -> Self {
        let (tally, cpu) = (Tally::new(), CpuWindow::default());
        Self { window, is_open_loop, counts_by_issue, tally, cpu, slicer, last: 0 }
    }

    /// Bytes have arrived, whatever becomes of their request.
    #[inline]
    pub(super) fn received(&mut self, bytes: u64, now: Nanos) {
        self.cpu.note(self.window, now);
        if self.window.contains(now) {
            self.tally.bytes_in += bytes;
        }
    }

    pub(super) fn sent(&mut self, bytes: u64, now: Nanos) {
        if self.window.contains(now) {
            self.tally.bytes_out += bytes;
        }
    }

    /// The one place where requests get their verdict; the same rules as the engine's.
    pub(super) fn settle(&mut self, settled: Settled) {
        let Settled { due, free, sent, first_byte, ended, verdict } = settled;
        self.last = self.last.max(ended);
        self.cpu.note(self.window, ended);
        let is_counted = match verdict {
            _ if self.counts_by_issue => self.window.has_started(due),
            Ok(()) => self.window.contains(ended),
            Err(_) => self.window.has_started(ended),
        };
        if !is_counted {
            return;
        }
        if let Some(slicer) = &mut self.slicer {
            let response = self.is_open_loop.then(|| ended.saturating_sub(due));
            slicer.settle(self.window.elapsed(ended), verdict, 1, ended.saturating_sub(sent), response);
        }
        match verdict {
            Ok(()) => {
                let begin = if self.is_open_loop { due } else { sent };
                self.tally.ok += 1;
                self.tally.service.saturating_record(ended.saturating_sub(sent));
                if self.is_open_loop {
                    self.tally.response.saturating_record(ended.saturating_sub(due));
                    self.note_lag(sent.saturating_sub(due.max(free)), sent);
                }
                if let Some(first) = first_byte {
                    self.tally.first_byte.saturating_record(first.saturating_sub(begin));
                }
            }
            Err(class) => self.tally.fail(class, 1),
        }
    }

    fn note_lag(&mut self, lag: Nanos, sent: Nanos) {
        self.tally.lag.saturating_record(lag);
        if let Some(slicer) = &mut self.slicer {
            slicer.lag(self.window.elapsed(sent), lag);
        }
    }

    pub(super) fn close(mut self, was_abandoned: bool) -> Report {
        self.cpu.note(self.window, Nanos::MAX);
        if let Some(slicer) = &mut self.slicer {
            slicer.flush();
        }
        Report { cpu: self.cpu.used(), tally: self.tally, last: self.last, was_abandoned, timeline: None }
    }
}

/// A [`Report`] as a process writes it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Written {
    ok: u64,
    errors: BTreeMap<String, u64>,
    bytes_in: u64,
    bytes_out: u64,
    service: String,
    response: String,
    lag: String,
    first_byte: String,
    cpu: CpuTime,
    last: Nanos,
    was_abandoned: bool,
    timeline: Option<Timeline>,
}

impl From<&Report> for Written {
    fn from(report: &Report) -> Self {
        let tally = &report.tally;
        Self {
            ok: tally.ok,
            errors: tally.errors().map(|(class, count)| (class.name().to_owned(), count)).collect(),
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            service: encode(&tally.service),
            response: encode(&tally.response),
            lag: encode(&tally.lag),
            first_byte: encode(&tally.first_byte),
            cpu: report.cpu,
            last: report.last,
            was_abandoned: report.was_abandoned,
            timeline: report.timeline.clone(),
        }
    }
}

impl Written {
    /// The report; `None` if it is not one of this version's.
    pub(super) fn read(&self) -> Option<Report> {
        let mut tally = Tally::new();
        tally.ok = self.ok;
        for (name, count) in &self.errors {
            tally.fail(*ErrorClass::ALL.iter().find(|class| class.name() == name)?, *count);
        }
        (tally.bytes_in, tally.bytes_out) = (self.bytes_in, self.bytes_out);
        tally.service = decode(&self.service)?;
        tally.response = decode(&self.response)?;
        tally.lag = decode(&self.lag)?;
        tally.first_byte = decode(&self.first_byte)?;
        let timeline = self.timeline.clone();
        Some(Report { tally, cpu: self.cpu, last: self.last, was_abandoned: self.was_abandoned, timeline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(window: &Window, is_open_loop: bool, counts_by_issue: bool) -> Account<'_> {
        window.open(100);
        window.close(200);
        Account::new(window, is_open_loop, counts_by_issue, None)
    }

    fn settled(due: Nanos, ended: Nanos, verdict: Verdict) -> Settled {
        Settled { due, free: due + 2, sent: due + 5, first_byte: Some(due + 7), ended, verdict }
    }

    #[test]
    fn a_closed_loop_counts_answers_inside_the_window_and_failures_behind_it_too() {
        let window = Window::default();
        let mut account = account(&window, false, false);
        for (due, ended) in [(10, 99), (50, 100), (150, 199), (150, 200)] {
            account.settle(settled(due, ended, Ok(())));
            account.settle(settled(due, ended, Err(ErrorClass::Timeout)));
        }
        let report = account.close(false);
        assert_eq!((report.tally.ok, report.tally.failed(), report.last), (2, 3, 200));
        assert_eq!(report.tally.first_byte.max(), 2, "from the sending");
        assert!(report.tally.response.is_empty());
    }

    #[test]
    fn an_open_loop_counts_what_falls_due_inside_the_window_however_late_and_from_then_on() {
        let window = Window::default();
        let mut account = account(&window, true, true);
        account.settle(settled(99, 150, Ok(())));
        account.settle(settled(100, 1_100, Ok(())));
        let tally = account.close(false).tally;
        assert_eq!((tally.ok, tally.response.max(), tally.service.max(), tally.first_byte.max()), (1, 1_000, 995, 7));
        assert_eq!(tally.lag.max(), 3, "until it was free nothing could be sent");
    }

    #[test]
    fn a_report_survives_the_way_to_another_process() {
        let window = Window::default();
        let mut account = account(&window, true, true);
        account.settle(settled(120, 4_000_000, Ok(())));
        account.settle(settled(121, 5_000, Err(ErrorClass::QueueFull)));
        account.received(77, 150);
        account.received(77, 250);
        account.sent(9, 150);
        let report = account.close(true);
        let text = serde_json::to_string(&Written::from(&report)).expect("JSON");
        let read = serde_json::from_str::<Written>(&text).expect("JSON").read().expect("a report");
        assert_eq!((read.tally.ok, read.tally.bytes_in, read.tally.bytes_out), (1, 77, 9));
        assert!(read.tally.errors().eq(report.tally.errors()));
        for (ours, theirs) in [
            (&report.tally.service, &read.tally.service),
            (&report.tally.response, &read.tally.response),
            (&report.tally.lag, &read.tally.lag),
            (&report.tally.first_byte, &read.tally.first_byte),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!((read.cpu, read.last, read.was_abandoned), (report.cpu, report.last, true));
    }
}
