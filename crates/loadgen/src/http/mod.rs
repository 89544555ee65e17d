//! HTTP/1.1 and HTTP/2: prebuilt requests, and replies checked as they stream in.

mod check;
mod choice;
mod http2;
mod target;
#[cfg(test)]
mod tests;
mod verify;

use std::{borrow::Cow, sync::Arc};

use wire::http1::client::{ContentCoding, Eof, Event, Head, HeadTemplate, Persistence, ResponseDecoder};

use self::{
    check::{KnownReply, ReplyCheck, status_text},
    choice::RequestChoice,
};
pub use self::{
    http2::{Http2Client, Http2Conn, Http2Request, Http2Spec},
    target::{Http2Message, RequestParts, Target, TargetError},
    verify::{Expectation, HttpVerify, REFERENCE_BYTES_MAX, Reference, Tail, digest_text},
};
use crate::{
    error::ErrorClass,
    failure_texts::FailureTexts,
    protocol::{AfterReply, ClientProtocol, Decoded, EofOutcome, Progress, Replies, Single},
    result::BodySeen,
    sample::Sampler,
};

/// Client whose threads each keep references of their own.
pub trait SeesBodies {
    /// Returns the number of requests whose replies differ from those that `other` got.
    fn disagreements(&self, other: &Self) -> usize;

    /// Returns the bodies of the good replies, one for each request of which there was any, in the order of the requests.
    fn bodies(&self) -> Vec<BodySeen>;
}

/// Request that is sent again and again: its bytes, and what is known of the reply.
#[derive(Clone, Debug)]
pub struct RequestSpec {
    pub request: Vec<u8>,
    pub expectation: Expectation,
}

/// Client that sends the requests in turn.
#[derive(Debug)]
pub struct HttpClient {
    verify: HttpVerify,
    sampler: Sampler,
    requests: Vec<RequestState>,
    choice: RequestChoice,
    /// Beginnings of replies that are not HTTP.
    malformed: FailureTexts,
}

/// A request, and what has been learned from the replies to it.
#[derive(Debug)]
struct RequestState {
    request: Vec<u8>,
    template: HeadTemplate,
    known: KnownReply,
}

/// One connection's decoder, and how far the current reply agrees with the reference.
#[derive(Debug)]
pub struct HttpConn {
    decoder: ResponseDecoder,
    persistence: Persistence,
    check: ReplyCheck,
}

/// Numbers of failure details from which on they are texts; those below are statuses.
const MALFORMED: u32 = 1_000;

impl HttpClient {
    /// `specs` must not be empty; `first` is the one to begin with, so that threads do not send the same request at the same time.
    #[must_use]
    pub fn new(specs: &[RequestSpec], verify: HttpVerify, first: usize) -> Self {
        Self::with_bytes_max(specs, verify, first, REFERENCE_BYTES_MAX)
    }

    /// Keeps at most `bytes_max` of each body, and hashes what lies beyond.
    fn with_bytes_max(specs: &[RequestSpec], verify: HttpVerify, first: usize, bytes_max: usize) -> Self {
        let state = |spec: &RequestSpec| RequestState {
            request: spec.request.clone(),
            template: HeadTemplate::new(),
            known: KnownReply::new(&spec.expectation, bytes_max),
        };
        let requests = specs.iter().map(state).collect();
        Self {
            verify,
            sampler: Sampler::all(),
            requests,
            choice: RequestChoice::in_turn(specs.len(), first),
            malformed: FailureTexts::default(),
        }
    }

    /// Checks only the replies that `sampler` chooses in full, and of the others status and length. Until there is a
    /// good reply to compare with, all are checked.
    #[must_use]
    pub fn with_sampler(self, sampler: Sampler) -> Self {
        Self { sampler, ..self }
    }

    /// Sends the requests once, in this order. Each thread has the places of the order that are its own.
    #[must_use]
    pub fn with_order(mut self, order: Arc<[u32]>, thread: usize, threads: usize) -> Self {
        self.choice.follow(order, thread, threads);
        self
    }
}

impl SeesBodies for HttpClient {
    fn disagreements(&self, other: &Self) -> usize {
        if !self.verify.compares_content() {
            return 0;
        }
        self.requests.iter().zip(&other.requests).filter(|(ours, theirs)| !ours.known.agrees(&theirs.known)).count()
    }

