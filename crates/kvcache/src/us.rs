//! The 0x1F text protocol: from a request to its answer.
//!
//! It has no word for a password, so a server that asks for one does not answer it.

use std::time::Instant;

use proto::{Flow, Outbox, Step};
use store::{Attributes, Store};
use wire::us::{Parsed, Request, RequestLimits, RequestParser, reply};

use crate::{
    connection::{Conn, Dialect},
    server::KvServer,
    space::{Item, Keyspace, Value},
    statistics::{US_FIRST, verbs},
};

verbs! {
    /// The commands, as they are counted.
    first = US_FIRST;
    Get = "get" Set = "set" Del = "del" Multi = "multi" Exec = "exec" Discard = "discard"
}

/// What is remembered of a connection.
#[derive(Debug, Default)]
pub(crate) struct Us {
    parser: RequestParser,
    transaction: Option<Transaction>,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
struct Transaction {
    queue: Vec<Queued>,
    queued_bytes: usize,
    /// Something could not be queued: EXEC will refuse.
    spoiled: bool,
}

#[derive(Debug)]
struct Queued {
    key: Box<[u8]>,
    deed: Deed<Box<[u8]>>,
}

/// What is to be done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed<V> {
    Get,
    Set(V),
    Del,
}

impl<V> Deed<V> {
    #[inline]
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Get => Verb::Get,
            Self::Set(_) => Verb::Set,
            Self::Del => Verb::Del,
        }
    }
}

/// A request that needs nothing but the store, in whatever protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual<'i> {
    pub(crate) key: &'i [u8],
    pub(crate) deed: Deed<&'i [u8]>,
    /// Bytes of the request.
    pub(crate) len: usize,
}

impl Us {
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Recognises a whole request on one key at the start of `input`. `None` means that [`one`] has to look.
    #[inline]
    pub(crate) fn usual<'i>(&self, input: &'i [u8], bytes_max: usize) -> Option<Usual<'i>> {
        if self.parser.is_mid_request() {
            return None; // It knows how far the request has been searched.
        }
        let parsed = RequestParser::default().parse(input, &RequestLimits { request_bytes_max: bytes_max });
        let Ok(Parsed::Complete { request, consumed }) = parsed else { return None };
        let (key, deed) = deed(request)?;
        Some(Usual { key, deed, len: consumed })
    }
}

/// Key and deed of a request that has them.
#[inline]
fn deed(request: Request<'_>) -> Option<(&[u8], Deed<&[u8]>)> {
    match request {
        Request::Get { key } => Some((key, Deed::Get)),
        Request::Set { key, value } => Some((key, Deed::Set(value))),
        Request::Del { key } => Some((key, Deed::Del)),
        Request::Multi | Request::Exec | Request::Discard | Request::Refused(_) => None,
    }
}

/// Answers the request that `input` begins with.
pub(crate) fn one<S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    input: &[u8],
    keys: &mut Keyspace<'_, S>,
    out: &mut Outbox,
) -> Step {
    let request_bytes_max = conn.limits(server).bulk_bytes_max;
    let authenticated = conn.authenticated;
    let Dialect::Us(us) = &mut conn.dialect else { return Step::open(0) };
    if !authenticated {
        reply::error(out.inline(), "Authentication required");
        return Step { flow: Flow::Linger, ..Step::open(0) };
    }
    keys.database = 0;
    match us.parser.parse(input, &RequestLimits { request_bytes_max }) {
        Ok(Parsed::Complete { request, consumed }) => {
            let began = Instant::now();
            let succeeded = us.answer(request, request_bytes_max, keys, out);
            if let Some(verb) = verb(request) {
                server.statistics.command(verb.number(), began.elapsed(), succeeded);
            }
            conn.refresh(server);
            Step::open(consumed)
        }
        Ok(Parsed::Incomplete { need }) => Step { need, ..Step::open(0) },
        Err(error) => {
            reply::error(out.inline(), error);
            Step { flow: Flow::Linger, ..Step::open(0) }
        }
    }
}

/// `None`: it is no command.
fn verb(request: Request<'_>) -> Option<Verb> {
    match request {
        Request::Get { .. } => Some(Verb::Get),
        Request::Set { .. } => Some(Verb::Set),
        Request::Del { .. } => Some(Verb::Del),
        Request::Multi => Some(Verb::Multi),
        Request::Exec => Some(Verb::Exec),
        Request::Discard => Some(Verb::Discard),
        Request::Refused(_) => None,
    }
}

