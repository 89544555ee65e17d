//! memcached's text and meta protocols: from a request to its reply.
//!
//! Keys are those of database 0, shared with the other protocols. What RESP has no word for lives in the attributes of
//! an entry: see [`entry`].

mod counters;
mod entry;
mod meta;
mod numbers;
mod pipeline;
mod stats;
mod storage;
mod verbs;

use std::time::Instant;

use proto::{Flow, Now, Outbox, Step};
use store::Store;
use wire::memcached::{Expiry, FatalError, Keys, Limits, Parsed, Refusal, Request, RequestParser, StoreMode, reply};

use self::{
    counters::Counters,
    storage::{Offer, Verdict},
};
pub(crate) use self::{
    entry::{NUMBER, Numbers},
    pipeline::{Pipeline, Single},
    verbs::Verb,
};
use crate::{
    connection::{Conn, Dialect},
    server::KvServer,
    space::{Item, Keyspace, Value},
};

/// The version of memcached whose replies these are.
const VERSION: &str = "1.6.18";
/// Of a request, beside its value: the line, and the end of the value.
const LINE_BYTES_MAX: usize = 2048;
/// The longest `user password` with which a connection may begin.
const CREDENTIALS_BYTES_MAX: usize = 1024;

/// What the server remembers for all memcached clients.
#[derive(Debug)]
pub(crate) struct Memcached {
    limits: Limits,
    counters: Counters,
    pub(crate) numbers: Numbers,
    flush: storage::Flush,
    began: Instant,
}

impl Memcached {
    pub(crate) fn new(request_bytes_max: usize) -> Self {
        let keys_line_bytes_max = Limits::default().keys_line_bytes_max.min(request_bytes_max);
        let value_bytes_max = request_bytes_max.saturating_sub(LINE_BYTES_MAX + 2);
        Self {
            limits: Limits { value_bytes_max, line_bytes_max: LINE_BYTES_MAX, keys_line_bytes_max },
            counters: Counters::default(),
            numbers: Numbers::default(),
            flush: storage::Flush::default(),
            began: Instant::now(),
        }
    }

    /// Begins what `stats` tells of commands anew.
    pub(crate) fn reset(&self) {
        self.counters.reset();
    }

    /// Owed before each batch: `flush_all` may have been asked for this moment.
    #[inline]
    pub(crate) fn flush_if_due<S: Store>(&self, server: &KvServer<S>, now: Now) {
        if self.flush.is_due(now) {
            self.flush.run(&server.space);
        }
    }
}

/// One request being answered.
struct Call<'c, 's, S: Store> {
    server: &'c KvServer<S>,
    memcached: &'c Memcached,
    keys: &'c mut Keyspace<'s, S>,
    out: &'c mut Outbox,
    /// It is answered with an error, or would be if it wanted an answer.
    failed: bool,
}

/// What a connection's input begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard<'i> {
    /// The command, whether or not it is well formed.
    verb: Option<Verb>,
    parsed: Result<Parsed<'i>, FatalError>,
}

/// Reads the request that `input` begins with; it is owed an [`answer`], or to be run as a [`Single`].
pub(crate) fn hear<'i, S: Store>(
    server: &KvServer<S>,
    parser: &mut RequestParser,
    authenticated: bool,
    input: &'i [u8],
) -> Heard<'i> {
    let verb = if parser.is_skipping() { None } else { Verb::of(input) };
    Heard { verb, parsed: parse(server, authenticated, parser, input) }
}

/// Answers the request that `input` begins with.
pub(crate) fn one<S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    input: &[u8],
    keys: &mut Keyspace<'_, S>,
    out: &mut Outbox,
) -> Step {
    let Dialect::Memcached(parser) = &mut conn.dialect else { return Step::open(0) };
    let heard = hear(server, parser, conn.authenticated, input);
    answer(server, conn, heard, keys, out)
}

