//! Requests on one key, on their way through the window: see [`crate::window`].

use std::collections::VecDeque;

use proto::Outbox;
use store::Store;
use wire::memcached::{KEY_BYTES_MAX, Keys, MetaKey, Parsed, Request};

use super::{Call, Heard, Verb};
use crate::{
    server::KvServer,
    space::{Keyspace, Space, stored_key},
};

/// A request that needs nothing but one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single<'i> {
    request: Request<'i>,
    verb: Verb,
    pub(crate) hash: u64,
    /// Bytes of the request.
    pub(crate) len: usize,
}

impl<'i> Single<'i> {
    /// `None`: the request must be answered by itself, after everything that came before it.
    #[inline]
    pub(crate) fn of<S: Store>(space: &Space<S>, heard: &Heard<'i>) -> Option<Self> {
        let Heard { verb: Some(verb), parsed: Ok(Parsed::Complete { request, consumed }) } = *heard else {
            return None;
        };
        let hash = match request {
            Request::Get { keys, .. } | Request::GetAndTouch { keys, .. } => hash(space, only(keys)?),
            Request::Store { key, .. }
            | Request::Touch { key, .. }
            | Request::Delete { key, .. }
            | Request::Arithmetic { key, .. } => hash(space, key),
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

/// Requests that are under way, oldest first, and how many have been answered.
#[derive(Debug)]
pub(crate) struct Pipeline<'i> {
    requests: VecDeque<Single<'i>>,
    answered: [u64; Verb::ALL.len()],
}

impl<'i> Pipeline<'i> {
    /// With room for so many under way.
    pub(crate) fn new(room: usize) -> Self {
        Self { requests: VecDeque::with_capacity(room), answered: [0; Verb::ALL.len()] }
    }

    #[inline]
    pub(crate) fn enter(&mut self, single: Single<'i>) {
        self.requests.push_back(single);
    }

    /// Runs the oldest.
    #[inline]
    pub(crate) fn leave<S: Store + 'static>(
        &mut self,
        server: &KvServer<S>,
        keys: &mut Keyspace<'_, S>,
        out: &mut Outbox,
    ) {
        let Some(Single { request, verb, hash, .. }) = self.requests.pop_front() else { return };
        (keys.database, keys.known_hash) = (0, Some(hash));
        let mut call = Call::new(server, keys, out);
        // A request on one key leaves the connection open.
        let _ = call.answer(request);
        if call.failed {
            server.statistics.failed(verb.number());
        }
        keys.known_hash = None; // A refusal may have come before the key.
        self.answered[verb as usize] += 1;
    }

    /// What has been answered.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Verb, u64)> {
        Verb::ALL.iter().copied().zip(self.answered).filter(|(_, count)| *count > 0)
    }
}
