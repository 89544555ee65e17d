//! A rolling window over the commands of one batch, across its connections.
//!
//! Almost all the time of a GET is waiting for memory: the line of its bucket, then that of its entry. So the commands
//! of a batch, whichever connections they come from, pass through a ring in groups of [`GROUP`]: the lines of a group's
//! buckets are prefetched when it is complete, those of its entries a group later, and it is run after another group. A
//! prefetch first waits for the page's translation, and a processor looks only some hundred instructions ahead: issued in
//! a row, all translations of a group are found at the same time.

use proto::{BatchEntry, Flow, Now, Outbox, Step};
use store::{Attributes, Pin, Scout as _, Store};
use wire::resp::{FastRequest, Version, parse_fast, reply};

use crate::{
    command_table::{DEL, GET, SET, UsVerb},
    connection::{Conn, Dialect},
    protocol::{
        memcached::{self, ParsedRequest, Pipeline, SingleKeyRequest},
        us::{self, FastPath, Operation},
    },
    reply::{Refusal, Reply},
    state::{DATABASE_PREFIX, Keyspace, ServerState},
    value::Value,
};

/// Number of commands that go from stage to stage together.
const GROUP: usize = 8;
/// Length of the ring: a power of two that holds the groups of all stages.
const RING: usize = 4 * GROUP;

/// A GET or SET under way, a DEL of the 0x1F text protocol, or a memcached client's request on one key.
#[derive(Clone, Copy)]
struct Pending<'i, H> {
    hash: u64,
    key: &'i [u8],
    hint: H,
    operation: Operation<&'i [u8]>,
    /// Position of its connection in the batch.
    conn: usize,
}

/// The window: its ring, and the keys and figures of the batch.
pub(crate) struct Window<'s, 'i, S: Store + 'static> {
    state: &'s ServerState<S>,
    keys: Keyspace<'s, S>,
    pin: Pin,
    now: Now,
    ring: [Pending<'i, S::Hint>; RING],
    /// Commands that have entered the ring so far.
    entered: usize,
    /// Commands whose buckets have been prefetched.
    buckets_prefetched: usize,
    /// Commands whose entries have been prefetched.
    entries_prefetched: usize,
    /// Commands that have been run.
    finished: usize,
    gets: u64,
    sets: u64,
    /// Numbers of commands of the 0x1F text protocol, by [`UsVerb`].
    us: [u64; 3],
    /// Requests of memcached clients; made for the first of them.
    memcached: Option<Box<Pipeline<'i>>>,
    /// True if CLIENT PAUSE makes commands wait, or changes of keys are published: then none takes the fast path.
    is_slow: bool,
    /// Length from which on values are encoded before they are stored.
    encode_min: usize,
}

