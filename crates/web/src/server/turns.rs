//! Turns of a connection that are not simply requests of HTTP/1: its beginning, waiting, and HTTP/2 with its streams.

use std::{mem, sync::Arc};

use proto::{Flow, Now, Outbox, Step};
use wire::{
    http1::{Connection, HeadParser, Method, Part, Refusal, Status},
    http2::{ErrorCode, PREFACE, push_goaway},
};

use super::{Conn, Mode, WebServer};
use crate::{
    Site,
    responder::{Responder, Waited},
    writer::{Http1, Writer},
};

/// Longest first line of a client that speaks another protocol, in bytes.
const FOREIGN_LINE_MAX: usize = 80;

impl<S: Site> Conn<S> {
    /// Takes over what may have changed since the stream before.
    pub(crate) fn renew(&mut self, of: &Self) {
        if self.hosts.generation != of.hosts.generation {
            self.hosts = Arc::clone(&of.hosts);
        }
        self.observed = of.observed.as_ref().map(|observed| observed.of_stream());
        self.checks = of.checks;
        self.note_checks();
    }

    /// True if nothing is left of the request before.
    pub(crate) fn is_reusable(&self) -> bool {
        self.pending.is_none() && matches!(self.mode, Mode::Ready) && !self.head.is_mid_request()
    }

    /// Ends the wait for a representation. Returns how long that has been, where there was one.
    pub(crate) fn take_waited(&mut self) -> Option<Waited> {
        let Mode::Awaited(waited) = self.mode else { return None };
        self.mode = Mode::Ready;
        Some(waited)
    }
}

impl<S: Site> WebServer<S> {
    /// Takes a turn that does not simply go on with requests of HTTP/1.
    #[cold]
    #[inline(never)]
    pub(super) fn take_turn(&self, conn: &mut Conn<S>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        match self.begin_turn(conn, input, now, out) {
            Ok(waited) => self.answer_requests(conn, waited, input, now, out, &mut Http1),
            Err(step) => step,
        }
    }

    /// Does what has to be done before requests of HTTP/1 are read. Returns how long the first of them has waited.
    ///
    /// # Errors
    /// There are none to be read: this step is all.
    fn begin_turn(&self, conn: &mut Conn<S>, input: &[u8], now: Now, out: &mut Outbox) -> Result<Option<Waited>, Step> {
        match conn.mode {
            Mode::Ready => return Ok(None),
            Mode::Awaited(_) if out.has_pending_replies() => return Err(Step::open(0)),
            Mode::Awaited(_) => return Ok(conn.take_waited()),
            Mode::Fresh if input.len() < PREFACE.len() && PREFACE.starts_with(input) => {
                conn.head_started = if input.is_empty() { None } else { conn.head_started.or(Some(now.instant)) };
                return Err(Step::open(0));
            }
            Mode::Fresh if input.starts_with(PREFACE) => {
                conn.head_started = None;
                conn.mode = Mode::Http2(Box::default());
            }
            // Its first line decides.
            Mode::Fresh => match memchr::memchr(b'\n', input) {
                Some(end) if is_foreign(&input[..end]) => {
                    push_goaway(0, ErrorCode::ProtocolError, out.inline());
                    return Err(Step { flow: Flow::Linger, ..Step::open(input.len()) });
                }
                Some(_) => {
                    conn.mode = Mode::Ready;
                    return Ok(None);
                }
                None => return Ok(None),
            },
            Mode::Http2(_) => {}
        }
        // It is away from the connection meanwhile, since streams are given what they need of that.
        let Mode::Http2(mut multiplexer) = mem::replace(&mut conn.mode, Mode::Ready) else { return Ok(None) };
        let step = multiplexer.turn(self, conn, input, now, out);
        conn.mode = Mode::Http2(multiplexer);
        Err(step)
    }

    /// Returns the state of a new stream of a connection.
    pub(crate) fn new_stream(&self, conn: &Conn<S>) -> Conn<S> {
        Conn {
            hosts: Arc::clone(&conn.hosts),
            head: HeadParser::default(),
            head_started: None,
            peer: conn.peer.clone(),
            pending: None,
            pending_host: 0,
            observed: conn.observed.as_ref().map(|observed| observed.of_stream()),
            is_retiring: false,
            checks: conn.checks,
            has_checks: conn.has_checks,
            mode: Mode::Ready,
        }
    }

    /// Answers a request whose body has not arrived in time.
    pub(crate) fn time_out<W: Writer>(&self, conn: &mut Conn<S>, now: Now, out: &mut Outbox, writer: &mut W) {
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out, writer);
        responder.send_status(Status::RequestTimeout, None, Part::Whole, Connection::Close);
        if let Some(observed) = &mut conn.observed {
            observed.timed_out(responder.tally.take_answer(), now);
        }
        responder.tally.add_to(&self.totals);
    }

    /// Refuses a request of HTTP/2 whose head is too large to be read.
    pub(crate) fn refuse_stream<W: Writer>(&self, conn: &mut Conn<S>, now: Now, out: &mut Outbox, writer: &mut W) {
        let mut responder = Responder::new(self, conn.hosts.default_host(), conn.peer.as_deref(), now, out, writer);
        responder.refuse(Refusal::FieldsTooLarge);
        if let Some(observed) = &mut conn.observed {
            observed.begin_refused(b"", now);
            observed.answered(responder.tally.take_answer());
        }
        responder.tally.add_to(&self.totals);
    }
}

/// True for the first line of a client that speaks no version of HTTP/1: it takes an answer of HTTP/2 for what it is, and one
/// of HTTP/1 for noise.
fn is_foreign(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r").filter(|line| line.len() <= FOREIGN_LINE_MAX) else { return false };
    let mut words = line.split(|&byte| byte == b' ');
    let (method, version) = (words.next().unwrap_or_default(), words.nth(1));
    let is_version = version.is_none_or(|version| version.starts_with(b"HTTP/"));
    // What is refused before its end, as a line without a method is, is refused by the rules of HTTP/1, however it arrives.
    let is_method = !method.is_empty() && !Method::is_known(method);
    !is_version && is_method && line.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b' ')
}