impl Us {
    /// False: with an error.
    fn answer<S: Store>(
        &mut self,
        request: Request<'_>,
        bytes_max: usize,
        keys: &mut Keyspace<'_, S>,
        out: &mut Outbox,
    ) -> bool {
        if let Some((key, deed)) = deed(request) {
            return match &mut self.transaction {
                Some(transaction) => transaction.queue(key, deed, bytes_max, out),
                None => run(&mut keys.item(key), deed, out),
            };
        }
        match (request, self.transaction.take()) {
            (Request::Multi, None) => {
                self.transaction = Some(Transaction::default());
                ok(out)
            }
            (Request::Multi, open) => {
                self.transaction = open;
                error(out, "MULTI calls can not be nested")
            }
            (Request::Exec, Some(transaction)) => transaction.execute(keys, out),
            (Request::Exec, None) => error(out, "EXEC without MULTI"),
            (Request::Discard, Some(_)) => ok(out),
            (Request::Discard, None) => error(out, "DISCARD without MULTI"),
            (Request::Refused(refusal), mut open) => {
                if let Some(transaction) = &mut open {
                    transaction.spoiled = true;
                }
                self.transaction = open;
                error(out, refusal)
            }
            // These have a key, and have been answered above.
            (Request::Get { .. } | Request::Set { .. } | Request::Del { .. }, open) => {
                self.transaction = open;
                true
            }
        }
    }
}

#[inline]
fn ok(out: &mut Outbox) -> bool {
    reply::ok(out.inline());
    true
}

#[cold]
fn error(out: &mut Outbox, text: impl std::fmt::Display) -> bool {
    reply::error(out.inline(), text);
    false
}

impl Transaction {
    fn queue(&mut self, key: &[u8], deed: Deed<&[u8]>, bytes_max: usize, out: &mut Outbox) -> bool {
        let deed = match deed {
            Deed::Get => Deed::Get,
            Deed::Del => Deed::Del,
            Deed::Set(value) => Deed::Set(value.into()),
        };
        let queued = Queued { key: key.into(), deed };
        self.queued_bytes += queued.bytes();
        if self.queued_bytes > bytes_max {
            self.spoiled = true;
            return error(out, "The transaction is larger than the longest request");
        }
        self.queue.push(queued);
        reply::queued(out.inline());
        true
    }

    /// One answer for each command, in order, and nobody sees the keys in between.
    fn execute<S: Store>(self, keys: &mut Keyspace<'_, S>, out: &mut Outbox) -> bool {
        if self.spoiled {
            return error(out, "Transaction discarded because of previous errors");
        }
        keys.hold_all();
        for Queued { key, deed } in &self.queue {
            let deed = match deed {
                Deed::Get => Deed::Get,
                Deed::Del => Deed::Del,
                Deed::Set(value) => Deed::Set(&**value),
            };
            run(&mut keys.item(key), deed, out);
        }
        keys.release();
        true
    }
}

impl Queued {
    /// With what it costs beside its bytes.
    fn bytes(&self) -> usize {
        let value = match &self.deed {
            Deed::Set(value) => value.len(),
            Deed::Get | Deed::Del => 0,
        };
        size_of::<Self>() + self.key.len() + value
    }
}

/// Does it, and answers; false: with an error, which is not what a DEL of a key that is not there has made.
pub(crate) fn run<S: Store>(item: &mut Item<'_, '_, S>, deed: Deed<&[u8]>, out: &mut Outbox) -> bool {
    match deed {
        Deed::Get => value(item.get(), out),
        Deed::Set(value) => match item.set(value, Attributes::default()) {
            Ok(()) => return ok(out),
            Err(store::OutOfMemory) => return error(out, "Out of memory"),
        },
        Deed::Del if item.remove() => return ok(out),
        Deed::Del => reply::key_missing(out.inline()),
    }
    true
}

fn value(value: Option<Value<'_>>, out: &mut Outbox) {
    match value {
        None => reply::nil(out.inline()),
        Some(Value { bytes, shared: None, .. }) => reply::value(out.inline(), &bytes),
        Some(Value { shared: Some(shared), .. }) => {
            out.push_shared(shared);
            out.inline().push(wire::us::SEPARATOR);
        }
    }
}
