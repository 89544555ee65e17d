//! Records of requests for an operator: the access log, and how long they took.
//!
//! A response is done when the kernel has taken its last byte. So each connection of a server that is observed keeps a
//! queue of the responses that have been written to its outbox and have not left.

use std::{
    fmt, mem,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Now, Peer, PeerAddress};
use service::{Departures, Histogram, LineWriter};
use wire::http1::{Request, coding::Coding};

pub(crate) use crate::access_log::LoggedNames;
use crate::access_log::{AccessLog, AccessLogFormat, LoggedRequest, LoggedResponse};

/// Limit of the text of records that wait for their responses to leave, per connection and in bytes. Those above it are
/// written before that, as incomplete.
const TEXT_MAX: usize = 64 * 1024;
/// Memory for records that an idle connection keeps, in bytes.
const TEXT_KEPT: usize = 1024;
/// Status of a record whose request was not answered, since its client was gone: nginx has it, and no client ever sees
/// it.
const UNANSWERED: u16 = 499;

/// Recorder of the requests of one server.
#[derive(Debug, Default)]
pub struct Observer {
    log: Option<AccessLog>,
    /// By class of status, from 2xx to 5xx.
    durations: Option<Box<[Histogram; 4]>>,
}

impl Observer {
    /// Adds the access log.
    #[must_use]
    pub fn with_access_log(mut self, writer: LineWriter, format: AccessLogFormat) -> Self {
        self.log = Some(AccessLog { writer, format });
        self
    }

    /// Adds histograms of durations.
    #[must_use]
    pub fn with_durations(mut self) -> Self {
        self.durations = Some(Box::default());
        self
    }

    /// True if there is anything to record.
    pub fn is_needed(&self) -> bool {
        self.log.is_some() || self.durations.is_some()
    }

    /// Returns the histograms with their classes of status.
    pub(crate) fn durations(&self) -> Option<impl Iterator<Item = (&'static str, &Histogram)>> {
        let durations = self.durations.as_ref()?;
        Some(["2xx", "3xx", "4xx", "5xx"].into_iter().zip(durations.iter()))
    }
}

/// Response as the code that wrote it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes in the outbox.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) coding: Option<Coding>,
}

/// Requests of one connection that have been read and whose responses have not left.
pub(crate) struct ObservedRequests {
    observer: Arc<Observer>,
    /// Address of the client, without its port.
    client: Box<str>,
    /// Arrival of the input that is not consumed yet.
    arrived: Option<Instant>,
    /// Request that is not answered yet.
    begun: Option<Record>,
    responses: Departures<PendingResponse>,
    /// Texts of the records in `responses` and of `begun`, in order.
    text: Vec<u8>,
    /// Length of the text that has been written already.
    written: usize,
    /// Number of `responses` whose records have been written too early.
    logged: usize,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    arrived: Instant,
    len: usize,
    before_status: usize,
}

#[derive(Clone, Copy, Debug)]
struct PendingResponse {
    record: Record,
    answer: Answer,
    /// Time from the first byte of the request to the first of the response.
    first_byte: Option<Duration>,
}

impl PendingResponse {
    /// Record of it once all has been sent.
    fn complete(&self, duration: Duration) -> LoggedResponse {
        let Answer { status, bytes, body_bytes, coding } = self.answer;
        let first_byte = self.first_byte.or(Some(duration));
        LoggedResponse { status, bytes, body_bytes, coding, first_byte, duration, is_complete: true }
    }

    /// Record of it where no more than so many bytes will have been sent.
    fn incomplete(&self, bytes: u64, duration: Duration) -> LoggedResponse {
        let Answer { status, coding, .. } = self.answer;
        let body_bytes = bytes.saturating_sub(self.answer.bytes - self.answer.body_bytes);
        let is_complete = bytes == self.answer.bytes;
        let first_byte = self.first_byte.or_else(|| (bytes > 0).then_some(duration));
        LoggedResponse { status, bytes, body_bytes, coding, first_byte, duration, is_complete }
    }
}

impl ObservedRequests {
    #[cold]
    pub(crate) fn new(observer: &Arc<Observer>, peer: Peer<'_>) -> Box<Self> {
        let client = match peer.address() {
            PeerAddress::Tcp(address) => address.ip().to_canonical().to_string(),
            PeerAddress::Unix => "unix:".to_owned(),
            PeerAddress::Unknown => "-".to_owned(),
        };
        Self::of_client(observer, client.into())
    }

    fn of_client(observer: &Arc<Observer>, client: Box<str>) -> Box<Self> {
        Box::new(Self {
            observer: Arc::clone(observer),
            client,
            arrived: None,
            begun: None,
            responses: Departures::default(),
            text: Vec::new(),
            written: 0,
            logged: 0,
            line: Vec::new(),
        })
    }

    /// Notes for whom the peer, a proxy, speaks.
    pub(crate) fn set_client(&mut self, client: SocketAddr) {
        self.client = client.ip().to_canonical().to_string().into();
    }

    /// Returns a recorder of the requests of one stream of this connection.
    #[cold]
    pub(crate) fn of_stream(&self) -> Box<Self> {
        Self::of_client(&self.observer, self.client.clone())
    }

    /// Notes a request whose head has been read; `head` is the input that it begins.
    pub(crate) fn begin(&mut self, request: &Request<'_>, head: &[u8], names: LoggedNames<'_>, now: Now) {
        let field = |name| request.values(name).next();
        let fields = [field("host"), field("referer"), field("user-agent")];
        self.begin_record(first_line(head), fields, names, now);
    }

