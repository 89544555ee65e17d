//! The 0x1F text protocol: from a request to its reply.
//!
//! It has no word for a password, so a server that requires one refuses its clients.

use std::time::Instant;

use proto::{Flow, Outbox, Step};
use store::{Attributes, Store};
use wire::us::{Parsed, Request, RequestLimits, RequestParser, reply};

use crate::{
    command_table::UsVerb,
    state::{Client, ForwardedDialect, Item, Keyspace, ServerState},
    value::Value,
};

/// State of one connection.
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
    /// A command could not be queued: EXEC will refuse.
    is_aborted: bool,
}

#[derive(Debug)]
struct Queued {
    key: Box<[u8]>,
    operation: Operation<Box<[u8]>>,
}

/// Operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation<V> {
    Get,
    Set(V),
    Del,
}

impl<V> Operation<V> {
    #[inline]
    pub(crate) fn verb(&self) -> UsVerb {
        match self {
            Self::Get => UsVerb::Get,
            Self::Set(_) => UsVerb::Set,
            Self::Del => UsVerb::Del,
        }
    }
}

/// A request that needs nothing but the store, in whatever protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath<'i> {
    pub(crate) key: &'i [u8],
    pub(crate) operation: Operation<&'i [u8]>,
    /// Length of the request, in bytes.
    pub(crate) len: usize,
}

impl Us {
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Recognises a whole request on one key at the start of `input`. `None` means that it is none, or that
    /// [`Us::handle_request`] must parse it.
    #[inline]
    pub(crate) fn fast_path<'i>(&self, input: &'i [u8], bytes_max: usize) -> Option<FastPath<'i>> {
        if self.parser.is_mid_request() {
            return None; // The parser knows how far the request has been searched.
        }
        let parsed = RequestParser::default().parse(input, &RequestLimits { request_bytes_max: bytes_max });
        let Ok(Parsed::Complete { request, consumed }) = parsed else { return None };
        let (key, operation) = operation(request)?;
        Some(FastPath { key, operation, len: consumed })
    }
}

/// Returns the key and the operation of a request that has them.
#[inline]
fn operation(request: Request<'_>) -> Option<(&[u8], Operation<&[u8]>)> {
    match request {
        Request::Get { key } => Some((key, Operation::Get)),
        Request::Set { key, value } => Some((key, Operation::Set(value))),
        Request::Del { key } => Some((key, Operation::Del)),
        Request::Multi | Request::Exec | Request::Discard | Request::Refused(_) => None,
    }
}

/// Returns the command under which a request is counted.
fn verb(request: Request<'_>) -> Option<UsVerb> {
    match request {
        Request::Get { .. } => Some(UsVerb::Get),
        Request::Set { .. } => Some(UsVerb::Set),
        Request::Del { .. } => Some(UsVerb::Del),
        Request::Multi => Some(UsVerb::Multi),
        Request::Exec => Some(UsVerb::Exec),
        Request::Discard => Some(UsVerb::Discard),
        Request::Refused(_) => None,
    }
}

