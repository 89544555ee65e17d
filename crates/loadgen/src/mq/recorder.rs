//! Statistics of one client, and their form between processes.

use std::{collections::BTreeMap, fmt, io};

use serde::{Deserialize, Serialize};
use wire::mserve::Status;

use crate::{
    clock::Nanos,
    engine::{Backlog, CpuTime, CpuWindow, Slicer, Tally, Timeline, Window},
    error::ErrorClass,
    histogram::{decode, encode},
    protocol::RequestOutcome,
    request_log::{Event, KeptRequests, Received, Recorder},
};

/// A request that is settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletedRequest {
    /// Number of the file among those of the load.
    pub(super) file: usize,
    pub(super) due: Nanos,
    /// Time from which the client had nothing else to do.
    pub(super) free: Nanos,
    /// Time at which the client began to put it on the queue, or would have.
    pub(super) sent: Nanos,
    /// True if it came to that.
    pub(super) was_tried: bool,
    pub(super) received: Received,
    pub(super) ended: Nanos,
    pub(super) outcome: RequestOutcome,
    pub(super) detail: Option<FailureDetail>,
}

/// Reason of a failure, where more is known than its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureDetail {
    /// Status in the header of a reply.
    Refused(Status),
    /// Error of the system call that made or opened a FIFO.
    System(i32),
}

impl fmt::Display for FailureDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "status {} ({})", status.byte(), status.name()),
            Self::System(number) => write!(f, "{}", io::Error::from_raw_os_error(*number)),
        }
    }
}

/// Statistics of one client.
pub(super) struct ClientRecorder<'a> {
    window: &'a Window,
    is_open_loop: bool,
    counts_by_issue: bool,
    pub(super) tally: Tally,
    pub(super) cpu: CpuWindow,
    slicer: Option<Slicer>,
    recorder: Option<Box<Recorder>>,
    backlog: Backlog,
    /// End of the last request.
    last: Nanos,
}

/// Statistics of a client that has ended.
#[derive(Debug)]
pub(super) struct ClientReport {
    pub(super) tally: Tally,
    /// Inside the window.
    pub(super) cpu: CpuTime,
    pub(super) last: Nanos,
    pub(super) was_abandoned: bool,
    /// Timeline of a process; threads share one.
    pub(super) timeline: Option<Timeline>,
    /// Requests for the log, until that has them.
    pub(super) kept: Option<KeptRequests>,
}

impl<'a> ClientRecorder<'a> {
    pub(super) fn new(window: &'a Window, is_open_loop: bool, counts_by_issue: bool) -> Self {
        Self {
            window,
            is_open_loop,
            counts_by_issue,
            tally: Tally::new(),
            cpu: CpuWindow::default(),
            slicer: None,
            recorder: None,
            backlog: Backlog::default(),
            last: 0,
        }
    }

    /// Adds a timeline, and a log of requests.
    pub(super) fn with(self, slicer: Option<Slicer>, recorder: Option<Recorder>) -> Self {
        Self { slicer, recorder: recorder.map(Box::new), ..self }
    }

    /// Counts bytes that have arrived, whatever becomes of their request.
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

    /// Takes note that a request that fell due at `due` leaves the client `now`, or fails in place of leaving. It was
    /// kept waiting if the one before had not ended when it fell due.
    pub(super) fn record_departure(&mut self, due: Nanos, now: Nanos) {
        if !self.is_open_loop {
            return;
        }
        let waiting = self.backlog.record_departure(due, due < self.last, now);
        if self.window.contains(due) {
            self.tally.backlog.saturating_record(waiting);
        }
    }

