//! HTTP/2: requests on streams of their own, and replies in any order, checked as those of HTTP/1.1 are.

mod bodies;
mod streams;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use wire::{
    hpack::{Decoder, push_size_update},
    http2::{
        ClientConnection, ErrorCode, FRAME_BYTES, FrameError, HEADER_LEN, REFILL_BYTES, Responses, decode_trailers,
        push_data_header, push_headers,
    },
};

use self::streams::{BlockTemplates, Stream, Streams};
use super::{
    Expectation, Http2Message, HttpVerify, REFERENCE_BYTES_MAX,
    check::{KnownReply, status_text},
    choice::RequestChoice,
};
use crate::{
    clock::Nanos,
    error::ErrorClass,
    failure_texts::FailureTexts,
    protocol::{Answer, Batch, ClientProtocol, EofOutcome, Fate},
    request_log::Received,
    sample::Sampler,
};

/// Request that is sent again and again: its parts, and what is known of the reply.
#[derive(Clone, Debug)]
pub struct Http2Spec {
    pub message: Http2Message,
    pub expectation: Expectation,
}

/// Client that sends the requests in turn.
#[derive(Debug)]
pub struct Http2Client {
    checks: Checks,
    choice: RequestChoice,
    /// Most requests in flight on a connection.
    streams: usize,
}

/// Requests, and what has been learned from the replies.
#[derive(Debug)]
struct Checks {
    verify: HttpVerify,
    sampler: Sampler,
    requests: Vec<RequestState>,
    /// Beginnings of input that is not HTTP/2.
    malformed: FailureTexts,
    /// Ends that the server has put to streams.
    ends: FailureTexts,
}

#[derive(Debug)]
struct RequestState {
    message: Http2Message,
    /// HEADERS, and CONTINUATION where the block is long, of stream 0.
    head: Vec<u8>,
    known: KnownReply,
}

/// One connection.
#[derive(Debug)]
pub struct Http2Conn {
    connection: ClientConnection,
    streams: Streams,
    templates: BlockTemplates,
    /// Streams whose replies make no sense.
    to_cancel: Vec<u32>,
}

/// Request in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Request {
    spec: u32,
    stream: u32,
    /// Number of times that the server has refused it.
    refusals: u8,
    /// It is the first on its connection after the server has made its table smaller.
    has_size_update: bool,
}

/// Refusals after which a request fails.
const REFUSALS_MAX: u8 = 10;

/// Numbers of failure details from which on they are texts; those below are statuses.
const MALFORMED: u32 = 1_000;
const ENDS: u32 = 2_000;

impl Batch for Http2Request {
    fn left(self) -> u64 {
        1
    }

    fn without(self, _count: u64) -> Self {
        self
    }

    #[inline]
    fn key(self) -> u64 {
        self.stream.into()
    }
}

impl Http2Client {
    /// `specs` must not be empty; `first` is the one to begin with. At most `streams` requests are in flight on a connection.
    #[must_use]
    pub fn new(specs: &[Http2Spec], verify: HttpVerify, first: usize, streams: usize) -> Self {
        let state = |spec: &Http2Spec| {
            let mut head = Vec::new();
            let has_body = !spec.message.body.is_empty();
            push_headers(0, &spec.message.block, !has_body, FRAME_BYTES as usize, &mut head);
            let known = KnownReply::new(&spec.expectation, REFERENCE_BYTES_MAX);
            RequestState { message: spec.message.clone(), head, known }
        };
        let checks = Checks {
            verify,
            sampler: Sampler::all(),
            requests: specs.iter().map(state).collect(),
            malformed: FailureTexts::default(),
            ends: FailureTexts::default(),
        };
        Self { checks, choice: RequestChoice::in_turn(specs.len(), first), streams }
    }

    /// Checks only the replies that `sampler` chooses in full, as the client of HTTP/1.1 does.
    #[must_use]
    pub fn with_sampler(mut self, sampler: Sampler) -> Self {
        self.checks.sampler = sampler;
        self
    }

    /// Sends the requests once, in this order. Each thread has the places of the order that are its own.
    #[must_use]
    pub fn with_order(mut self, order: Arc<[u32]>, thread: usize, threads: usize) -> Self {
        self.choice.follow(order, thread, threads);
        self
    }

    /// Opens a stream for a request.
    #[inline]
    fn begin(&self, conn: &mut Http2Conn, spec: u32, refusals: u8) -> Http2Request {
        let body = self.checks.requests[spec as usize].message.body.len();
        let stream = conn.connection.open_stream(body);
        let has_size_update = conn.connection.take_size_update();
        let request = Http2Request { spec, stream, refusals, has_size_update };
        conn.streams.insert(request);
        request
    }
}

impl ClientProtocol for Http2Client {
    type Request = Http2Request;
    type Conn = Http2Conn;

    const MULTIPLEXED: bool = true;

