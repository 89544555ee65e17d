//! HTTP/1.1: prebuilt requests, and replies checked as they stream in.

mod target;
#[cfg(test)]
mod tests;
mod verify;

use std::borrow::Cow;

use http::StatusCode;
use wire::http1::{
    client::{BodyLength, ContentCoding, Eof, Event, Head, HeadTemplate, Persistence, ResponseDecoder},
    coding::Coding,
};

pub use self::{
    target::{RequestParts, Target, TargetError},
    verify::{Expectation, HttpVerify, REFERENCE_BYTES_MAX, Reference, Tail, digest_text},
};
use crate::{
    error::ErrorClass,
    failure_texts::FailureTexts,
    protocol::{AfterReply, ClientProtocol, Decoded, EofOutcome, Progress, Replies, RequestOutcome, Single},
    result::BodySeen,
    sample::Sampler,
};

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
    next: usize,
    /// Beginnings of replies that are not HTTP.
    malformed: FailureTexts,
}

/// A request, and what has been learned from the replies to it.
#[derive(Debug)]
struct RequestState {
    request: Vec<u8>,
    template: HeadTemplate,
    reference: Reference,
    /// Coding of the bodies, once there was a good reply.
    coding: Option<ContentCoding>,
}

/// One connection's decoder, and how far the current reply agrees with the reference.
#[derive(Debug)]
pub struct HttpConn {
    decoder: ResponseDecoder,
    head: Head,
    /// Depth to which this reply is checked.
    verify: HttpVerify,
    body_bytes: u64,
    /// The body is to be compared, and nothing has been different so far.
    is_same: bool,
    tail: Tail,
    /// Coding of the last new head.
    coding: ContentCoding,
    /// The reply has another coding than the good ones.
    has_other_coding: bool,
    /// Status of a reply that failed because of it.
    failed_status: Option<u16>,
}

/// Numbers of failure details from which on they are texts; those below are statuses.
const MALFORMED: u32 = 1_000;

/// Name in results of a coding that has none here.
const OTHER_CODING: &str = "other";