    fn bodies(&self) -> Vec<BodySeen> {
        let seen = |(index, state): (usize, &RequestState)| {
            let request = self.operation_name(u32::try_from(index).unwrap_or(u32::MAX)).into_owned();
            state.known.body(request)
        };
        self.requests.iter().enumerate().filter_map(seen).collect()
    }
}

impl ClientProtocol for HttpClient {
    type Request = Single<usize>;
    type Conn = HttpConn;

    fn open(&mut self) -> HttpConn {
        HttpConn {
            decoder: ResponseDecoder::new(),
            persistence: Persistence::KeepAlive,
            check: ReplyCheck::new(self.verify),
        }
    }

    #[inline]
    fn next(&mut self, _conn: &mut HttpConn, _most: u64) -> Single<usize> {
        Single(self.choice.next())
    }

    fn skip(&mut self) {
        self.choice.skip();
    }

    #[inline]
    fn encode(&self, Single(request): Single<usize>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[request].request);
    }

    #[inline]
    fn decode(&mut self, conn: &mut HttpConn, Single(request): Single<usize>, input: &[u8]) -> Decoded {
        let state = &mut self.requests[request];
        let mut rest = input;
        let progress = loop {
            match conn.decoder.next(&mut state.template, &mut rest) {
                Ok(Event::Body(piece)) => conn.check.body(piece, &mut state.known),
                Ok(Event::Head(head)) => {
                    conn.begin(head, state.known.level(self.verify, &mut self.sampler), &state.known);
                }
                Ok(Event::NewHead(head, coding)) => {
                    conn.begin(head, state.known.level(self.verify, &mut self.sampler), &state.known);
                    conn.compare_coding(coding, state);
                }
                Ok(Event::End) => {
                    let outcome = conn.check.outcome(&mut state.known);
                    break Progress::Done { replies: Replies::ONE, outcome, after: conn.after_reply() };
                }
                Ok(Event::NeedMore) => break Progress::NeedMore,
                Err(_) => {
                    self.malformed.note(input);
                    break Progress::Broken(ErrorClass::Protocol);
                }
            }
        };
        Decoded { consumed: input.len() - rest.len(), progress }
    }

    fn on_eof(&mut self, conn: &mut HttpConn, Single(request): Single<usize>) -> EofOutcome {
        match conn.decoder.eof() {
            Eof::EndsBody => {
                let outcome = conn.check.outcome(&mut self.requests[request].known);
                EofOutcome::Done { replies: Replies::ONE, outcome }
            }
            Eof::Between | Eof::InHead => EofOutcome::Failed(ErrorClass::EofEarly),
            Eof::InBody => EofOutcome::Failed(ErrorClass::ShortBody),
        }
    }

    fn take_failure_detail(&mut self, conn: &mut HttpConn) -> Option<u32> {
        let malformed = self.malformed.take_last().map(|number| MALFORMED + number);
        conn.check.take_failed_status().or(malformed)
    }

    /// Names a status as its RFC does, or quotes the beginning of what is not HTTP.
    fn failure_detail(&self, detail: u32) -> String {
        if detail >= MALFORMED {
            return format!("`{}`", self.malformed.text(detail - MALFORMED));
        }
        status_text(detail)
    }

    /// Returns the index of the spec.
    fn operation(&self, Single(request): Single<usize>, _index: u64) -> u32 {
        u32::try_from(request).unwrap_or(u32::MAX)
    }

    /// Method and target, as the request line has them.
    fn operation_name(&self, operation: u32) -> Cow<'_, str> {
        let request = self.requests.get(operation as usize).map_or(&[][..], |state| &state.request);
        let mut words = request.splitn(3, |&byte| byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let spelled = |word| String::from_utf8_lossy(word).into_owned();
        Cow::Owned(format!("{} {}", spelled(method), spelled(target)))
    }
}

impl HttpConn {
    #[inline]
    fn begin(&mut self, head: Head, verify: HttpVerify, known: &KnownReply) {
        self.persistence = head.persistence;
        self.check.begin(head.status, verify, known);
    }

    /// Compares the coding of a new head. Equal heads have equal codings, so that nothing is to be done for them: a template
    /// with another coding is forgotten, and the next head is a new one.
    #[cold]
    fn compare_coding(&mut self, coding: ContentCoding, state: &mut RequestState) {
        if self.check.compare_coding(coding, &state.known) {
            state.template = HeadTemplate::new();
        }
    }

    #[inline]
    fn after_reply(&self) -> AfterReply {
        match self.persistence {
            Persistence::KeepAlive => AfterReply::KeepAlive,
            Persistence::Close => AfterReply::Close,
        }
    }
}