    /// Notes a request that is refused before its head has been understood. `head` is empty where it is out of reach.
    pub(crate) fn begin_refused(&mut self, head: &[u8], now: Now) {
        self.begin_record(first_line(head), [None; 3], LoggedNames::default(), now);
    }

    /// Forgets the request that was begun: it is read again later, and arrived when it did.
    pub(crate) fn postpone(&mut self) {
        if let Some(record) = self.begun.take() {
            self.text.truncate(self.text.len() - record.len);
            self.arrived = Some(record.arrived);
        }
    }

    /// Notes the response to a request that has not arrived in time, in whole or in part.
    pub(crate) fn timed_out(&mut self, answer: Option<Answer>, now: Now) {
        if self.begun.is_none() {
            self.begin_refused(b"", now);
        }
        self.answered(answer);
    }

    fn begin_record(
        &mut self,
        line: &[u8],
        [host, referer, user_agent]: [Option<&[u8]>; 3],
        names: LoggedNames<'_>,
        now: Now,
    ) {
        let arrived = self.arrived.unwrap_or(now.instant);
        let mut record = Record { arrived, len: 0, before_status: 0 };
        if let Some(log) = &self.observer.log {
            let received = now.unix.saturating_sub(now.instant.saturating_duration_since(arrived));
            let client = &self.client;
            let request = LoggedRequest { client, names, received, line, host, referer, user_agent };
            let start = self.text.len();
            record.before_status = log.format.begin(&request, &mut self.text);
            record.len = self.text.len() - start;
        }
        self.begun = Some(record);
    }

    /// Notes the response to the request that was begun; it has been written to the outbox.
    pub(crate) fn answered(&mut self, answer: Option<Answer>) {
        let (Some(record), Some(answer)) = (self.begun, answer) else { return };
        self.begun = None;
        self.responses.push(PendingResponse { record, answer, first_byte: None }, answer.bytes);
        while self.text.len() - self.written > TEXT_MAX
            && let Some(&response) = self.responses.get(self.logged)
        {
            self.write_record(response.record, &response.incomplete(0, Duration::ZERO));
            self.logged += 1;
        }
    }

    /// Notes the time at which input came that has not been consumed.
    pub(crate) fn after_input(&mut self, is_consumed: bool, now: Now) {
        self.arrived = if is_consumed { None } else { self.arrived.or(Some(now.instant)) };
    }

    /// Records the responses that have left.
    pub(crate) fn sent(&mut self, unsent: u64, clock: fn() -> Now) {
        self.responses.set_unsent(unsent);
        let mut now = None;
        while let Some((response, _)) = self.responses.pop_sent() {
            let now = *now.get_or_insert_with(|| clock().instant);
            let duration = now.saturating_duration_since(response.record.arrived);
            if let Some(durations) = &self.observer.durations {
                durations[usize::from(response.answer.status / 100).clamp(2, 5) - 2].record(duration);
            }
            match self.logged {
                0 => self.write_record(response.record, &response.complete(duration)),
                _ => self.logged -= 1,
            }
        }
        if self.observer.log.is_some()
            && let Some(response) = self.responses.leaving()
            && response.first_byte.is_none()
        {
            let now = now.unwrap_or_else(|| clock().instant);
            response.first_byte = Some(now.saturating_duration_since(response.record.arrived));
        }
        if self.responses.is_empty() {
            self.trim();
        }
    }

    /// Notes that so many bytes will never be sent.
    pub(crate) fn cancelled(&mut self, unsent: u64) {
        self.responses.set_unsent(unsent);
    }

    /// Gives memory back that an idle connection does not need.
    fn trim(&mut self) {
        self.text.shrink_to(TEXT_KEPT);
        self.line.shrink_to(TEXT_KEPT);
    }

    /// Writes the record whose text comes first.
    fn write_record(&mut self, record: Record, response: &LoggedResponse) {
        let Some(AccessLog { writer, format }) = &self.observer.log else { return };
        self.line.clear();
        let text = self.written..self.written + record.len;
        self.written = text.end;
        format.end(&self.text[text], record.before_status, response, &mut self.line);
        writer.push(&self.line);
        if self.written == self.text.len() || self.written > TEXT_MAX {
            self.text.drain(..mem::take(&mut self.written));
        }
    }
}

/// Records what has not left: the connection is at its end.
impl Drop for ObservedRequests {
    fn drop(&mut self) {
        if self.observer.log.is_none() {
            return;
        }
        let now = Instant::now();
        while let Some((response, _, bytes)) = self.responses.pop_unsent() {
            if self.logged > 0 {
                self.logged -= 1;
                continue;
            }
            let duration = now.saturating_duration_since(response.record.arrived);
            self.write_record(response.record, &response.incomplete(bytes, duration));
        }
        if let Some(record) = self.begun.take() {
            let duration = now.saturating_duration_since(record.arrived);
            let answer = Answer { status: UNANSWERED, bytes: 0, body_bytes: 0, coding: None };
            let response = PendingResponse { record, answer, first_byte: None }.incomplete(0, duration);
            self.write_record(record, &LoggedResponse { is_complete: false, ..response });
        }
    }
}

impl fmt::Debug for ObservedRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedRequests").field("responses", &self.responses).finish_non_exhaustive()
    }
}

/// Returns what comes before the first line end.
fn first_line(head: &[u8]) -> &[u8] {
    let end = memchr::memchr2(b'\r', b'\n', head).unwrap_or(head.len());
    &head[..end.min(LINE_MAX)]
}

/// Limit of the request line of a record, in bytes. Longer ones are refused; this is the beginning of theirs.
const LINE_MAX: usize = 8 * 1024;