/// Answers what has been heard of a connection.
pub(crate) fn answer<S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    Heard { verb, parsed }: Heard<'_>,
    keys: &mut Keyspace<'_, S>,
    out: &mut Outbox,
) -> Step {
    keys.database = 0;
    let reject = || verb.into_iter().for_each(|verb| server.statistics.rejected(verb.number()));
    let step = match parsed {
        Ok(Parsed::Complete { request, consumed }) if conn.authenticated => {
            let mut call = Call::new(server, keys, out);
            let (began, flow) = (Instant::now(), call.answer(request));
            if let Some(verb) = verb {
                server.statistics.command(verb.number(), began.elapsed(), !call.failed);
            }
            Step { flow, ..Step::open(consumed) }
        }
        Ok(Parsed::Complete { request, consumed }) => {
            let right = authenticate(server, &request);
            if right.is_err() {
                reject();
            }
            reply::line(out.inline(), right.err().unwrap_or("STORED"));
            conn.authenticated = right.is_ok();
            Step::open(consumed)
        }
        Ok(Parsed::Refused { refusal, consumed }) => {
            reject();
            reply::refusal(out.inline(), refusal);
            Step::open(consumed)
        }
        Ok(Parsed::Skipped { consumed }) => {
            reject();
            Step::open(consumed)
        }
        Ok(Parsed::Incomplete { need }) => Step { need, ..Step::open(0) },
        Err(_) => Step { flow: Flow::Linger, ..Step::open(0) },
    };
    conn.refresh(server);
    step
}

fn parse<'i, S: Store>(
    server: &KvServer<S>,
    authenticated: bool,
    parser: &mut RequestParser,
    input: &'i [u8],
) -> Result<Parsed<'i>, FatalError> {
    let limits = server.memcached.limits;
    match authenticated {
        true => parser.parse(input, &limits),
        false => parser.parse(
            input,
            &Limits { value_bytes_max: CREDENTIALS_BYTES_MAX, keys_line_bytes_max: LINE_BYTES_MAX, ..limits },
        ),
    }
}