    fn open(&mut self) -> Http2Conn {
        Http2Conn {
            connection: ClientConnection::new(),
            streams: Streams::new(self.streams, self.checks.verify),
            templates: BlockTemplates::new(self.checks.requests.len()),
            to_cancel: Vec::new(),
        }
    }

    #[inline]
    fn next(&mut self, conn: &mut Http2Conn, _most: u64) -> Http2Request {
        let chosen = self.choice.next();
        self.begin(conn, chosen as u32, 0)
    }

    fn skip(&mut self) {
        self.choice.skip();
    }

    #[inline]
    fn encode(&self, request: Http2Request, out: &mut Vec<u8>) {
        let RequestState { message, head, .. } = &self.checks.requests[request.spec as usize];
        if request.has_size_update || head.len() != HEADER_LEN + message.block.len() {
            return encode_slowly(request, message, out);
        }
        let id = out.len() + HEADER_LEN - size_of::<u32>();
        out.extend_from_slice(head);
        out[id..id + size_of::<u32>()].copy_from_slice(&request.stream.to_be_bytes());
    }

    fn decode_any(
        &mut self,
        conn: &mut Http2Conn,
        input: &[u8],
        now: Nanos,
        answers: &mut Vec<Answer<Http2Request>>,
    ) -> Result<(), ErrorClass> {
        let Http2Conn { connection, streams, templates, to_cancel } = conn;
        let mut replies = Replies { checks: &mut self.checks, streams, templates, to_cancel, now, answers };
        let fed = connection.feed(input, &mut replies);
        for stream in to_cancel.drain(..) {
            connection.cancel(stream);
        }
        fed.map_err(|_| {
            self.checks.malformed.note(input);
            ErrorClass::Protocol
        })
    }

    #[inline]
    fn room(conn: &Http2Conn) -> usize {
        conn.connection.streams_max()
    }

    #[inline]
    fn is_ending(conn: &Http2Conn) -> bool {
        conn.connection.is_ending()
    }

    #[inline]
    fn flush(&mut self, conn: &mut Http2Conn, out: &mut Vec<u8>) {
        conn.connection.take_output(out);
        while let Some(piece) = conn.connection.next_piece() {
            let Some(stream) = conn.streams.find(piece.stream) else { continue };
            let body = &self.checks.requests[stream.request.spec as usize].message.body[piece.range];
            push_data_header(piece.stream, body.len(), piece.is_last, out);
            out.extend_from_slice(body);
        }
    }

    fn renew(&mut self, conn: &mut Http2Conn, request: Http2Request) -> Http2Request {
        self.begin(conn, request.spec, request.refusals)
    }

    fn cancel(&mut self, conn: &mut Http2Conn, request: Http2Request) -> Received {
        conn.connection.cancel(request.stream);
        conn.streams.remove(request.stream).unwrap_or_default()
    }

    fn has_begun(conn: &Http2Conn, request: Http2Request) -> bool {
        conn.streams.get(request.stream).is_some_and(|stream| stream.received.first_byte.is_some())
    }

    fn on_eof(&mut self, conn: &mut Http2Conn, request: Http2Request) -> EofOutcome {
        let has_head = conn.streams.get(request.stream).is_some_and(|stream| stream.head.is_some());
        EofOutcome::Failed(if has_head { ErrorClass::ShortBody } else { ErrorClass::EofEarly })
    }

    /// Returns what was said of a whole connection; each reply has its own.
    fn take_failure_detail(&mut self, _conn: &mut Http2Conn) -> Option<u32> {
        self.checks.malformed.take_last().map(|number| MALFORMED + number)
    }

    /// Names a status as its RFC does and the end of a stream as the server has put it, or quotes the beginning of what is not
    /// HTTP/2.
    fn failure_detail(&self, detail: u32) -> String {
        match detail {
            ENDS.. => self.checks.ends.text(detail - ENDS).to_owned(),
            MALFORMED.. => format!("`{}`", self.checks.malformed.text(detail - MALFORMED)),
            _ => status_text(detail),
        }
    }

    /// Returns the index of the spec.
    fn operation(&self, request: Http2Request, _index: u64) -> u32 {
        request.spec
    }

    /// Method and target.
    fn operation_name(&self, operation: u32) -> Cow<'_, str> {
        self.checks.requests.get(operation as usize).map_or("", |state| &state.message.name).into()
    }
}

#[cold]
fn encode_slowly(request: Http2Request, message: &Http2Message, out: &mut Vec<u8>) {
    let mut block = Vec::new();
    if request.has_size_update {
        push_size_update(&mut block);
    }
    block.extend_from_slice(&message.block);
    push_headers(request.stream, &block, message.body.is_empty(), FRAME_BYTES as usize, out);
}

/// Replies of one connection, while input is read.
struct Replies<'a> {
    checks: &'a mut Checks,
    streams: &'a mut Streams,
    templates: &'a mut BlockTemplates,
    to_cancel: &'a mut Vec<u32>,
    now: Nanos,
    answers: &'a mut Vec<Answer<Http2Request>>,
}

