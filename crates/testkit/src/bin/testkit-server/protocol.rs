//! The protocol: one line, one reply.
//!
//! | line | reply |
//! |---|---|
//! | `ID` | `ID` at once |
//! | `ID MS` | `ID`, from another thread after MS milliseconds |
//! | `ID MS big` | the same and 100,000 bytes of `x` |
//! | `ID MS hold` | nothing, after MS milliseconds; what follows is looked at only then |
//! | `ID MS drop` | none: the promise is dropped |
//! | `KIND N` | the line and the first N bytes of the content file, as a KIND of segment (see bodies.rs) |
//! | `fallbacks` | how often a cached pipe or pages were sent in another way |
//! | `widest` | the most connections that one `on_ready` saw |
//! | `thread` | the name of the thread that the protocol runs on |
//! | `entrance` | the front end connected to, how many of them are `--listen` ones, the receive and send buffer |
//! | `counts` | the connections accepted, refused and open |
//! | `stop` | `stop`, and the server drains |
//! | `bye` | `bye`, then the connection is closed |
//! | `huh` | `huh`, then the connection is closed with a lingering close |
//! | `all` | `all`, then the connection is closed with a lingering close unless the peer has everything by then |
//! | anything else | `? LINE`, then closed with a lingering close |

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use bytes::Bytes;
use proto::{BatchEntry, Flow, Now, Outbox, Peer, Protocol, Step};
use rustix::net::sockopt;
use service::{Host, Statistics, Stop, Timeouts};

use crate::{
    bodies::{Kind, Shelf},
    delayed::Later,
};

const BIG: &[u8] = &[b'x'; 100_000];

/// The protocol and what all connections share.
pub(crate) struct Lab<const BATCH: usize> {
    shelf: Shelf,
    timeouts: Timeouts,
    listen_front_ends: usize,
    statistics: Statistics,
    stop: Stop,
    later: Later,
    widest: AtomicUsize,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    /// When the first byte of a line came whose end has not.
    torn_since: Option<Instant>,
    /// Nothing more is looked at while an answer is to come.
    holds: bool,
    front_end: usize,
    receive_bytes: usize,
    send_bytes: usize,
}

/// What a line asks for.
enum Request<'a> {
    Id,
    Deferred { id: &'a str, after: Duration, answer: Answer },
    Body { kind: Kind, len: usize },
    Fallbacks,
    Widest,
    Thread,
    Entrance,
    Counts,
    Stop,
    Leave(Flow),
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
            ("bye", None, None) => Self::Leave(Flow::Close),
            ("huh", None, None) => Self::Leave(Flow::Linger),
            ("all", None, None) => Self::Leave(Flow::CloseAfterAck),
            ("widest", None, None) => Self::Widest,
            ("thread", None, None) => Self::Thread,
            ("entrance", None, None) => Self::Entrance,
            ("counts", None, None) => Self::Counts,
            ("stop", None, None) => Self::Stop,
            ("fallbacks", None, None) => Self::Fallbacks,
            (id, None, None) if !id.is_empty() => Self::Id,
            (word, Some(len), None) if let Some(kind) = Kind::parse(word) => {
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

impl<const BATCH: usize> Lab<BATCH> {
    pub(crate) fn new(shelf: Shelf, host: &Host) -> anyhow::Result<Self> {
        Ok(Self {
            shelf,
            timeouts: host.timeouts(),
            listen_front_ends: host.listen_front_ends(),
            statistics: host.statistics(),
            stop: host.stop(),
            later: Later::start().context("cannot start a thread")?,
            widest: AtomicUsize::new(0),
        })
    }

    fn answer(&self, conn: &Conn, line: &[u8], now: Now, out: &mut Outbox) -> Flow {
        let say = |out: &mut Outbox, text: String| out.inline().extend_from_slice(text.as_bytes());
        let whole_line = |out: &mut Outbox| {
            out.inline().extend_from_slice(line);
            out.inline().push(b'\n');
        };
        match Request::parse(line) {
            Some(Request::Id) => whole_line(out),
            Some(Request::Widest) => say(out, format!("{}\n", self.widest.load(Ordering::Relaxed))),
            Some(Request::Fallbacks) => say(out, format!("{}\n", self.shelf.fallbacks())),
            Some(Request::Thread) => say(out, format!("{:?}\n", thread::current().id())),
            Some(Request::Entrance) => {
                let Conn { front_end, receive_bytes, send_bytes, .. } = conn;
                say(out, format!("{front_end} {} {receive_bytes} {send_bytes}\n", self.listen_front_ends));
            }
            Some(Request::Counts) => {
                let counts = self.statistics.counts();
                say(out, format!("{} {} {}\n", counts.accepted, counts.refused, counts.open()));
            }
            Some(Request::Stop) => {
                whole_line(out);
                self.stop.drain("stop");
            }
            Some(Request::Leave(flow)) => {
                whole_line(out);
                return flow;
            }
            Some(Request::Deferred { id, after, answer }) => self.defer(id, now.instant + after, &answer, out),
            Some(Request::Body { kind, len }) => {
                if self.shelf.push(kind, len, line, out).is_none() {
                    return Flow::Abort;
                }
            }
            None => {
                out.inline().extend_from_slice(b"? ");
                whole_line(out);
                return Flow::Linger;
            }
        }
        Flow::Open
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
        self.later.fulfil(at, promise, reply);
    }
}

impl<const BATCH: usize> Protocol for Lab<BATCH> {
    type Conn = Conn;

    const BATCH: usize = BATCH;

    fn open(&self, peer: Peer<'_>, _: Now) -> Conn {
        Conn {
            torn_since: None,
            holds: false,
            front_end: peer.front_end,
            receive_bytes: sockopt::socket_recv_buffer_size(peer).unwrap_or(0),
            send_bytes: sockopt::socket_send_buffer_size(peer).unwrap_or(0),
        }
    }

    fn on_input(&self, conn: &mut Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut step = Step::open(0);
        conn.holds &= out.has_pending_replies();
        while !out.is_full() && step.flow == Flow::Open && !conn.holds {
            let rest = &input[step.consumed..];
            let Some(len) = rest.iter().position(|&byte| byte == b'\n') else { break };
            step.flow = self.answer(conn, &rest[..len], now, out);
            conn.holds = rest[..len].ends_with(b" hold");
            step.consumed += len + 1;
        }
        let torn = step.consumed < input.len() && !out.is_full() && !conn.holds;
        conn.torn_since = torn.then(|| conn.torn_since.filter(|_| step.consumed == 0).unwrap_or(now.instant));
        step
    }

    fn on_ready(&self, turns: &mut [BatchEntry<'_, Conn>], now: Now) {
        self.widest.fetch_max(turns.len(), Ordering::Relaxed);
        for turn in turns {
            turn.step = self.on_input(turn.conn, turn.input, now, turn.out);
        }
    }

    fn deadline(&self, conn: &Conn, quiet_since: Instant) -> Option<Instant> {
        Some(conn.torn_since.map_or(quiet_since + self.timeouts.idle, |since| since + self.timeouts.request))
    }

    /// An idle peer is left without a word; one that does not finish its line is told.
    fn on_deadline(&self, conn: &mut Conn, _: Now, out: &mut Outbox) -> Flow {
        match conn.torn_since {
            None => Flow::Abort,
            Some(_) => {
                out.inline().extend_from_slice(b"timeout\n");
                Flow::Linger
            }
        }
    }

    fn refusal(&self) -> &[u8] {
        b"full\n"
    }
}