/// memcached's ASCII authentication: the first request is a `set`, of any key, whose value is `user password`.
fn authenticate<S: Store>(server: &KvServer<S>, request: &Request<'_>) -> Result<(), &'static str> {
    let Request::Store { mode: StoreMode::Set, value, .. } = request else {
        return Err("CLIENT_ERROR unauthenticated");
    };
    let Some(password) = server.settings.password() else { return Ok(()) };
    match value.strip_prefix(b"default ") {
        Some(given) if given == password.as_bytes() => Ok(()),
        _ => Err("CLIENT_ERROR authentication failure"),
    }
}

impl<'c, 's, S: Store + 'static> Call<'c, 's, S> {
    fn new(server: &'c KvServer<S>, keys: &'c mut Keyspace<'s, S>, out: &'c mut Outbox) -> Self {
        Self { server, memcached: &server.memcached, keys, out, failed: false }
    }

    fn answer(&mut self, request: Request<'_>) -> Flow {
        match request {
            Request::Get { keys, with_cas } => self.get(keys, with_cas, None),
            Request::GetAndTouch { expiry, keys, with_cas } => self.get(keys, with_cas, Some(expiry)),
            Request::Store { mode, key, flags, expiry, value, noreply } => {
                let offer = Offer { mode, flags, expiry, ..Offer::of(value) };
                let verdict = self.keep(key, &offer).0;
                self.say(noreply, verdict.word());
            }
            Request::TooLarge { outdated, noreply } => self.too_large(outdated, noreply),
            Request::Touch { key, expiry, noreply } => self.touch(key, expiry, noreply),
            Request::Delete { key, noreply } => self.delete(key, noreply),
            Request::Arithmetic { direction, key, delta, noreply } => self.arithmetic(key, direction, delta, noreply),
            Request::FlushAll { delay, noreply } => self.flush_all(delay, noreply),
            Request::Version => reply::line(self.out.inline(), ["VERSION ", VERSION].concat()),
            // What is logged is for the operator to say, not for a client.
            Request::Verbosity { level: _, noreply } => self.say(noreply, "OK"),
            Request::Stats { args } => self.stats(args),
            Request::Quit => return Flow::Close,
            Request::Shutdown(_) => self.say(false, Refusal::NoShutdown.text()),
            Request::MetaGet { key, flags } => self.meta_get(&key, &flags),
            Request::MetaSet { key, mode, flags, value } => self.meta_set(&key, mode, &flags, value),
            Request::MetaDelete { key, flags } => self.meta_delete(&key, &flags),
            Request::MetaArithmetic { key, direction, flags } => self.meta_arithmetic(&key, direction, &flags),
            Request::MetaDebug { key } => self.meta_debug(&key),
            Request::MetaNoop => self.say(false, "MN"),
        }
        Flow::Open
    }

    fn say(&mut self, noreply: bool, line: &str) {
        self.failed |= is_error(line);
        if !noreply {
            reply::line(self.out.inline(), line);
        }
    }

    fn item<'k>(&mut self, key: &'k [u8]) -> Item<'_, 'k, S> {
        self.keys.item(key)
    }

    fn now_ms(&self) -> u64 {
        self.keys.now.unix_ms
    }

    // --- reading --------------------------------------------------------------------------

    fn get(&mut self, keys: Keys<'_>, with_cas: bool, touch: Option<Expiry>) {
        for key in keys {
            if let Err(refusal) = self.value(key, with_cas, touch) {
                // The hits before it have been written: a client takes this line for the end of them.
                return self.say(false, refusal);
            }
        }
        reply::end(self.out.inline());
    }

    fn value(&mut self, key: &[u8], with_cas: bool, touch: Option<Expiry>) -> Result<(), &'static str> {
        let counters = &self.memcached.counters;
        counters.cmd_get.add();
        let cas = match with_cas {
            true => self.number_of(key).map_err(|_| "SERVER_ERROR out of memory writing get response")?,
            false => None,
        };
        let (now, out) = (self.keys.now.unix_ms, &mut *self.out);
        let mut item = self.keys.item(key);
        let Some(value) = item.get() else {
            counters.get_misses.add();
            if touch.is_some() {
                counters.touched(false);
            }
            return Ok(());
        };
        counters.get_hits.add();
        let attributes = value.attributes;
        reply::value_header(out.inline(), key, attributes.flags, value.bytes.len(), cas);
        write_value(out, value);
        entry::fetched(&mut item, attributes);
        if let Some(expiry) = touch {
            counters.touched(true);
            entry::expire(&mut item, expiry, now).map_err(|_| Verdict::NoMemory.word())?;
        }
        Ok(())
    }

    fn touch(&mut self, key: &[u8], expiry: Expiry, noreply: bool) {
        let now = self.now_ms();
        let mut item = self.item(key);
        let found = item.attributes().map(|attributes| {
            item.touch();
            entry::fetched(&mut item, attributes);
            entry::expire(&mut item, expiry, now)
        });
        self.memcached.counters.touched(found.is_some());
        let word = match found {
            None => Verdict::NotFound.word(),
            Some(Ok(())) => "TOUCHED",
            Some(Err(_)) => Verdict::NoMemory.word(),
        };
        self.say(noreply, word);
    }

    fn delete(&mut self, key: &[u8], noreply: bool) {
        let found = self.item(key).remove();
        self.memcached.counters.deleted(found);
        self.say(noreply, if found { "DELETED" } else { Verdict::NotFound.word() });
    }
}

/// By what it begins with a client knows.
#[inline]
fn is_error(line: &str) -> bool {
    ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].iter().any(|class| line.starts_with(class))
}

/// The bytes of a value and the end of their line; large ones are shared with the store.
fn write_value(out: &mut Outbox, value: Value<'_>) {
    match value.shared {
        Some(shared) => {
            out.push_shared(shared);
            out.inline().extend_from_slice(b"\r\n");
        }
        None => reply::line(out.inline(), value.bytes),
    }
}

#[cfg(test)]
mod tests;