const NO_HEAD: Head = Head { status: 0, body: BodyLength::Exact(0), persistence: Persistence::KeepAlive };

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
            reference: Reference::new(&spec.expectation, bytes_max),
            coding: None,
        };
        let requests = specs.iter().map(state).collect();
        Self {
            verify,
            sampler: Sampler::all(),
            requests,
            next: first % specs.len(),
            malformed: FailureTexts::default(),
        }
    }

    /// Checks only the replies that `sampler` chooses in full, and of the others status and length. Until there is a
    /// good reply to compare with, all are checked.
    #[must_use]
    pub fn with_sampler(self, sampler: Sampler) -> Self {
        Self { sampler, ..self }
    }

    /// Returns the number of requests whose replies differ from those that `other` got: each thread keeps its own reference.
    #[must_use]
    pub fn disagreements(&self, other: &Self) -> usize {
        if !self.verify.compares_content() {
            return 0;
        }
        self.requests.iter().zip(&other.requests).filter(|(ours, theirs)| !ours.agrees(theirs)).count()
    }

    /// Returns the bodies of the good replies, one for each request of which there was any, in the order of the requests.
    #[must_use]
    pub fn bodies(&self) -> Vec<BodySeen> {
        let seen = |(index, state): (usize, &RequestState)| {
            let request = self.operation_name(u32::try_from(index).unwrap_or(u32::MAX)).into_owned();
            let coding = state.coding?.map_or(OTHER_CODING, Coding::name).to_owned();
            Some(BodySeen { request, coding, bytes: state.reference.length()?, sha256: state.reference.digest() })
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
            head: NO_HEAD,
            verify: self.verify,
            body_bytes: 0,
            is_same: false,
            tail: Tail::default(),
            coding: Some(Coding::Identity),
            has_other_coding: false,
            failed_status: None,
        }
    }

    #[inline]
    fn next(&mut self, _conn: &mut HttpConn, _most: u64) -> Single<usize> {
        let chosen = self.next;
        self.next = if chosen + 1 == self.requests.len() { 0 } else { chosen + 1 };
        Single(chosen)
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
                Ok(Event::Body(piece)) => conn.body(piece, &mut state.reference),
                Ok(Event::Head(head)) => conn.begin(head, state.level(self.verify, &mut self.sampler)),
                Ok(Event::NewHead(head, coding)) => {
                    conn.begin(head, state.level(self.verify, &mut self.sampler));
                    conn.compare_coding(coding, state);
                }
                Ok(Event::End) => {
                    let outcome = conn.outcome(state);
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
                let outcome = conn.outcome(&mut self.requests[request]);
                EofOutcome::Done { replies: Replies::ONE, outcome }
            }
            Eof::Between | Eof::InHead => EofOutcome::Failed(ErrorClass::EofEarly),
            Eof::InBody => EofOutcome::Failed(ErrorClass::ShortBody),
        }
    }

    fn take_failure_detail(&mut self, conn: &mut HttpConn) -> Option<u32> {
        let malformed = self.malformed.take_last().map(|number| MALFORMED + number);
        conn.failed_status.take().map(u32::from).or(malformed)
    }

    /// Names a status as its RFC does, or quotes the beginning of what is not HTTP.
    fn failure_detail(&self, detail: u32) -> String {
        if detail >= MALFORMED {
            return format!("`{}`", self.malformed.text(detail - MALFORMED));
        }
        let status = u16::try_from(detail).ok().and_then(|status| StatusCode::from_u16(status).ok());
        match status.and_then(|status| status.canonical_reason()) {
            Some(reason) => format!("{detail} {reason}"),
            None => detail.to_string(),
        }
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

impl RequestState {
    /// Returns the depth to which a reply that begins is checked.
    #[inline]
    fn level(&self, deepest: HttpVerify, sampler: &mut Sampler) -> HttpVerify {
        if sampler.draw() || self.reference.awaits_body() { deepest } else { deepest.min(HttpVerify::Length) }
    }

    fn agrees(&self, other: &Self) -> bool {
        let is_coded_alike = self.coding.zip(other.coding).is_none_or(|(ours, theirs)| ours == theirs);
        is_coded_alike && self.reference.agrees(&other.reference)
    }
}

impl HttpConn {
    #[inline]
    fn begin(&mut self, head: Head, verify: HttpVerify) {
        self.head = head;
        self.verify = verify;
        self.body_bytes = 0;
        self.is_same = verify.compares_content() && is_success(head);
    }

    /// Compares the coding of a new head. Equal heads have equal codings, so that nothing is to be done for them: a template
    /// with another coding is forgotten, and the next head is a new one.
    #[cold]
    fn compare_coding(&mut self, coding: ContentCoding, state: &mut RequestState) {
        self.coding = coding;
        if is_success(self.head) && state.coding.is_some_and(|known| known != coding) {
            (self.is_same, self.has_other_coding) = (false, true);
            state.template = HeadTemplate::new();
        }
    }

    #[inline]
    fn body(&mut self, piece: &[u8], reference: &mut Reference) {
        if self.is_same {
            self.is_same = reference.compare(self.body_bytes, piece, &mut self.tail);
        }
        self.body_bytes += piece.len() as u64;
    }

    #[inline]
    fn outcome(&mut self, state: &mut RequestState) -> RequestOutcome {
        if self.is_same && state.reference.is_settled_at(self.body_bytes) { Ok(()) } else { self.check_reply(state) }
    }

    /// Whatever is not simply equal to what is kept.
    #[inline(never)]
    fn check_reply(&mut self, state: &mut RequestState) -> RequestOutcome {
        let has_other_coding = std::mem::take(&mut self.has_other_coding);
        if self.verify == HttpVerify::None {
            return Ok(());
        }
        if !is_success(self.head) {
            self.failed_status = Some(self.head.status);
            return Err(ErrorClass::Status);
        }
        if self.verify == HttpVerify::Status {
            return Ok(());
        }
        if has_other_coding {
            return Err(ErrorClass::Encoding);
        }
        let (length, reference) = (self.body_bytes, &mut state.reference);
        if !reference.has_length(length) {
            if self.verify.compares_content() {
                reference.distrust();
            }
            return Err(ErrorClass::Length);
        }
        if !self.verify.compares_content() {
            reference.settle_length(length);
        } else if !self.is_same || !reference.accept(length, &self.tail) {
            return Err(ErrorClass::Content);
        }
        state.coding.get_or_insert(self.coding);
        Ok(())
    }

    #[inline]
    fn after_reply(&self) -> AfterReply {
        match self.head.persistence {
            Persistence::KeepAlive => AfterReply::KeepAlive,
            Persistence::Close => AfterReply::Close,
        }
    }
}

fn is_success(head: Head) -> bool {
    (200..300).contains(&head.status)
}