    /// The one place where requests are settled; the same rules as the engine's.
    pub(super) fn settle(&mut self, completed: CompletedRequest) {
        let CompletedRequest { due, free, sent, received, ended, outcome, detail, .. } = completed;
        self.last = self.last.max(ended);
        self.cpu.note(self.window, ended);
        let is_counted = match outcome {
            _ if self.counts_by_issue => self.window.has_started(due),
            Ok(()) => self.window.contains(ended),
            Err(_) => self.window.has_started(ended),
        };
        if !is_counted {
            return;
        }
        self.record(completed);
        if let Some(slicer) = &mut self.slicer {
            let response = self.is_open_loop.then(|| ended.saturating_sub(due));
            slicer.settle(self.window.elapsed(ended), outcome, 1, ended.saturating_sub(sent), response);
        }
        match outcome {
            Ok(()) => {
                let begin = if self.is_open_loop { due } else { sent };
                self.tally.ok += 1;
                self.tally.service.saturating_record(ended.saturating_sub(sent));
                if self.is_open_loop {
                    self.tally.response.saturating_record(ended.saturating_sub(due));
                    self.note_lag(sent.saturating_sub(due.max(free)), sent);
                }
                if let Some(first) = received.first_byte {
                    self.tally.first_byte.saturating_record(first.saturating_sub(begin));
                }
            }
            Err(class) => {
                self.tally.fail(class, 1);
                if let Some(detail) = detail {
                    self.tally.add_detail(class, detail.to_string(), 1);
                }
            }
        }
    }

    fn record(&mut self, completed: CompletedRequest) {
        let CompletedRequest {
            file,
            due,
            sent,
            was_tried,
            received: Received { first_byte, bytes },
            ended,
            outcome,
            ..
        } = completed;
        let Some(recorder) = &mut self.recorder else { return };
        recorder.add(Event {
            due: self.is_open_loop.then_some(due),
            sent: was_tried.then_some(sent),
            first_byte,
            finished: ended,
            connection: Some(0),
            operation: u32::try_from(file).ok(),
            outcome,
            bytes,
        });
    }

    fn note_lag(&mut self, lag: Nanos, sent: Nanos) {
        self.tally.lag.saturating_record(lag);
        if let Some(slicer) = &mut self.slicer {
            slicer.lag(self.window.elapsed(sent), lag);
        }
    }

    pub(super) fn close(mut self, was_abandoned: bool) -> ClientReport {
        self.cpu.note(self.window, Nanos::MAX);
        if let Some(slicer) = &mut self.slicer {
            slicer.flush();
        }
        let kept = self.recorder.map(|recorder| recorder.close());
        ClientReport { cpu: self.cpu.used(), tally: self.tally, last: self.last, was_abandoned, timeline: None, kept }
    }
}

/// A [`ClientReport`] as a process writes it, behind the requests for the log.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ReportMessage {
    ok: u64,
    errors: BTreeMap<String, u64>,
    details: BTreeMap<String, BTreeMap<String, u64>>,
    bytes_in: u64,
    bytes_out: u64,
    service: String,
    response: String,
    lag: String,
    backlog: String,
    first_byte: String,
    cpu: CpuTime,
    last: Nanos,
    was_abandoned: bool,
    timeline: Option<Timeline>,
}

impl From<&ClientReport> for ReportMessage {
    fn from(report: &ClientReport) -> Self {
        let tally = &report.tally;
        Self {
            ok: tally.ok,
            errors: tally.errors().map(|(class, count)| (class.name().to_owned(), count)).collect(),
            details: tally.details().iter().map(|(class, of)| (class.name().to_owned(), of.clone())).collect(),
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            service: encode(&tally.service),
            response: encode(&tally.response),
            lag: encode(&tally.lag),
            backlog: encode(&tally.backlog),
            first_byte: encode(&tally.first_byte),
            cpu: report.cpu,
            last: report.last,
            was_abandoned: report.was_abandoned,
            timeline: report.timeline.clone(),
        }
    }
}

