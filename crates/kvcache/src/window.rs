//! A rolling window over the commands of one batch, across its connections.
//!
//! Almost all the time of a GET is waiting for memory: the line of its bucket, then that of its entry. So the commands
//! of a batch, whichever connections they come from, pass through a ring in groups of [`GROUP`]: the lines of a group's
//! buckets are asked for when it is complete, those of its entries a group later, and it is run after another group. A
//! request for a line first waits for the page's translation, and a processor looks only some hundred instructions
//! ahead: asked for in a row, all of a group's translations are found at the same time.

use proto::{BatchEntry, Flow, Now, Outbox, Step};
use store::{Attributes, Pin, Scout as _, Store};
use wire::resp::{FastRequest, Version, parse_fast, reply};

use crate::{
    commands::{Refusal, table},
    connection::{Conn, Dialect},
    memcached::{self, Pipeline, Single},
    reply::Reply,
    server::KvServer,
    space::{Keyspace, MARK, Value},
    us::{self, Deed, Usual},
};

/// Commands that go from stage to stage together.
const GROUP: usize = 8;
/// A power of two that holds the groups of all stages.
const RING: usize = 4 * GROUP;

/// A GET or SET under way, a DEL of the 0x1F text protocol, or a memcached client's request on one key.
#[derive(Clone, Copy)]
struct Pending<'i, H> {
    hash: u64,
    key: &'i [u8],
    hint: H,
    deed: Deed<&'i [u8]>,
    /// Which connection of the batch it belongs to.
    turn: usize,
}

pub(crate) struct Window<'s, 'i, S: Store + 'static> {
    server: &'s KvServer<S>,
    keys: Keyspace<'s, S>,
    pin: Pin,
    now: Now,
    ring: [Pending<'i, S::Hint>; RING],
    entered: usize,
    /// Buckets asked for.
    begun: usize,
    /// Entries asked for.
    asked: usize,
    left: usize,
    gets: u64,
    sets: u64,
    /// Commands of the 0x1F text protocol, by their [`us::Verb`].
    us: [u64; 3],
    /// There once a memcached client has sent something.
    memcached: Option<Box<Pipeline<'i>>>,
    /// Commands wait: none of them takes the short way.
    paused: bool,
    /// Values at least so long are encoded before they are kept.
    raw_max: usize,
}

