//! The line protocol: one line is one request and has one reply.
//!
//! | line | reply |
//! |---|---|
//! | `ID` | `ID` at once |
//! | `ID MS` | `ID`, from another thread after MS milliseconds |
//! | `ID MS big` | the same and 100,000 bytes of `x` |
//! | `ID MS hold` | empty, after MS milliseconds; the lines after it are read only then |
//! | `ID MS drop` | none: the promise is dropped |
//! | `KIND N` | the line and the first N bytes of the content file, as a KIND of segment (see bodies.rs) |
//! | `fallbacks` | the number of cached pipes and pages that were sent in another way |
//! | `largest-batch` | the most connections that one `on_ready` saw |
//! | `thread` | the name of the thread that the protocol runs on |
//! | `listener` | the number of the front end, the number of those of `--listen`, the bytes of receive and send buffer |
//! | `peer` | the client's address |
//! | `counts` | the connections that were accepted, were refused and are open |
//! | `unsent` | bytes of output that the protocol has queued and not been told to be sent: of this connection and of all |
//! | `stream N` | the line and N bytes, 4096 of each letter in turn, made as there is room for them (`--streams`) |
//! | `farewell` | empty; at the end of the input, `farewell` (`--streams`) |
//! | `subscribe N` | the line; what is published from then on is pushed, at most N bytes that are not taken |
//! | `publish COUNT LEN` | `published TAKEN`, once a thread has pushed COUNT lines of LEN bytes to all who subscribe |
//! | `escape WAY TARGET` | `WAY escaped` or `WAY stopped`, after an attempt to do what a confined server must not (see escape.rs) |
//! | `block MS` | the line, once the thread that runs the protocol has slept for MS milliseconds |
//! | `stop` | `stop`, and the server drains |
//! | `close` | `close`, then the connection is closed |
//! | `linger` | `linger`, then the connection is closed with a lingering close |
//! | `ack` | `ack`, then the connection is closed, with a lingering close unless the peer has received everything by then |
//! | anything else | `? LINE`, then closed with a lingering close |

use std::{
    mem,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use proto::{BatchEntry, Flow, Now, Outbox, Peer, PeerAddress, Protocol, Step};
use rustix::net::sockopt;
use service::{DriverSet, Host, Statistics, Stop, Timeouts};

use super::{
    bodies::{Bodies, BodyKind},
    delayed::DelayedReplies,
    escape,
    pushed::Subscribers,
    streamed::Streamed,
};

const BIG: &[u8] = &[b'x'; 100_000];

/// The protocol, with all that connections share.
pub(crate) struct LineProtocol<const BATCH: usize, const STREAMS: bool> {
    bodies: Bodies,
    timeouts: Timeouts,
    listen_front_ends: usize,
    statistics: Statistics,
    stop: Stop,
    delayed: DelayedReplies,
    largest_batch: AtomicUsize,
    subscribers: Subscribers,
    /// Sum of [`Conn::unsent`].
    unsent: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    /// Arrival of the first byte of a line whose end has not arrived.
    partial_since: Option<Instant>,
    /// True while no more lines are read, since a reply to `hold` is pending.
    is_holding: bool,
    /// No more lines are read before it is complete.
    streamed: Streamed,
    has_farewell: bool,
    /// It waits for pushes, for as long as it takes.
    is_subscriber: bool,
    front_end: usize,
    receive_bytes: usize,
    send_bytes: usize,
    peer: PeerAddress,
    /// Bytes that were queued when the protocol last looked at the output, or was last told that some had been sent.
    unsent: u64,
}

/// A parsed line.
enum Request<'a> {
    Id,
    Deferred { id: &'a str, after: Duration, answer: Answer },
    Body { kind: BodyKind, len: usize },
    Fallbacks,
    LargestBatch,
    Thread,
    Listener,
    Peer,
    Counts,
    Unsent,
    Stream(usize),
    Subscribe(usize),
    Publish { count: usize, len: usize },
    Farewell,
    Block(Duration),
    Escape { way: &'a str, target: &'a str },
    Stop,
    Close(Flow),
}

enum Answer {
    Plain,
    Big,
    Nothing,
    Dropped,
}

impl<'a> Request<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = str::from_utf8(line).ok()?.split(' ');
        Some(match (words.next()?, words.next(), words.next()) {
            ("close", None, None) => Self::Close(Flow::Close),
            ("linger", None, None) => Self::Close(Flow::Linger),
            ("ack", None, None) => Self::Close(Flow::CloseAfterAck),
            ("largest-batch", None, None) => Self::LargestBatch,
            ("thread", None, None) => Self::Thread,
            ("listener", None, None) => Self::Listener,
            ("peer", None, None) => Self::Peer,
            ("counts", None, None) => Self::Counts,
            ("unsent", None, None) => Self::Unsent,
            ("farewell", None, None) => Self::Farewell,
            ("stream", Some(len), None) => Self::Stream(len.parse().ok()?),
            ("subscribe", Some(bytes_max), None) => Self::Subscribe(bytes_max.parse().ok()?),
            ("publish", Some(count), Some(len)) => Self::Publish { count: count.parse().ok()?, len: len.parse().ok()? },
            ("stop", None, None) => Self::Stop,
            ("escape", Some(way), Some(target)) => Self::Escape { way, target },
            ("block", Some(time), None) => Self::Block(Duration::from_millis(time.parse().ok()?)),
            ("fallbacks", None, None) => Self::Fallbacks,
            (id, None, None) if !id.is_empty() => Self::Id,
            (word, Some(len), None) if let Some(kind) = BodyKind::parse(word) => {
                Self::Body { kind, len: len.parse().ok()? }
            }
            (id, Some(after), answer) => {
                let answer = match answer {
                    None => Answer::Plain,
                    Some("big") => Answer::Big,
                    Some("hold") => Answer::Nothing,
                    Some("drop") => Answer::Dropped,
                    Some(_) => return None,
                };
                Self::Deferred { id, after: Duration::from_millis(after.parse().ok()?), answer }
            }
            _ => return None,
        })
    }
}