impl ReportMessage {
    /// Decodes the report; `None` if it is not one of this version's.
    pub(super) fn read(&self) -> Option<ClientReport> {
        let mut tally = Tally::new();
        tally.ok = self.ok;
        for (name, count) in &self.errors {
            tally.fail(ErrorClass::from_name(name)?, *count);
        }
        for (name, details) in &self.details {
            let class = ErrorClass::from_name(name)?;
            details.iter().for_each(|(detail, count)| tally.add_detail(class, detail.clone(), *count));
        }
        (tally.bytes_in, tally.bytes_out) = (self.bytes_in, self.bytes_out);
        tally.service = decode(&self.service)?;
        tally.response = decode(&self.response)?;
        tally.lag = decode(&self.lag)?;
        tally.backlog = decode(&self.backlog)?;
        tally.first_byte = decode(&self.first_byte)?;
        let timeline = self.timeline.clone();
        let Self { cpu, last, was_abandoned, .. } = *self;
        Some(ClientReport { tally, cpu, last, was_abandoned, timeline, kept: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(window: &Window, is_open_loop: bool, counts_by_issue: bool) -> ClientRecorder<'_> {
        window.open(100);
        window.close(200);
        ClientRecorder::new(window, is_open_loop, counts_by_issue)
    }

    fn completed(due: Nanos, ended: Nanos, outcome: RequestOutcome) -> CompletedRequest {
        let received = Received { first_byte: Some(due + 7), bytes: 3 };
        CompletedRequest {
            file: 0,
            due,
            free: due + 2,
            sent: due + 5,
            was_tried: true,
            received,
            ended,
            outcome,
            detail: None,
        }
    }

    #[test]
    fn a_closed_loop_counts_answers_in_the_window_and_late_failures() {
        let window = Window::default();
        let mut recorder = recorder(&window, false, false);
        for (due, ended) in [(10, 99), (50, 100), (150, 199), (150, 200)] {
            recorder.settle(completed(due, ended, Ok(())));
            recorder.settle(completed(due, ended, Err(ErrorClass::Timeout)));
        }
        let report = recorder.close(false);
        assert_eq!((report.tally.ok, report.tally.failed(), report.last), (2, 3, 200));
        assert_eq!(report.tally.first_byte.max(), 2, "from the sending");
        assert!(report.tally.response.is_empty());
    }

    #[test]
    fn an_open_loop_counts_requests_due_in_the_window_however_late() {
        let window = Window::default();
        let mut recorder = recorder(&window, true, true);
        recorder.settle(completed(99, 150, Ok(())));
        recorder.settle(completed(100, 1_100, Ok(())));
        let tally = recorder.close(false).tally;
        assert_eq!((tally.ok, tally.response.max(), tally.service.max(), tally.first_byte.max()), (1, 1_000, 995, 7));
        assert_eq!(tally.lag.max(), 3, "until it was free nothing could be sent");
    }

    #[test]
    fn requests_due_before_the_window_count_only_as_backlog() {
        let window = Window::default();
        let mut recorder = recorder(&window, true, true);
        for (due, left, ended) in [(80, 85, 150), (90, 150, 160), (110, 160, 170), (180, 180, 190), (210, 210, 220)] {
            recorder.record_departure(due, left);
            recorder.settle(CompletedRequest { sent: left, ..completed(due, ended, Ok(())) });
        }
        let backlog = recorder.close(false).tally.backlog;
        assert_eq!((backlog.len(), backlog.max(), backlog.min()), (2, 2, 0), "of those due at 110 and 180");
    }

    #[test]
    fn a_report_survives_serialisation() {
        let window = Window::default();
        let mut recorder = recorder(&window, true, true);
        recorder.record_departure(120, 125);
        recorder.settle(completed(120, 4_000_000, Ok(())));
        recorder.record_departure(121, 4_000_000);
        let detail = Some(FailureDetail::Refused(Status::Overloaded));
        recorder.settle(CompletedRequest { detail, ..completed(121, 5_000, Err(ErrorClass::Status)) });
        recorder.received(77, 150);
        recorder.received(77, 250);
        recorder.sent(9, 150);
        let report = recorder.close(true);
        let text = serde_json::to_string(&ReportMessage::from(&report)).expect("JSON");
        let read = serde_json::from_str::<ReportMessage>(&text).expect("JSON").read().expect("a report");
        assert_eq!((read.tally.ok, read.tally.bytes_in, read.tally.bytes_out), (1, 77, 9));
        assert!(read.tally.errors().eq(report.tally.errors()));
        assert_eq!(read.tally.details()[&ErrorClass::Status]["status 10 (overloaded)"], 1);
        assert_eq!(read.tally.details(), report.tally.details());
        for (ours, theirs) in [
            (&report.tally.service, &read.tally.service),
            (&report.tally.response, &read.tally.response),
            (&report.tally.lag, &read.tally.lag),
            (&report.tally.backlog, &read.tally.backlog),
            (&report.tally.first_byte, &read.tally.first_byte),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!((read.tally.backlog.len(), read.tally.backlog.max()), (2, 1));
        assert_eq!((read.cpu, read.last, read.was_abandoned), (report.cpu, report.last, true));
    }
}
