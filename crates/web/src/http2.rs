//! Connections of HTTP/2: streams, each with the state that a connection of HTTP/1 has.
//!
//! Code that both versions have in common has one place: a request becomes the head that HTTP/1 has, a body of unknown length the
//! chunks, and [`WebServer::answer_requests`] answers them with another [`Writer`](crate::writer::Writer). So a stream waits
//! for its body, a program or a representation as a connection of HTTP/1 does, and the others go on meanwhile.
//!
//! Heads are sent at once; bodies are cut into frames as the windows and the order of priorities say. What the client has no
//! window for stays with its stream, and costs what it costs there: a file region, not its bytes.

mod bodies;
mod stream;
mod time;

use std::{mem, sync::Arc, task::Poll, time::Instant};

use proto::{Alarm, Flow, Now, Outbox, Step};
use service::Departures;
use wire::http2::{ErrorCode, Event, ServerConnection};

use self::{bodies::Bodies, stream::Stream};
use crate::{
    Site, WebServer,
    observer::ObservedRequests,
    server::Conn,
    writer::{Http2, push_continue_block},
};

/// Requests of one connection whose bodies may arrive at the same time: each may be held in memory.
const BODIES_MAX: usize = 16;
/// Input that is kept of a body which nobody reads yet, in bytes.
const UNREAD_MAX: usize = 128 << 10;
/// Length of a body that is sent at once, whatever else there is to be sent, in bytes.
const SMALL_MAX: u64 = 2 << 10;
/// Streams that are kept for the next ones.
const SPARE_MAX: usize = 2;
/// Memory that a stream keeps for the next request, in bytes.
const KEPT: usize = 1 << 10;

/// Streams of one connection, and what they share.
#[derive(Debug)]
pub(crate) struct Multiplexer<S: Site> {
    connection: ServerConnection,
    /// Our settings have been sent.
    is_greeted: bool,
    /// Requests that have not been answered, or not been sent wholly, in the order of their numbers.
    streams: Vec<(u32, Box<Stream<S>>)>,
    #[expect(clippy::vec_box, reason = "a stream moves from one list to the other")]
    spare: Vec<Box<Stream<S>>>,
    writer: Http2,
    bodies: Bodies,
    /// Alarm that makes the driver come back when a stream need not wait any more.
    alarm: Option<Arc<Alarm>>,
    /// Arrival of the first byte of something that has to come at once.
    head_started: Option<Instant>,
    /// Time since when the client has had no window for everything, and bytes that it has taken since then.
    congestion: Option<(Instant, u64)>,
    /// The connection is to end when all has been answered.
    is_retiring: bool,
    /// Observed responses whose last byte has been written, and has not left.
    departures: Departures<Box<ObservedRequests>>,
    /// Bytes in the outbox behind those of `departures`, at the last look.
    unclaimed: u64,
    /// Bytes in the outbox then.
    queued: u64,
}

impl<S: Site> Default for Multiplexer<S> {
    fn default() -> Self {
        Self {
            connection: ServerConnection::default(),
            is_greeted: false,
            streams: Vec::new(),
            spare: Vec::new(),
            writer: Http2::default(),
            bodies: Bodies::default(),
            alarm: None,
            head_started: None,
            congestion: None,
            is_retiring: false,
            departures: Departures::default(),
            unclaimed: 0,
            queued: 0,
        }
    }
}

impl<S: Site> Multiplexer<S> {
    /// One whose output a layer encrypts.
    pub(crate) fn secured() -> Self {
        Self { bodies: Bodies::Referred, ..Self::default() }
    }

    /// Takes frames, answers requests, and sends as much as there is room for.
    pub(crate) fn turn(
        &mut self,
        server: &WebServer<S>,
        conn: &Conn<S>,
        input: &[u8],
        now: Now,
        out: &mut Outbox,
    ) -> Step {
        let awaited = out.withdraw_promise();
        let is_observed = conn.observed.is_some();
        if is_observed {
            self.queued = out.unsent_bytes();
        }
        if !mem::replace(&mut self.is_greeted, true) {
            self.connection.greet(out.inline());
        }
        let (mut consumed, mut flow) = (0, Flow::Open);
        while flow == Flow::Open && !out.is_full() {
            match self.connection.receive(&input[consumed..], now.instant, out.inline()) {
                Ok(received) if received.taken == 0 => break,
                Ok(received) => {
                    consumed += received.taken;
                    self.follow(received.event, server, conn, now, out);
                }
                // GOAWAY has been written.
                Err(_) => flow = Flow::Linger,
            }
        }
        self.note_progress(&input[consumed..], now);
        if flow == Flow::Open {
            self.resume_waiting(server, now, out);
            if self.is_retiring || conn.is_retiring {
                self.connection.drain(out.inline());
            }
            self.send_bodies(now, out);
            self.wait(awaited, out);
            if self.connection.is_drained() {
                flow = Flow::Linger;
            }
        }
        if is_observed {
            self.look_at(out);
        }
        Step { flow, ..Step::open(consumed) }
    }