impl<'s, 'i, S: Store + 'static> Window<'s, 'i, S> {
    pub(crate) fn new(state: &'s ServerState<S>, now: Now) -> Self {
        Self {
            state,
            keys: Keyspace::new(&state.space, now),
            pin: Pin::new(),
            now,
            ring: [Pending { hash: 0, key: b"", hint: S::Hint::default(), operation: Operation::Get, conn: 0 }; RING],
            entered: 0,
            buckets_prefetched: 0,
            entries_prefetched: 0,
            finished: 0,
            gets: 0,
            sets: 0,
            us: [0; 3],
            memcached: None,
            is_slow: state.clients.are_paused() || state.notifications.is_on(),
            encode_min: state.space.codec().threshold(),
        }
    }

    /// Answers one batch; see [`proto::Protocol::on_ready`].
    pub(crate) fn run_batch(mut self, batch: &mut [BatchEntry<'i, Conn<S>>]) {
        for at in 0..batch.len() {
            self.read_input(batch, at);
        }
        self.drain(batch);
        for entry in batch {
            entry.conn.count_buffers(entry.out);
        }
        self.count();
    }

    /// Takes in the requests of one connection.
    fn read_input(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>], at: usize) {
        let input = batch[at].input;
        let (mut step, mut last) = (Step::open(0), None);
        while step.flow == Flow::Open && step.consumed < input.len() && !batch[at].out.is_full() {
            let rest = &input[step.consumed..];
            let is_plain = batch[at].conn.is_plain && !self.is_slow;
            let can_begin = step.consumed > 0 || !batch[at].conn.is_mid_request();
            let fast = match is_plain {
                true if can_begin => self.fast_path(batch[at].conn, rest),
                false if can_begin => self.own_fast_path(batch[at].conn, rest),
                true | false => None,
            };
            if let Some(FastPath { key, operation, len }) = fast {
                last = Some(match operation {
                    Operation::Get => GET,
                    Operation::Set(_) => SET,
                    Operation::Del => DEL,
                });
                self.enter(batch, key, operation, at);
                step.consumed += len;
                continue;
            }
            last = None;
            let parsed = if is_plain { self.parse_memcached(batch[at].conn, rest) } else { None };
            if let Some(request) = parsed.and_then(|parsed| SingleKeyRequest::new(&self.state.space, &parsed)) {
                self.enter_memcached(batch, request, at);
                step.consumed += request.len;
                continue;
            }
            // Any other request runs after all that came before it.
            self.drain(batch);
            let BatchEntry { conn, out, .. } = &mut batch[at];
            let answered = match parsed {
                Some(parsed) => {
                    let answered = memcached::answer(self.state, &mut conn.client, parsed, &mut self.keys, out);
                    conn.refresh(self.state);
                    answered
                }
                None => conn.handle_request(self.state, rest, &mut self.keys, self.now, out),
            };
            step = Step { consumed: step.consumed + answered.consumed, ..answered };
            if answered.consumed == 0 {
                break;
            }
        }
        let entry = &mut batch[at];
        entry.conn.after_input(input, &mut step, entry.out, self.now);
        if let Some(number) = last {
            entry.conn.client.registration.set_last_command(number);
        }
        entry.step = step;
    }

    /// Parses the request of a memcached client that `input` begins with.
    #[inline]
    fn parse_memcached(&self, conn: &mut Conn<S>, input: &'i [u8]) -> Option<ParsedRequest<'i>> {
        let Dialect::Memcached(parser) = &mut conn.dialect else { return None };
        Some(memcached::parse_next(self.state, parser, conn.client.is_authenticated, input))
    }

    /// Parses the request that `input` begins with, if it needs nothing but the store.
    #[inline(always)]
    fn fast_path(&self, conn: &Conn<S>, input: &'i [u8]) -> Option<FastPath<'i>> {
        let request = match &conn.dialect {
            Dialect::Us(us) => us.fast_path(input, self.state.limits.bulk_bytes_max)?,
            Dialect::Resp(_) => match parse_fast(input)? {
                (FastRequest::Get { key }, len) => FastPath { key, operation: Operation::Get, len },
                (FastRequest::Set { key, value }, len) => FastPath { key, operation: Operation::Set(value), len },
            },
            Dialect::Undecided(_) | Dialect::Memcached(_) => return None,
        };
        let is_stored_raw = !matches!(request.operation, Operation::Set(value) if value.len() >= self.encode_min);
        (is_stored_raw && request.key.first() != Some(&DATABASE_PREFIX)).then_some(request)
    }

    /// Parses the request of a cluster's client that `input` begins with, if it needs nothing but a store that has the key.
    #[inline(never)]
    fn own_fast_path(&self, conn: &Conn<S>, input: &'i [u8]) -> Option<FastPath<'i>> {
        let map = self.state.info.slot_map.as_ref().filter(|_| conn.is_plain_if_own && !self.is_slow)?;
        self.fast_path(conn, input).filter(|request| map.has_key(request.key))
    }

    #[inline(always)]
    fn enter(
        &mut self,
        batch: &mut [BatchEntry<'i, Conn<S>>],
        key: &'i [u8],
        operation: Operation<&'i [u8]>,
        conn: usize,
    ) {
        let hash = self.state.space.hash(key);
        self.push(batch, Pending { hash, key, hint: S::Hint::default(), operation, conn });
    }

    #[inline]
    fn enter_memcached(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>], request: SingleKeyRequest<'i>, conn: usize) {
        self.memcached.get_or_insert_with(|| Box::new(Pipeline::with_capacity(RING))).push(request);
        // The operation is in the pipeline.
        let SingleKeyRequest { hash, .. } = request;
        self.push(batch, Pending { hash, key: b"", hint: S::Hint::default(), operation: Operation::Get, conn });
    }

    #[inline(always)]
    fn push(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>], pending: Pending<'i, S::Hint>) {
        self.ring[self.entered % RING] = pending;
        self.entered += 1;
        if self.entered - self.buckets_prefetched == GROUP {
            self.advance(batch);
        }
    }

    /// Moves all groups on, once the latest is complete: its buckets are prefetched, the entries of the group before it
    /// are, too, and the group before that is run.
    #[inline(always)]
    fn advance(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>]) {
        let run_end = self.entries_prefetched;
        let entries_end = self.buckets_prefetched;
        self.prefetch_buckets(self.entered);
        self.prefetch_entries(entries_end);
        while self.finished < run_end {
            self.run_oldest(batch);
        }
    }

    #[inline(always)]
    fn prefetch_buckets(&mut self, end: usize) {
        while self.buckets_prefetched < end {
            let hash = self.ring[self.buckets_prefetched % RING].hash;
            self.state.space.scout(hash).prefetch(hash, &self.pin);
            self.buckets_prefetched += 1;
        }
    }

    #[inline(always)]
    fn prefetch_entries(&mut self, end: usize) {
        while self.entries_prefetched < end {
            let Pending { hash, hint, .. } = &mut self.ring[self.entries_prefetched % RING];
            *hint = self.state.space.scout(*hash).prefetch_entry(*hash, &self.pin);
            self.entries_prefetched += 1;
        }
    }

    /// Runs the oldest command.
    #[inline(always)]
    fn run_oldest(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>]) {
        let Pending { hash, key, hint, operation, conn } = self.ring[self.finished % RING];
        self.finished += 1;
        let BatchEntry { conn, out, .. } = &mut batch[conn];
        match (&conn.dialect, operation) {
            (Dialect::Resp(_), Operation::Get) => self.get(hint, hash, key, conn.client.version, out),
            (Dialect::Resp(_), Operation::Set(value)) => self.set(hint, hash, key, value, out),
            (Dialect::Us(_), operation) => self.us(hash, key, operation, out),
            (Dialect::Memcached(_), _) => self.memcached(out),
            // RESP's DEL takes many keys, and has no fast path.
            (Dialect::Resp(_), Operation::Del) | (Dialect::Undecided(_), _) => {}
        }
    }

    /// Runs everything that is under way.
    fn drain(&mut self, batch: &mut [BatchEntry<'i, Conn<S>>]) {
        self.prefetch_buckets(self.entered);
        self.prefetch_entries(self.entered);
        while self.finished < self.entered {
            self.run_oldest(batch);
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
            None => match Value::from_hit(self.state.space.codec(), cache, place) {
                Ok(value) => Reply { out, version }.value(value),
                Err(error) => refuse(self.state, GET, error.into(), out),
            },
        }
    }

    #[inline(always)]
    fn set(&mut self, hint: S::Hint, hash: u64, key: &[u8], value: &[u8], out: &mut Outbox) {
        self.sets += 1;
        let now = self.keys.now;
        match self.keys.cache(hash).set_hinted(hint, hash, key, value, Attributes::default(), now) {
            Ok(()) => out.inline().extend_from_slice(b"+OK\r\n"),
            Err(error) => refuse(self.state, SET, error.into(), out),
        }
    }

    #[inline]
    fn us(&mut self, hash: u64, key: &'i [u8], operation: Operation<&'i [u8]>, out: &mut Outbox) {
        let verb = operation.verb();
        self.us[verb as usize] += 1;
        if !us::run(&mut self.keys.item_with_hash(hash, key), operation, out) {
            self.state.statistics.add_failure(verb.number());
        }
    }

    #[inline(never)]
    fn memcached(&mut self, out: &mut Outbox) {
        if let Some(pipeline) = &mut self.memcached {
            pipeline.run_oldest(self.state, &mut self.keys, out);
        }
    }

    /// Each command of the batch is given an equal part of its time.
    fn count(&self) {
        let memcached = || self.memcached.iter().flat_map(|pipeline| pipeline.counts());
        let us = || UsVerb::ALL.iter().zip(self.us);
        let others = us().map(|(_, count)| count).chain(memcached().map(|(_, count)| count));
        let commands = self.gets + self.sets + others.sum::<u64>();
        if commands > 0 {
            let each = self.now.instant.elapsed() / u32::try_from(commands).unwrap_or(u32::MAX);
            self.state.statistics.add_batch_size(commands);
            self.state.statistics.add_batch(GET, self.gets, each);
            self.state.statistics.add_batch(SET, self.sets, each);
            us().for_each(|(verb, count)| self.state.statistics.add_batch(verb.number(), count, each));
            memcached().for_each(|(verb, count)| self.state.statistics.add_batch(verb.number(), count, each));
        }
    }
}

/// Answers a command with an error, and counts that.
#[cold]
fn refuse<S: Store>(state: &ServerState<S>, number: usize, refusal: Refusal, out: &mut Outbox) {
    state.statistics.add_failure(number);
    state.statistics.add_error(&refusal.0);
    reply::error(out.inline(), refusal.0.as_bytes());
}
