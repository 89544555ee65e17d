//! memcached's text, meta and binary protocols: from a request to its reply.
//!
//! Keys are those of database 0, shared with the other protocols. Data that RESP does not have lives in the attributes of
//! an entry: see [`entry`].

mod administration;
mod arithmetic;
mod binary;
mod entry;
mod meta;
mod pipeline;
mod stats;
mod storage;

use std::time::Instant;

use proto::{Flow, Outbox, Step};
use store::Store;
use wire::memcached::{
    Expiry, FatalError, Keys, Parsed, Refusal, Request, RequestParser, StoreMode, binary::Head, reply,
};

pub(crate) use self::pipeline::{Pipeline, SingleKeyRequest};
use self::storage::{StoreOutcome, StoreRequest};
use crate::{
    command_table::MemcachedVerb,
    commands::connection::is_same,
    state::{Client, ForwardedDialect, Item, Keyspace, MemcachedState, ServerState},
    value::Value,
};

/// Version of memcached whose replies these are.
const VERSION: &str = "1.6.18";

/// One request being answered.
struct Call<'c, 's, S: Store> {
    state: &'c ServerState<S>,
    memcached: &'c MemcachedState,
    keys: &'c mut Keyspace<'s, S>,
    out: &'c mut Outbox,
    /// True if the reply is an error, or would be if one were wanted.
    is_failed: bool,
    stat_format: StatFormat,
}

/// Form of the lines of `stats`.
#[derive(Clone, Copy, Debug)]
enum StatFormat {
    Text,
    /// Replies to the request with this head.
    Binary(Head),
}

/// Result of parsing the start of a connection's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParsedRequest<'i> {
    /// Command of the request, well formed or not.
    verb: Option<MemcachedVerb>,
    parsed: Result<Parsed<'i>, FatalError>,
}

/// Parses the request that `input` begins with. It must then be passed to [`answer`], or run as a [`SingleKeyRequest`].
pub(crate) fn parse_next<'i, S: Store>(
    state: &ServerState<S>,
    parser: &mut RequestParser,
    is_authenticated: bool,
    input: &'i [u8],
) -> ParsedRequest<'i> {
    let is_skipping = parser.is_skipping();
    let MemcachedState { limits, limits_before_auth, .. } = &state.memcached;
    let limits = if is_authenticated { limits } else { limits_before_auth };
    let parsed = parser.parse(input, limits);
    let verb = match &parsed {
        Ok(Parsed::Complete { request: Request::Binary(request), .. }) => MemcachedVerb::of_binary(request.head.opcode),
        _ if is_skipping || parser.is_binary() => None,
        _ => MemcachedVerb::of(input),
    };
    ParsedRequest { verb, parsed }
}

/// Answers the request that `input` begins with.
pub(crate) fn handle_request<S: Store + 'static>(
    state: &ServerState<S>,
    parser: &mut RequestParser,
    client: &mut Client<S>,
    input: &[u8],
    keys: &mut Keyspace<'_, S>,
    out: &mut Outbox,
) -> Step {
    let request = parse_next(state, parser, client.is_authenticated, input);
    if state.clients.pause.is_handed_over()
        && client.is_authenticated
        && let Ok(Parsed::Complete { consumed, .. }) = request.parsed
    {
        state.forward(ForwardedDialect::Memcached, &input[..consumed], out);
        return Step::open(consumed);
    }
    answer(state, client, request, keys, out)
}

