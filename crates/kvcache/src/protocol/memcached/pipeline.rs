//! Requests on one key, on their way through the window of a batch.

use std::collections::VecDeque;

use proto::Outbox;
use store::Store;
use wire::memcached::{KEY_BYTES_MAX, Keys, MetaKey, Parsed, Request};

use super::{Call, ParsedRequest};
use crate::{
    command_table::MemcachedVerb,
    state::{Keyspace, ServerState, Space, stored_key},
};

/// A request that needs nothing but one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleKeyRequest<'i> {
    request: Request<'i>,
    verb: MemcachedVerb,
    pub(crate) hash: u64,
    /// Length of the request, in bytes.
    pub(crate) len: usize,
}

impl<'i> SingleKeyRequest<'i> {
    /// Returns `None` if the request must be answered by itself, after everything that came before it.
    #[inline]
    pub(crate) fn new<S: Store>(space: &Space<S>, request: &ParsedRequest<'i>) -> Option<Self> {
        let ParsedRequest { verb: Some(verb), parsed: Ok(Parsed::Complete { request, consumed }) } = *request else {
            return None;
        };
        let hash = match request {
            Request::Get { keys, .. } | Request::GetAndTouch { keys, .. } => hash(space, only(keys)?),
            Request::Store { key, .. }
            | Request::Touch { key, .. }
            | Request::Delete { key, .. }
            | Request::Arithmetic { key, .. } => hash(space, key),
            Request::Binary(request) => hash(space, request.command.single_key()?),
            Request::MetaGet { key, .. }
            | Request::MetaSet { key, .. }
            | Request::MetaDelete { key, .. }
            | Request::MetaArithmetic { key, .. }
            | Request::MetaDebug { key } => hash_of_meta(space, &key),
            Request::TooLarge { .. }
            | Request::FlushAll { .. }
            | Request::Version
            | Request::Verbosity { .. }
            | Request::Stats { .. }
            | Request::Quit
            | Request::Shutdown(_)
            | Request::Slabs { .. }
            | Request::CacheMemoryLimit { .. }
            | Request::MetaNoop => return None,
        };
        Some(Self { request, verb, hash, len: consumed })
    }
}

#[inline]
fn hash<S: Store>(space: &Space<S>, key: &[u8]) -> u64 {
    space.hash(&stored_key(0, key))
}

#[inline]
fn hash_of_meta<S: Store>(space: &Space<S>, key: &MetaKey<'_>) -> u64 {
    match key.is_base64 {
        false => hash(space, key.raw),
        true => hash(space, key.bytes(&mut [0; KEY_BYTES_MAX])),
    }
}

#[inline]
fn only(keys: Keys<'_>) -> Option<&[u8]> {
    let mut keys = keys.into_iter();
    keys.next().filter(|_| keys.next().is_none())
}

/// Requests that are under way, oldest first, and the numbers of those answered.
#[derive(Debug)]
pub(crate) struct Pipeline<'i> {
    requests: VecDeque<SingleKeyRequest<'i>>,
    answered: [u64; MemcachedVerb::ALL.len()],
}

impl<'i> Pipeline<'i> {
    pub(crate) fn with_capacity(requests: usize) -> Self {
        Self { requests: VecDeque::with_capacity(requests), answered: [0; MemcachedVerb::ALL.len()] }
    }

    #[inline]
    pub(crate) fn push(&mut self, request: SingleKeyRequest<'i>) {
        self.requests.push_back(request);
    }

    /// Runs the oldest request.
    #[inline]
    pub(crate) fn run_oldest<S: Store + 'static>(
        &mut self,
        state: &ServerState<S>,
        keys: &mut Keyspace<'_, S>,
        out: &mut Outbox,
    ) {
        let Some(SingleKeyRequest { request, verb, hash, .. }) = self.requests.pop_front() else { return };
        (keys.database, keys.known_hash) = (0, Some(hash));
        let mut call = Call::new(state, keys, out);
        // A request on one key leaves the connection open.
        let _ = call.answer(request);
        if call.is_failed {
            state.statistics.add_failure(verb.number());
        }
        keys.known_hash = None; // An error may have come before the key.
        self.answered[verb as usize] += 1;
    }

    /// Returns the numbers of requests answered.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (MemcachedVerb, u64)> {
        MemcachedVerb::ALL.iter().copied().zip(self.answered).filter(|(_, count)| *count > 0)
    }
}