impl<const BATCH: usize, const STREAMS: bool> LineProtocol<BATCH, STREAMS> {
    pub(crate) fn new(bodies: Bodies, host: &Host<impl DriverSet>) -> anyhow::Result<Self> {
        Ok(Self {
            bodies,
            timeouts: host.timeouts(),
            listen_front_ends: host.listen_front_ends(),
            statistics: host.statistics(),
            stop: host.stop(),
            delayed: DelayedReplies::start().context("cannot start a thread")?,
            largest_batch: AtomicUsize::new(0),
            subscribers: Subscribers::default(),
            unsent: AtomicU64::new(0),
        })
    }

    fn answer(&self, conn: &mut Conn, line: &[u8], now: Now, out: &mut Outbox) -> Flow {
        let say = |out: &mut Outbox, text: String| out.inline().extend_from_slice(text.as_bytes());
        let whole_line = |out: &mut Outbox| {
            out.inline().extend_from_slice(line);
            out.inline().push(b'\n');
        };
        match Request::parse(line) {
            Some(Request::Id) => whole_line(out),
            Some(Request::LargestBatch) => say(out, format!("{}\n", self.largest_batch.load(Ordering::Relaxed))),
            Some(Request::Fallbacks) => say(out, format!("{}\n", self.bodies.fallbacks())),
            Some(Request::Thread) => say(out, format!("{:?}\n", thread::current().id())),
            Some(Request::Listener) => {
                let Conn { front_end, receive_bytes, send_bytes, .. } = conn;
                say(out, format!("{front_end} {} {receive_bytes} {send_bytes}\n", self.listen_front_ends));
            }
            Some(Request::Peer) => say(out, format!("{}\n", conn.peer)),
            Some(Request::Counts) => {
                let counts = self.statistics.counts();
                say(out, format!("{} {} {}\n", counts.accepted, counts.refused, counts.open()));
            }
            Some(Request::Unsent) => {
                say(out, format!("{} {}\n", conn.unsent, self.unsent.load(Ordering::Relaxed)));
            }
            Some(Request::Stream(len)) if STREAMS => {
                whole_line(out);
                conn.streamed = Streamed::new(len);
                conn.streamed.proceed(out);
            }
            Some(Request::Farewell) if STREAMS => conn.has_farewell = true,
            Some(Request::Subscribe(bytes_max)) if !STREAMS => {
                whole_line(out);
                self.subscribers.add(bytes_max, out);
                conn.is_subscriber = true;
            }
            Some(Request::Publish { count, len }) if !STREAMS => {
                let promise = out.defer();
                if self.subscribers.publish(count, len, promise).is_err() {
                    return Flow::Abort;
                }
            }
            Some(Request::Block(time)) => {
                thread::sleep(time);
                whole_line(out);
            }
            Some(Request::Escape { way, target }) => {
                let outcome = match escape::try_to(way, target) {
                    Some(true) => "escaped",
                    Some(false) => "stopped",
                    None => return Flow::Abort,
                };
                say(out, format!("{way} {outcome}\n"));
            }
            Some(Request::Stop) => {
                whole_line(out);
                self.stop.drain("stop");
            }
            Some(Request::Close(flow)) => {
                whole_line(out);
                return flow;
            }
            Some(Request::Deferred { id, after, answer }) => self.defer(id, now.instant + after, &answer, out),
            Some(Request::Body { kind, len }) => {
                if self.bodies.push(kind, len, line, out).is_none() {
                    return Flow::Abort;
                }
            }
            Some(Request::Stream(_) | Request::Farewell | Request::Subscribe(_) | Request::Publish { .. }) | None => {
                out.inline().extend_from_slice(b"? ");
                whole_line(out);
                return Flow::Linger;
            }
        }
        Flow::Open
    }