    /// Notes that no more input will come. What has been asked for is still answered, as far as the windows go.
    pub(crate) fn end(&mut self, out: &mut Outbox) -> Flow {
        let awaited = out.withdraw_promise();
        self.connection.finish_drain(out.inline());
        awaited.into_iter().for_each(|reply| out.restore_promise(reply));
        Flow::Open
    }

    /// Begins to end the connection. Returns true if that can be at once.
    pub(crate) fn retire(&mut self) -> bool {
        self.is_retiring = true;
        self.connection.is_drained()
    }

    // --- frames ---------------------------------------------------------------------------

    fn follow(&mut self, event: Event<'_>, server: &WebServer<S>, conn: &Conn<S>, now: Now, out: &mut Outbox) {
        match event {
            Event::None => {}
            Event::Request { stream, is_last } => self.begin(stream, is_last, server, conn, now, out),
            Event::Body { stream, data, is_last } => self.take_body(stream, data, is_last, server, now, out),
            Event::Cancelled { stream } => {
                if let Ok(at) = self.position(stream) {
                    let (_, stream) = self.streams.remove(at);
                    self.recycle(stream);
                }
            }
        }
    }

    fn begin(&mut self, number: u32, is_last: bool, server: &WebServer<S>, conn: &Conn<S>, now: Now, out: &mut Outbox) {
        if !is_last && self.arriving() >= BODIES_MAX {
            return self.connection.cancel(number, ErrorCode::RefusedStream, out.inline());
        }
        let mut stream = match self.spare.pop() {
            Some(mut spare) => {
                spare.conn.renew(conn);
                spare
            }
            None => Box::new(Stream::new(server.new_stream(conn))),
        };
        self.writer.clear();
        let head = self.connection.head();
        if head.is_too_large {
            server.refuse_stream(&mut stream.conn, now, &mut stream.out, &mut self.writer);
        } else {
            stream.is_chunked = !is_last && head.content_length.is_none();
            head.push_http1(stream.is_chunked, &mut stream.input);
            stream.answer(server, now, &mut self.writer);
        }
        self.after_answer(number, stream, self.streams.len(), out);
    }

    /// Returns the number of requests whose bodies are arriving.
    fn arriving(&self) -> usize {
        self.streams.iter().filter(|(_, stream)| stream.conn.pending.is_some()).count()
    }

    fn take_body(
        &mut self,
        number: u32,
        data: &[u8],
        is_last: bool,
        server: &WebServer<S>,
        now: Now,
        out: &mut Outbox,
    ) {
        let Ok(at) = self.position(number) else { return };
        let (_, stream) = &mut self.streams[at];
        if stream.is_answered {
            // Nobody wants it. Where the response has begun, the stream is reset behind it.
            if is_last && !stream.held.is_empty() {
                self.send_held(at, out);
            }
            return;
        }
        if stream.input.len() + data.len() > UNREAD_MAX {
            let (_, stream) = self.streams.remove(at);
            self.recycle(stream);
            return self.connection.cancel(number, ErrorCode::EnhanceYourCalm, out.inline());
        }
        stream.take_body(data, is_last);
        self.answer_at(at, server, now, out);
    }

    /// Sends the response that has been held until now.
    fn send_held(&mut self, at: usize, out: &mut Outbox) {
        let (number, mut stream) = self.streams.remove(at);
        self.writer.clear();
        mem::swap(&mut self.writer.block, &mut stream.held);
        stream.conn.pending = None;
        self.after_answer(number, stream, at, out);
    }

    /// Goes on with the stream at this position.
    fn answer_at(&mut self, at: usize, server: &WebServer<S>, now: Now, out: &mut Outbox) {
        let (number, mut stream) = self.streams.remove(at);
        self.writer.clear();
        stream.answer(server, now, &mut self.writer);
        self.after_answer(number, stream, at, out);
    }