impl Us {
    /// Answers the request that `input` begins with.
    pub(crate) fn handle_request<S: Store + 'static>(
        &mut self,
        state: &ServerState<S>,
        client: &Client<S>,
        input: &[u8],
        keys: &mut Keyspace<'_, S>,
        out: &mut Outbox,
    ) -> Step {
        if !client.is_authenticated {
            reply::error(out.inline(), "Authentication required");
            return Step { flow: Flow::Linger, ..Step::open(0) };
        }
        let request_bytes_max = state.limits.bulk_bytes_max;
        keys.database = 0;
        match self.parser.parse(input, &RequestLimits { request_bytes_max }) {
            Ok(Parsed::Complete { request: Request::Refused(_), consumed }) if is_http(&input[..consumed]) => {
                state.warn_of_http(client.registration.profile());
                Step { flow: Flow::Close, ..Step::open(consumed) }
            }
            // What is queued here is not there: the client has to begin anew.
            Ok(Parsed::Complete { request: Request::Exec, consumed })
                if state.clients.pause.is_handed_over() && self.is_in_transaction() =>
            {
                Step { flow: Flow::Close, ..Step::open(consumed) }
            }
            Ok(Parsed::Complete { request, consumed })
                if state.clients.pause.is_handed_over()
                    && !self.is_in_transaction()
                    && operation(request).is_some() =>
            {
                state.forward(ForwardedDialect::Us, &input[..consumed], out);
                Step::open(consumed)
            }
            Ok(Parsed::Complete { request, consumed }) => {
                let began = Instant::now();
                let succeeded = self.answer(request, request_bytes_max, keys, out);
                if let Some(verb) = verb(request) {
                    state.statistics.add_call(verb.number(), began.elapsed(), succeeded);
                }
                Step::open(consumed)
            }
            Ok(Parsed::Incomplete { need }) => Step { need, ..Step::open(0) },
            Err(error) => {
                reply::error(out.inline(), error);
                Step { flow: Flow::Linger, ..Step::open(0) }
            }
        }
    }

    /// Answers a request. False if the reply is an error.
    fn answer<S: Store>(
        &mut self,
        request: Request<'_>,
        bytes_max: usize,
        keys: &mut Keyspace<'_, S>,
        out: &mut Outbox,
    ) -> bool {
        if let Some((key, operation)) = operation(request) {
            return match &mut self.transaction {
                Some(transaction) => transaction.queue(key, operation, bytes_max, out),
                None => run(&mut keys.item(key), operation, out),
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
                    transaction.is_aborted = true;
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

/// True if the request begins with a request line of HTTP. A header never has the separator in it, a body may.
#[cold]
fn is_http(request: &[u8]) -> bool {
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"POST ") || line.windows(8).any(|word| word == b" HTTP/1.")
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
    fn queue(&mut self, key: &[u8], operation: Operation<&[u8]>, bytes_max: usize, out: &mut Outbox) -> bool {
        let operation = match operation {
            Operation::Get => Operation::Get,
            Operation::Del => Operation::Del,
            Operation::Set(value) => Operation::Set(value.into()),
        };
        let queued = Queued { key: key.into(), operation };
        self.queued_bytes += queued.bytes();
        if self.queued_bytes > bytes_max {
            self.is_aborted = true;
            return error(out, "The transaction is larger than the longest request");
        }
        self.queue.push(queued);
        reply::queued(out.inline());
        true
    }

    /// Runs all commands, and writes one reply for each. Nobody sees the keys in between.
    fn execute<S: Store>(self, keys: &mut Keyspace<'_, S>, out: &mut Outbox) -> bool {
        if self.is_aborted {
            return error(out, "Transaction discarded because of previous errors");
        }
        keys.lock_all();
        let has_memory = self.queue.iter().all(|Queued { key, operation }| match operation {
            Operation::Set(value) => keys.item(key).reserve(value.len()).is_ok(),
            Operation::Get | Operation::Del => true,
        });
        if !has_memory {
            keys.unlock();
            return error(out, "Transaction discarded: out of memory");
        }
        keys.with_allowance(self.queued_bytes, |keys| {
            for Queued { key, operation } in &self.queue {
                let operation = match operation {
                    Operation::Get => Operation::Get,
                    Operation::Del => Operation::Del,
                    Operation::Set(value) => Operation::Set(&**value),
                };
                run(&mut keys.item(key), operation, out);
            }
        });
        keys.unlock();
        true
    }
}

impl Queued {
    /// Returns the memory that it takes.
    fn bytes(&self) -> usize {
        let value = match &self.operation {
            Operation::Set(value) => value.len(),
            Operation::Get | Operation::Del => 0,
        };
        size_of::<Self>() + self.key.len() + value
    }
}

/// Runs an operation and writes its reply. False if the command failed, which a DEL of a missing key has not.
pub(crate) fn run<S: Store>(item: &mut Item<'_, '_, S>, operation: Operation<&[u8]>, out: &mut Outbox) -> bool {
    match operation {
        Operation::Get => value(item.get().unwrap_or_default(), out),
        Operation::Set(value) => match item.set(value, Attributes::default()) {
            Ok(()) => return ok(out),
            Err(store::OutOfMemory) => return error(out, "Out of memory"),
        },
        Operation::Del if item.remove() => return ok(out),
        Operation::Del => reply::key_missing(out.inline()),
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