    /// Notes what of the output has not been sent.
    fn note_unsent(&self, conn: &mut Conn, out: &Outbox) {
        let before = mem::replace(&mut conn.unsent, out.unsent_bytes());
        // The sum never wraps, whatever its terms do meanwhile.
        self.unsent.fetch_add(conn.unsent.wrapping_sub(before), Ordering::Relaxed);
    }

    fn defer(&self, id: &str, at: Instant, answer: &Answer, out: &mut Outbox) {
        let promise = out.defer();
        let mut reply = Outbox::default();
        reply.inline().extend_from_slice(format!("{id}\n").as_bytes());
        let reply = match answer {
            Answer::Plain => Some(reply),
            Answer::Big => {
                reply.push_shared(&Bytes::from_static(BIG));
                Some(reply)
            }
            Answer::Nothing => Some(Outbox::default()),
            Answer::Dropped => None,
        };
        self.delayed.fulfil(at, promise, reply);
    }
}

impl<const BATCH: usize, const STREAMS: bool> Protocol for LineProtocol<BATCH, STREAMS> {
    type Conn = Conn;

    const BATCH: usize = BATCH;
    const OBSERVES_OUTPUT: bool = true;
    const STREAMS: bool = STREAMS;
    const PUSHES: bool = !STREAMS;

    fn open(&self, peer: Peer<'_>, _: Now) -> Conn {
        Conn {
            partial_since: None,
            is_holding: false,
            streamed: Streamed::default(),
            has_farewell: false,
            is_subscriber: false,
            front_end: peer.front_end,
            peer: peer.address(),
            receive_bytes: sockopt::socket_recv_buffer_size(peer).unwrap_or(0),
            send_bytes: sockopt::socket_send_buffer_size(peer).unwrap_or(0),
            unsent: 0,
        }
    }

    fn on_input(&self, conn: &mut Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut step = Step::open(0);
        conn.is_holding &= out.has_pending_replies();
        conn.streamed.proceed(out);
        let is_ready = |conn: &Conn| !conn.is_holding && conn.streamed.is_complete();
        while !out.is_full() && step.flow == Flow::Open && is_ready(conn) {
            let rest = &input[step.consumed..];
            let Some(len) = rest.iter().position(|&byte| byte == b'\n') else { break };
            step.flow = self.answer(conn, &rest[..len], now, out);
            conn.is_holding = rest[..len].ends_with(b" hold");
            step.consumed += len + 1;
        }
        let is_partial = step.consumed < input.len() && !out.is_full() && is_ready(conn);
        conn.partial_since =
            is_partial.then(|| conn.partial_since.filter(|_| step.consumed == 0).unwrap_or(now.instant));
        self.note_unsent(conn, out);
        step
    }

    fn on_sent(&self, conn: &mut Conn, out: &Outbox, _: fn() -> Now) {
        self.note_unsent(conn, out);
    }

    fn on_end(&self, conn: &mut Conn, _: Now, out: &mut Outbox) -> Flow {
        if mem::take(&mut conn.has_farewell) {
            out.inline().extend_from_slice(b"farewell\n");
        }
        Flow::Open
    }

    fn on_ready(&self, batch: &mut [BatchEntry<'_, Conn>], now: Now) {
        self.largest_batch.fetch_max(batch.len(), Ordering::Relaxed);
        for entry in batch {
            entry.step = self.on_input(entry.conn, entry.input, now, entry.out);
        }
    }

    fn deadline(&self, conn: &Conn, quiet_since: Instant) -> Option<Instant> {
        match conn.partial_since {
            Some(since) => Some(since + self.timeouts.request),
            None if conn.is_subscriber => None,
            None => Some(quiet_since + self.timeouts.idle),
        }
    }

    /// Closes an idle connection without a word; tells a peer that does not finish its line.
    fn on_deadline(&self, conn: &mut Conn, _: Now, out: &mut Outbox) -> Flow {
        match conn.partial_since {
            None => Flow::Abort,
            Some(_) => {
                out.inline().extend_from_slice(b"timeout\n");
                Flow::Linger
            }
        }
    }

    fn retire(&self, conn: &mut Conn) -> bool {
        conn.streamed.is_complete()
    }

    fn refusal(&self) -> &[u8] {
        b"full\n"
    }
}