    /// Writes the head of a response, if there is one, and keeps the stream at this position, unless it has ended.
    fn after_answer(&mut self, number: u32, mut stream: Box<Stream<S>>, at: usize, out: &mut Outbox) {
        if mem::take(&mut self.writer.proceeds) {
            let mut block = Vec::new();
            push_continue_block(&mut block);
            self.connection.push_interim(number, &block, out.inline());
        }
        if self.writer.block.is_empty() {
            if stream.is_broken() {
                self.recycle(stream);
                return self.connection.cancel(number, ErrorCode::InternalError, out.inline());
            }
        } else if stream.conn.pending.as_ref().is_some_and(|pending| pending.is_answered()) {
            stream.is_answered = true;
            stream.held.clone_from(&self.writer.block);
        } else {
            stream.is_answered = true;
            stream.input.clear();
            let body = stream.out.unsent_bytes();
            self.connection.push_response(number, &self.writer.block, body, out.inline());
            if body <= SMALL_MAX && self.connection.room(number) >= body {
                if body > 0 {
                    self.connection.push_data(number, body as usize, out.inline());
                    self.bodies.push_part(out, &mut stream.out, body);
                    self.connection.finish(number, out.inline());
                }
                return self.complete(stream, out);
            }
        }
        self.streams.insert(at, (number, stream));
    }

    // --- waiting --------------------------------------------------------------------------

    /// Goes on with the streams whose promises have been settled.
    fn resume_waiting(&mut self, server: &WebServer<S>, now: Now, out: &mut Outbox) {
        if !self.streams.iter().any(|(_, stream)| stream.out.has_pending_replies()) {
            return;
        }
        let alarm = self.alarm.get_or_insert_default();
        alarm.reset();
        let waker = alarm.waker();
        let mut at = 0;
        while at < self.streams.len() {
            let (number, stream) = &mut self.streams[at];
            let (number, is_waiting) = (*number, stream.out.has_pending_replies());
            if is_waiting && stream.out.poll_reply(&waker) == Poll::Ready(()) {
                self.answer_at(at, server, now, out);
            }
            // It may have gone.
            at += usize::from(self.streams.get(at).is_some_and(|(next, _)| *next == number));
        }
    }

    /// Has the driver wait for the streams that do, behind everything that is to be sent.
    fn wait(&mut self, awaited: Option<proto::DeferredReply>, out: &mut Outbox) {
        let Some(alarm) = &self.alarm else { return };
        match (awaited, self.streams.iter().any(|(_, stream)| stream.out.has_pending_replies())) {
            (Some(reply), true) => out.restore_promise(reply),
            (None, true) => alarm.arm(out.defer()),
            (Some(_), false) => alarm.disarm(),
            (None, false) => {}
        }
    }

    // --- output ---------------------------------------------------------------------------

    /// Writes frames of bodies while there is room for them, here and at the client.
    fn send_bodies(&mut self, now: Now, out: &mut Outbox) {
        let mut sent = 0;
        while self.bodies.have_room(out)
            && let Some((number, length)) = self.connection.next()
        {
            let Ok(at) = self.position(number) else {
                self.connection.cancel(number, ErrorCode::InternalError, out.inline());
                continue;
            };
            let (_, stream) = &mut self.streams[at];
            sent += length as u64;
            if self.connection.push_data(number, length, out.inline()) {
                self.bodies.push_part(out, &mut stream.out, length as u64);
                self.connection.finish(number, out.inline());
                let (_, stream) = self.streams.remove(at);
                self.complete(stream, out);
            } else {
                self.bodies.push_part(out, &mut stream.out, length as u64);
            }
        }
        self.note_congestion(sent, now);
    }

    /// Forgets a stream whose response has been written.
    fn complete(&mut self, mut stream: Box<Stream<S>>, out: &Outbox) {
        if let Some(observed) = stream.conn.observed.take() {
            self.look_at(out);
            self.departures.push(observed, mem::take(&mut self.unclaimed));
        }
        self.recycle(stream);
    }

    /// Takes note of what has been written since the last look.
    fn look_at(&mut self, out: &Outbox) {
        let queued = unsent_bytes(out);
        self.unclaimed += queued.saturating_sub(mem::replace(&mut self.queued, queued));
    }

    /// Keeps a stream for the next request.
    fn recycle(&mut self, mut stream: Box<Stream<S>>) {
        if let Some(mut observed) = stream.conn.observed.take() {
            observed.cancelled(stream.out.unsent_bytes());
        }
        if self.spare.len() < SPARE_MAX && stream.out.is_idle() && stream.conn.is_reusable() {
            stream.input.clear();
            stream.input.shrink_to(KEPT);
            stream.is_answered = false;
            stream.held.clear();
            self.spare.push(stream);
        }
    }

    /// Records the responses that have left.
    pub(crate) fn sent(&mut self, out: &Outbox, clock: fn() -> Now) {
        self.departures.set_unsent(unsent_bytes(out));
        while let Some((mut observed, _)) = self.departures.pop_sent() {
            observed.sent(0, clock);
        }
    }

    fn position(&self, number: u32) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&number, |(number, _)| *number)
    }
}

/// Returns the bytes in the outbox, without the promise at its end.
fn unsent_bytes(out: &Outbox) -> u64 {
    out.unsent_bytes() - u64::from(out.has_pending_replies())
}