/// Answers a request.
pub(crate) fn answer<S: Store + 'static>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    ParsedRequest { verb, parsed }: ParsedRequest<'_>,
    keys: &mut Keyspace<'_, S>,
    out: &mut Outbox,
) -> Step {
    keys.database = 0;
    let reject = || verb.into_iter().for_each(|verb| state.statistics.add_rejection(verb.number()));
    if let Ok(Parsed::Complete { request: Request::Binary(request), consumed }) = &parsed
        && let Some(flow) = binary::authenticate(state, client, request, out)
    {
        if flow != Flow::Open {
            reject();
        }
        return Step { flow, ..Step::open(*consumed) };
    }
    match parsed {
        Ok(Parsed::Complete { request, consumed }) if client.is_authenticated => {
            let mut call = Call::new(state, keys, out);
            let (began, flow) = (Instant::now(), call.answer(request));
            if let Some(verb) = verb {
                state.statistics.add_call(verb.number(), began.elapsed(), !call.is_failed);
            }
            Step { flow, ..Step::open(consumed) }
        }
        Ok(Parsed::Complete { request, consumed }) => {
            let outcome = authenticate(state, &request);
            if outcome.is_err() {
                reject();
            }
            reply::line(out.inline(), outcome.err().unwrap_or("STORED"));
            client.is_authenticated = outcome.is_ok();
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
        Err(FatalError::Http) => {
            state.warn_of_http(client.registration.profile());
            Step { flow: Flow::Linger, ..Step::open(0) }
        }
        Err(_) => Step { flow: Flow::Linger, ..Step::open(0) },
    }
}

/// memcached's ASCII authentication: the first request is a `set`, of any key, whose value is `user password`.
fn authenticate<S: Store>(state: &ServerState<S>, request: &Request<'_>) -> Result<(), &'static str> {
    let Request::Store { mode: StoreMode::Set, value, .. } = request else {
        return Err("CLIENT_ERROR unauthenticated");
    };
    let Some(password) = state.settings.password() else { return Ok(()) };
    match value.strip_prefix(b"default ") {
        Some(given) if is_same(password.as_bytes(), given) => Ok(()),
        _ => Err("CLIENT_ERROR authentication failure"),
    }
}

impl<'c, 's, S: Store + 'static> Call<'c, 's, S> {
    fn new(state: &'c ServerState<S>, keys: &'c mut Keyspace<'s, S>, out: &'c mut Outbox) -> Self {
        Self { state, memcached: &state.memcached, keys, out, is_failed: false, stat_format: StatFormat::Text }
    }

    fn answer(&mut self, request: Request<'_>) -> Flow {
        match request {
            Request::Get { keys, with_cas } => self.get(keys, with_cas, None),
            Request::GetAndTouch { expiry, keys, with_cas } => self.get(keys, with_cas, Some(expiry)),
            Request::Store { mode, key, flags, expiry, value, noreply } => {
                let request = StoreRequest { mode, flags, expiry, ..StoreRequest::new(value) };
                let outcome = self.store(key, &request).0;
                self.write_line(noreply, outcome.word());
            }
            Request::TooLarge { outdated, noreply } => self.too_large(outdated, noreply),
            Request::Touch { key, expiry, noreply } => self.touch(key, expiry, noreply),
            Request::Delete { key, noreply } => self.delete(key, noreply),
            Request::Arithmetic { direction, key, delta, noreply } => self.arithmetic(key, direction, delta, noreply),
            Request::FlushAll { delay, noreply } => {
                self.flush(delay);
                self.write_line(noreply, "OK");
            }
            Request::Version => reply::line(self.out.inline(), ["VERSION ", VERSION].concat()),
            // The operator chooses what is logged, not a client.
            Request::Verbosity { level: _, noreply } => self.write_line(noreply, "OK"),
            Request::Stats { args } => self.stats(args),
            Request::Quit => return Flow::Close,
            Request::Shutdown(_) => self.write_line(false, Refusal::NoShutdown.text()),
            Request::MetaGet { key, flags } => self.meta_get(&key, &flags),
            Request::MetaSet { key, mode, flags, value } => self.meta_set(&key, mode, &flags, value),
            Request::MetaDelete { key, flags } => self.meta_delete(&key, &flags),
            Request::MetaArithmetic { key, direction, flags } => self.meta_arithmetic(&key, direction, &flags),
            Request::MetaDebug { key } => self.meta_debug(&key),
            Request::MetaNoop => self.write_line(false, "MN"),
            Request::Slabs { command, noreply } => {
                self.write_line(noreply, command.map_or_else(Refusal::text, |()| "OK"))
            }
            Request::CacheMemoryLimit { mebibytes, noreply } => self.set_memory_limit(mebibytes, noreply),
            Request::Binary(request) => return self.binary(&request),
        }
        Flow::Open
    }

    fn write_line(&mut self, noreply: bool, line: &str) {
        self.is_failed |= is_error(line);
        if !noreply {
            reply::line(self.out.inline(), line);
        }
    }

    fn item<'k>(&mut self, key: &'k [u8]) -> Item<'_, 'k, S> {
        self.keys.item(key)
    }

    /// Returns the time that expiries are counted from: rounded up, so that nothing expires early.
    fn now_ms(&self) -> u64 {
        self.keys.now_rounded_up_ms
    }

    // --- reading --------------------------------------------------------------------------

    fn get(&mut self, keys: Keys<'_>, with_cas: bool, touch: Option<Expiry>) {
        for key in keys {
            if let Err(refusal) = self.value(key, with_cas, touch) {
                // The hits before it have been written: for a client this line is their end.
                return self.write_line(false, refusal);
            }
        }
        reply::end(self.out.inline());
    }

    fn value(&mut self, key: &[u8], with_cas: bool, touch: Option<Expiry>) -> Result<(), &'static str> {
        let counters = &self.memcached.counters;
        counters.cmd_get.add();
        let cas = match with_cas {
            true => self.assign_number(key).map_err(|_| "SERVER_ERROR out of memory writing get response")?,
            false => None,
        };
        let (now, out) = (self.now_ms(), &mut *self.out);
        let mut item = self.keys.item(key);
        let Ok(Some(value)) = item.get() else {
            counters.get_misses.add();
            if touch.is_some() {
                counters.add_touch(false);
            }
            return Ok(());
        };
        counters.get_hits.add();
        let attributes = value.attributes;
        reply::value_header(out.inline(), key, attributes.flags, value.bytes.len(), cas);
        write_value(out, value);
        entry::mark_fetched(&mut item, attributes);
        if let Some(expiry) = touch {
            counters.add_touch(true);
            entry::set_expiry(&mut item, expiry, now).map_err(|_| StoreOutcome::NoMemory.word())?;
        }
        Ok(())
    }

    fn touch(&mut self, key: &[u8], expiry: Expiry, noreply: bool) {
        let now = self.now_ms();
        let mut item = self.item(key);
        let found = item.attributes().map(|attributes| {
            item.touch();
            entry::mark_fetched(&mut item, attributes);
            entry::set_expiry(&mut item, expiry, now)
        });
        self.memcached.counters.add_touch(found.is_some());
        let word = match found {
            None => StoreOutcome::NotFound.word(),
            Some(Ok(())) => "TOUCHED",
            Some(Err(_)) => StoreOutcome::NoMemory.word(),
        };
        self.write_line(noreply, word);
    }

    fn delete(&mut self, key: &[u8], noreply: bool) {
        let found = self.item(key).remove();
        self.memcached.counters.add_delete(found);
        self.write_line(noreply, if found { "DELETED" } else { StoreOutcome::NotFound.word() });
    }
}

/// True if clients take the line for an error.
#[inline]
fn is_error(line: &str) -> bool {
    ["ERROR", "CLIENT_ERROR", "SERVER_ERROR"].iter().any(|class| line.starts_with(class))
}

/// Writes the bytes of a value and the end of their line; large ones are shared with the store.
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