impl Responses for Replies<'_> {
    #[inline]
    fn on_head(&mut self, id: u32, block: &[u8], is_last: bool, decoder: &mut Decoder) -> Result<(), FrameError> {
        let Some(stream) = self.streams.find(id) else {
            // Of a stream that was given up. The decoder's table has to go on.
            return decode_trailers(decoder, block).map(|_| ());
        };
        stream.received.add(block.len() as u64, self.now);
        if stream.head.is_some() {
            let is_valid = decode_trailers(decoder, block)?.is_ok() && is_last;
            self.end_or_cancel(id, is_last, is_valid);
            return Ok(());
        }
        let spec = stream.request.spec;
        let Ok(head) = self.templates.read(spec, block, decoder)? else {
            self.end_or_cancel(id, is_last, false);
            return Ok(());
        };
        if head.is_interim() {
            if is_last {
                self.end_or_cancel(id, is_last, false);
            }
            return Ok(());
        }
        let known = &self.checks.requests[spec as usize].known;
        stream.check.begin(head.status, known.level(self.checks.verify, &mut self.checks.sampler), known);
        stream.check.compare_coding(head.coding, known);
        stream.head = Some(head);
        if is_last {
            self.end(id);
        }
        Ok(())
    }

    #[inline]
    fn on_data(&mut self, id: u32, data: &[u8], wire_len: u32, is_last: bool) -> u32 {
        let Some(stream) = self.streams.find(id) else { return 0 };
        stream.received.add(wire_len.into(), self.now);
        if stream.head.is_none() {
            self.end_or_cancel(id, is_last, false);
            return 0;
        }
        stream.check.body(data, &mut self.checks.requests[stream.request.spec as usize].known);
        stream.to_refill += wire_len;
        if is_last {
            self.end(id);
        } else if stream.to_refill >= REFILL_BYTES {
            return std::mem::take(&mut stream.to_refill);
        }
        0
    }

    fn on_reset(&mut self, id: u32, code: u32) {
        let Some(request) = self.streams.get(id).map(|stream| stream.request) else { return };
        if code == ErrorCode::RefusedStream as u32 && request.refusals < REFUSALS_MAX {
            let again = Http2Request { refusals: request.refusals + 1, ..request };
            self.answer(id, Fate::Unread);
            if let Some(answer) = self.answers.last_mut() {
                answer.request = again;
            }
            return;
        }
        let fate = self.given_up("RST_STREAM", code);
        self.answer(id, fate);
    }

    fn on_goaway(&mut self, last_stream: u32, code: u32) {
        for id in self.streams.above(last_stream) {
            let fate = if code == ErrorCode::NoError as u32 { Fate::Unread } else { self.given_up("GOAWAY", code) };
            self.answer(id, fate);
        }
    }
}

impl Replies<'_> {
    /// Ends a stream whose reply is complete.
    #[inline]
    fn end(&mut self, id: u32) {
        let Some(stream) = self.streams.find(id) else { return };
        let outcome = match length_problem(stream) {
            None => stream.check.outcome(&mut self.checks.requests[stream.request.spec as usize].known),
            Some(class) => Err(class),
        };
        let detail = if outcome.is_err() { stream.check.take_failed_status() } else { None };
        self.answer(id, Fate::Settled { outcome, detail });
    }

    /// Ends a stream with its trailers, or because it makes no sense.
    #[cold]
    fn end_or_cancel(&mut self, id: u32, is_last: bool, is_valid: bool) {
        if is_valid {
            return self.end(id);
        }
        if !is_last {
            self.to_cancel.push(id);
        }
        self.answer(id, Fate::Settled { outcome: Err(ErrorClass::Protocol), detail: None });
    }

    /// Makes the failure of a stream that the server has given up.
    #[cold]
    fn given_up(&mut self, frame: &str, code: u32) -> Fate {
        self.checks.ends.note(format!("{frame}, {}", error_name(code)).as_bytes());
        let detail = self.checks.ends.take_last().map(|number| ENDS + number);
        Fate::Settled { outcome: Err(ErrorClass::StreamReset), detail }
    }

    #[inline]
    fn answer(&mut self, id: u32, fate: Fate) {
        let Some(request) = self.streams.get(id).map(|stream| stream.request) else { return };
        let received = self.streams.remove(id).unwrap_or_default();
        self.answers.push(Answer { request, fate, received });
    }
}

/// Compares the length of a body with what its head says.
#[inline]
fn length_problem(stream: &Stream) -> Option<ErrorClass> {
    let head = stream.head.filter(|head| ![204, 304].contains(&head.status))?;
    let (found, said) = (stream.check.body_bytes(), head.length?);
    match found.cmp(&said) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(ErrorClass::ShortBody),
        std::cmp::Ordering::Greater => Some(ErrorClass::Protocol),
    }
}

/// Names an error code as RFC 9113, section 7, does.
fn error_name(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).map_or_else(|| format!("error {code}"), |name| (*name).to_owned())
}
