//! Wide events: one record for each request of the connections that are sampled, and one for each of these connections.
//!
//! Connections are sampled when they are opened. Its requests take the path of those that are not plain
//! ([`Conn::is_plain`](crate::Conn)), so that the path of all others has no part in this.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use proto::{Flow, Now, Outbox, Step};
use service::{Departures, JsonLine, LineWriter, Timestamp};
use store::Store;
use wire::resp::Version;

use crate::{
    connection::Dialect,
    state::{Client, Profile, Registration},
};

mod description;
#[cfg(test)]
mod tests;

use description::{Outcome, RequestDescription};

/// Limit of the records of one connection that wait for their replies to leave. Those above it are written before that,
/// as incomplete.
const PENDING_MAX: usize = 1024;

/// Writer of events, shared by all connections.
#[derive(Debug)]
pub struct Events {
    writer: LineWriter,
    /// Share of the connections that are sampled, from 0 to 1.
    rate: f64,
}

impl Events {
    pub fn new(writer: LineWriter, rate: f64) -> Self {
        Self { writer, rate }
    }

    /// Begins the events of a new connection, if it is sampled.
    pub(crate) fn sample(self: &Arc<Self>, registration: &Registration, now: Now) -> Option<Box<ConnectionEvents>> {
        (fastrand::f64() < self.rate).then(|| {
            Box::new(ConnectionEvents {
                events: Arc::clone(self),
                profile: Arc::clone(registration.shared_profile()),
                opened: now,
                pending: Departures::default(),
                totals: Totals::default(),
            })
        })
    }
}

/// Events of one connection.
pub(crate) struct ConnectionEvents {
    events: Arc<Events>,
    profile: Arc<Profile>,
    opened: Now,
    /// Events whose replies have not left.
    pending: Departures<RequestEvent>,
    totals: Totals,
}

/// Sums over the requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    requests: u64,
    errors: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Event of a request that has been answered.
#[derive(Debug)]
struct RequestEvent {
    arrived: Instant,
    /// An object that lacks its end.
    text: Vec<u8>,
}

/// A request that is being answered.
pub(crate) struct BegunRequest {
    began: Instant,
    arrived: Instant,
    unsent_bytes: u64,
    tail_len: usize,
}

impl BegunRequest {
    /// Notes what there was before a request is answered whose first byte came at `arrived`.
    pub(crate) fn new(arrived: Instant, out: &mut Outbox) -> Self {
        Self { began: Instant::now(), arrived, unsent_bytes: out.unsent_bytes(), tail_len: out.inline().len() }
    }
}

impl ConnectionEvents {
    /// Records the request that `input` begins with, if `step` says that there was one.
    pub(crate) fn answered<S: Store>(
        &mut self,
        begun: &BegunRequest,
        (dialect, client): (&Dialect, &Client<S>),
        (input, step): (&[u8], Step),
        now: Now,
        out: &mut Outbox,
    ) {
        if step.consumed == 0 && step.flow == Flow::Open {
            return; // It is torn, or has to wait.
        }
        let execution = begun.began.elapsed();
        let bytes_out = out.unsent_bytes().saturating_sub(begun.unsent_bytes);
        // A reply that is not all in the tail is a large value.
        let tail = out.inline().get(begun.tail_len..).unwrap_or_default();
        let reply = if tail.len() as u64 == bytes_out { tail } else { b"" };
        let outcome = Outcome::of(dialect, reply);
        let request =
            RequestDescription::parse(dialect, &input[..if step.consumed > 0 { step.consumed } else { input.len() }]);
        let bytes_in = step.consumed as u64;
        self.totals.add(bytes_in, bytes_out, &outcome);
        let received = now.unix.saturating_sub(now.instant.saturating_duration_since(begun.arrived));
        let mut text = Vec::with_capacity(512);
        let mut object = begin_object(&mut text, "request", received, &self.profile);
        object
            .text("protocol", protocol(dialect, client.version).as_bytes())
            .number("database", client.database.into())
            .optional_text("command", request.command.as_deref())
            .number("key_count", request.key_count as u64)
            .optional_text("key", request.key.as_deref())
            .number("bytes_in", bytes_in)
            .number("bytes_out", bytes_out)
            .text("outcome", outcome.name().as_bytes())
            .optional_text("error", outcome.error())
            .seconds("execution", execution);
        self.pending.push(RequestEvent { arrived: begun.arrived, text }, bytes_out);
        if self.pending.len() > PENDING_MAX
            && let Some((event, _, _)) = self.pending.pop_unsent()
        {
            self.write(event, Instant::now(), false);
        }
    }

    /// Writes the events whose replies have left.
    pub(crate) fn sent(&mut self, out: &Outbox) {
        self.pending.set_unsent(out.unsent_bytes());
        let mut now = None;
        while let Some((event, _)) = self.pending.pop_sent() {
            let now = *now.get_or_insert_with(Instant::now);
            self.write(event, now, true);
        }
    }

    fn write(&self, event: RequestEvent, now: Instant, is_complete: bool) {
        let RequestEvent { arrived, mut text } = event;
        JsonLine::resume(&mut text)
            .seconds("duration", now.saturating_duration_since(arrived))
            .boolean("complete", is_complete)
            .end();
        self.events.writer.push(&text);
    }
}

/// Writes what is left at the end of the connection, and the connection itself.
impl Drop for ConnectionEvents {
    fn drop(&mut self) {
        let now = Instant::now();
        while let Some((event, bytes, sent)) = self.pending.pop_unsent() {
            self.write(event, now, sent == bytes);
        }
        let mut line = Vec::with_capacity(512);
        let Totals { requests, errors, bytes_in, bytes_out } = self.totals;
        begin_object(&mut line, "connection", self.opened.unix, &self.profile)
            .number("requests", requests)
            .number("errors", errors)
            .number("bytes_in", bytes_in)
            .number("bytes_out", bytes_out)
            .seconds("duration", now.saturating_duration_since(self.opened.instant))
            .end();
        self.events.writer.push(&line);
    }
}

impl Totals {
    fn add(&mut self, bytes_in: u64, bytes_out: u64, outcome: &Outcome<'_>) {
        self.requests += 1;
        self.errors += u64::from(outcome.error().is_some());
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
    }
}

impl fmt::Debug for ConnectionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionEvents").field("totals", &self.totals).finish_non_exhaustive()
    }
}

/// Begins an object with the fields that all events have.
fn begin_object<'a>(out: &'a mut Vec<u8>, kind: &str, unix: Duration, profile: &Profile) -> JsonLine<'a> {
    let name = profile.labels().name.clone();
    let mut object = JsonLine::new(out);
    object
        .display("time", Timestamp::from(unix))
        .text("event", kind.as_bytes())
        .number("connection", profile.id)
        .text("client", profile.peer_text().as_bytes())
        .text("client_name", name.as_bytes());
    object
}

fn protocol(dialect: &Dialect, version: Version) -> &'static str {
    match (dialect, version) {
        (Dialect::Resp(_) | Dialect::Undecided(_), Version::Resp2) => "resp2",
        (Dialect::Resp(_) | Dialect::Undecided(_), Version::Resp3) => "resp3",
        (Dialect::Us(_), _) => "us",
        (Dialect::Memcached(_), _) => "memcached",
    }
}