impl<'s, 'i, S: Store + 'static> Window<'s, 'i, S> {
    pub(crate) fn new(server: &'s KvServer<S>, now: Now) -> Self {
        Self {
            server,
            keys: Keyspace::new(&server.space, now),
            pin: Pin::new(),
            now,
            ring: [Pending { hash: 0, key: b"", hint: S::Hint::default(), deed: Deed::Get, turn: 0 }; RING],
            entered: 0,
            begun: 0,
            asked: 0,
            left: 0,
            gets: 0,
            sets: 0,
            us: [0; 3],
            memcached: None,
            paused: server.clients.are_paused(),
            raw_max: server.space.codec().threshold(),
        }
    }

    pub(crate) fn run(mut self, turns: &mut [BatchEntry<'i, Conn<S>>]) {
        for at in 0..turns.len() {
            self.turn(turns, at);
        }
        self.drain(turns);
        self.count();
    }

    /// Takes in what one connection has sent.
    fn turn(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>], at: usize) {
        let input = turns[at].input;
        let (mut step, mut last) = (Step::open(0), None);
        while step.flow == Flow::Open && step.consumed < input.len() && !turns[at].out.is_full() {
            let rest = &input[step.consumed..];
            let is_plain = turns[at].conn.is_plain && !self.paused;
            if is_plain
                && (step.consumed > 0 || !turns[at].conn.is_mid_request())
                && let Some(Usual { key, deed, len }) = self.usual(turns[at].conn, rest)
            {
                last = Some(match deed {
                    Deed::Get => table::GET,
                    Deed::Set(_) => table::SET,
                    Deed::Del => table::DEL,
                });
                self.enter(turns, key, deed, at);
                step.consumed += len;
                continue;
            }
            last = None;
            let heard = if is_plain { self.hear_memcached(turns[at].conn, rest) } else { None };
            if let Some(single) = heard.and_then(|heard| Single::of(&self.server.space, &heard)) {
                self.enter_memcached(turns, single, at);
                step.consumed += single.len;
                continue;
            }
            // Anything else comes after all that came before it.
            self.drain(turns);
            let BatchEntry { conn, out, .. } = &mut turns[at];
            let one = match heard {
                Some(heard) => memcached::answer(self.server, conn, heard, &mut self.keys, out),
                None => self.server.one(conn, rest, &mut self.keys, self.now, out),
            };
            step = Step { consumed: step.consumed + one.consumed, ..one };
            if one.consumed == 0 {
                break;
            }
        }
        let turn = &mut turns[at];
        turn.conn.looked(input, &mut step, turn.out, self.now);
        if let Some(number) = last {
            turn.conn.client.ran(number);
        }
        turn.step = step;
    }

    /// The request of a memcached client that `input` begins with, read once.
    #[inline]
    fn hear_memcached(&self, conn: &mut Conn<S>, input: &'i [u8]) -> Option<memcached::Heard<'i>> {
        let Dialect::Memcached(parser) = &mut conn.dialect else { return None };
        Some(memcached::hear(self.server, parser, conn.authenticated, input))
    }

    /// The request that `input` begins with, if it needs nothing but the store.
    #[inline(always)]
    fn usual(&self, conn: &Conn<S>, input: &'i [u8]) -> Option<Usual<'i>> {
        let usual = match &conn.dialect {
            Dialect::Us(us) => us.usual(input, self.server.limits.bulk_bytes_max)?,
            Dialect::Resp(_) => match parse_fast(input)? {
                (FastRequest::Get { key }, len) => Usual { key, deed: Deed::Get, len },
                (FastRequest::Set { key, value }, len) => Usual { key, deed: Deed::Set(value), len },
            },
            Dialect::Undecided(_) | Dialect::Memcached(_) => return None,
        };
        let is_kept_raw = !matches!(usual.deed, Deed::Set(value) if value.len() >= self.raw_max);
        (is_kept_raw && usual.key.first() != Some(&MARK)).then_some(usual)
    }

    #[inline(always)]
    fn enter(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>], key: &'i [u8], deed: Deed<&'i [u8]>, turn: usize) {
        let hash = self.server.space.hash(key);
        self.push(turns, Pending { hash, key, hint: S::Hint::default(), deed, turn });
    }

    #[inline]
    fn enter_memcached(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>], single: Single<'i>, turn: usize) {
        self.memcached.get_or_insert_with(|| Box::new(Pipeline::new(RING))).enter(single);
        // Its deed is in the pipeline.
        let Single { hash, .. } = single;
        self.push(turns, Pending { hash, key: b"", hint: S::Hint::default(), deed: Deed::Get, turn });
    }

    #[inline(always)]
    fn push(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>], pending: Pending<'i, S::Hint>) {
        self.ring[self.entered % RING] = pending;
        self.entered += 1;
        if self.entered - self.begun == GROUP {
            self.advance(turns);
        }
    }

    /// A group is complete: it begins, the one before it goes on, and the one before that is run.
    #[inline(always)]
    fn advance(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>]) {
        let run_before = self.asked;
        let ask_before = self.begun;
        self.begin(self.entered);
        self.ask(ask_before);
        while self.left < run_before {
            self.leave(turns);
        }
    }

    #[inline(always)]
    fn begin(&mut self, end: usize) {
        while self.begun < end {
            let hash = self.ring[self.begun % RING].hash;
            self.server.space.scout(hash).prefetch(hash, &self.pin);
            self.begun += 1;
        }
    }

    #[inline(always)]
    fn ask(&mut self, end: usize) {
        while self.asked < end {
            let Pending { hash, hint, .. } = &mut self.ring[self.asked % RING];
            *hint = self.server.space.scout(*hash).prefetch_entry(*hash, &self.pin);
            self.asked += 1;
        }
    }

    /// Runs the oldest command.
    #[inline(always)]
    fn leave(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>]) {
        let Pending { hash, key, hint, deed, turn } = self.ring[self.left % RING];
        self.left += 1;
        let BatchEntry { conn, out, .. } = &mut turns[turn];
        match (&conn.dialect, deed) {
            (Dialect::Resp(_), Deed::Get) => self.get(hint, hash, key, conn.version, out),
            (Dialect::Resp(_), Deed::Set(value)) => self.set(hint, hash, key, value, out),
            (Dialect::Us(_), deed) => self.us(hash, key, deed, out),
            (Dialect::Memcached(_), _) => self.memcached(out),
            // RESP's takes many keys, and is not one of the usual commands.
            (Dialect::Resp(_), Deed::Del) | (Dialect::Undecided(_), _) => {}
        }
    }

    /// Runs everything that is under way.
    fn drain(&mut self, turns: &mut [BatchEntry<'i, Conn<S>>]) {
        self.begin(self.entered);
        self.ask(self.entered);
        while self.left < self.entered {
            self.leave(turns);
        }
    }

    #[inline(always)]
    fn get(&mut self, hint: S::Hint, hash: u64, key: &[u8], version: Version, out: &mut Outbox) {
        self.gets += 1;
        let now = self.keys.now;
        let cache = self.keys.cache(hash);
        let Some(place) = cache.use_entry(hint, hash, key, now) else {
            return reply::null(out.inline(), version);
        };
        match cache.store().plain_value(place) {
            Some(value) => reply::bulk(out.inline(), value),
            None => {
                let value = Value::counted(self.server.space.codec(), cache, place);
                Reply { out, version }.value(value);
            }
        }
    }

    #[inline(always)]
    fn set(&mut self, hint: S::Hint, hash: u64, key: &[u8], value: &[u8], out: &mut Outbox) {
        self.sets += 1;
        let now = self.keys.now;
        match self.keys.cache(hash).set_hinted(hint, hash, key, value, Attributes::default(), now) {
            Ok(()) => out.inline().extend_from_slice(b"+OK\r\n"),
            Err(error) => {
                let refusal = Refusal::from(error);
                self.server.statistics.failed(table::SET);
                self.server.statistics.error(&refusal.0);
                reply::error(out.inline(), refusal.0.as_bytes());
            }
        }
    }

    #[inline]
    fn us(&mut self, hash: u64, key: &'i [u8], deed: Deed<&'i [u8]>, out: &mut Outbox) {
        let verb = deed.verb();
        self.us[verb as usize] += 1;
        if !us::run(&mut self.keys.item_with(hash, key), deed, out) {
            self.server.statistics.failed(verb.number());
        }
    }

    #[inline(never)]
    fn memcached(&mut self, out: &mut Outbox) {
        if let Some(pipeline) = &mut self.memcached {
            pipeline.leave(self.server, &mut self.keys, out);
        }
    }

    /// Each command of the batch is given an equal part of its time.
    fn count(&self) {
        let memcached = || self.memcached.iter().flat_map(|pipeline| pipeline.counts());
        let us = || us::Verb::ALL.iter().zip(self.us);
        let others = us().map(|(_, count)| count).chain(memcached().map(|(_, count)| count));
        let commands = self.gets + self.sets + others.sum::<u64>();
        if commands > 0 {
            let each = self.now.instant.elapsed() / u32::try_from(commands).unwrap_or(u32::MAX);
            self.server.statistics.batch_size(commands);
            self.server.statistics.batch(table::GET, self.gets, each);
            self.server.statistics.batch(table::SET, self.sets, each);
            us().for_each(|(verb, count)| self.server.statistics.batch(verb.number(), count, each));
            memcached().for_each(|(verb, count)| self.server.statistics.batch(verb.number(), count, each));
        }
    }
}
