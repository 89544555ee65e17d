//! Channels: who has subscribed to what, and messages on their way to them.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use proto::Pusher;
use wire::resp::{Version, reply};

use super::clients::Profile;
use crate::glob;

/// Kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Channel,
    Pattern,
    /// A sharded channel. There is one shard of a cluster here, so that it differs from a channel by name only.
    Shard,
}

impl ChannelKind {
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    /// First word of a message.
    fn message(self) -> &'static [u8] {
        match self {
            Self::Channel => b"message",
            Self::Pattern => b"pmessage",
            Self::Shard => b"smessage",
        }
    }

    /// Returns the first word of the reply to a subscription or its end.
    pub(crate) fn verb(self, is_subscribed: bool) -> &'static [u8] {
        match (self, is_subscribed) {
            (Self::Channel, true) => b"subscribe",
            (Self::Channel, false) => b"unsubscribe",
            (Self::Pattern, true) => b"psubscribe",
            (Self::Pattern, false) => b"punsubscribe",
            (Self::Shard, true) => b"ssubscribe",
            (Self::Shard, false) => b"sunsubscribe",
        }
    }
}

/// A connection that output is pushed into.
#[derive(Debug)]
pub(crate) struct Subscriber {
    profile: Arc<Profile>,
    pusher: Pusher,
}

impl Subscriber {
    pub(crate) fn new(profile: &Arc<Profile>, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { profile: Arc::clone(profile), pusher: Pusher::new(bytes_max) })
    }

    pub(crate) fn id(&self) -> u64 {
        self.profile.id
    }

    pub(crate) fn pusher(&self) -> &Pusher {
        &self.pusher
    }

    /// True if the client waits for messages.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.profile.is_subscribed()
    }

    pub(crate) fn version(&self) -> Version {
        self.profile.resp_version()
    }

    /// Pushes what `encode` writes. It is dropped for a connection that is gone; one that is too slow is cut off.
    fn push(&self, encoded: &mut Encoded<'_>) {
        let _ = self.pusher.push(encoded.bytes(self.version()));
    }
}

/// A message as bytes, encoded once for each version of the protocol.
struct Encoded<'a> {
    parts: &'a [&'a [u8]],
    bytes: [Option<Bytes>; 2],
}

impl<'a> Encoded<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        Self { parts, bytes: [None, None] }
    }

    fn bytes(&mut self, version: Version) -> &Bytes {
        let parts = self.parts;
        self.bytes[usize::from(version == Version::Resp3)].get_or_insert_with(|| {
            let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 16).sum());
            reply::push(&mut out, parts.len(), version);
            parts.iter().for_each(|part| reply::bulk(&mut out, part));
            out.into()
        })
    }
}

type Subscribers = HashMap<Box<[u8]>, Vec<Arc<Subscriber>>, foldhash::fast::RandomState>;

/// Subscriptions of all connections. One lock keeps all messages in one order.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    subscribers: Mutex<[Subscribers; 3]>,
    /// Messages delivered, counted once for each subscriber.
    pub(crate) delivered: AtomicU64,
}

impl Channels {
    /// Sends a message to all subscribers of a channel and of patterns that match it. Returns their number.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let subscribers = self.subscribers.lock();
        let mut receivers = self.send(&subscribers, ChannelKind::Channel, channel, channel, message);
        let patterns = &subscribers[ChannelKind::Pattern as usize];
        for pattern in patterns.keys().filter(|pattern| glob::matches(pattern, channel)) {
            receivers += self.send(&subscribers, ChannelKind::Pattern, pattern, channel, message);
        }
        receivers
    }

    /// Sends a message to all subscribers of a sharded channel. Returns their number.
    pub(crate) fn publish_to_shard(&self, channel: &[u8], message: &[u8]) -> usize {
        self.send(&self.subscribers.lock(), ChannelKind::Shard, channel, channel, message)
    }

    fn send(
        &self,
        subscribers: &[Subscribers; 3],
        kind: ChannelKind,
        name: &[u8],
        channel: &[u8],
        message: &[u8],
    ) -> usize {
        let Some(receivers) = subscribers[kind as usize].get(name) else { return 0 };
        let parts = [kind.message(), name, channel, message];
        let is_pattern = kind == ChannelKind::Pattern;
        let plain = [parts[0], parts[2], parts[3]];
        let mut encoded = Encoded::new(if is_pattern { &parts } else { &plain });
        receivers.iter().for_each(|receiver| receiver.push(&mut encoded));
        self.delivered.fetch_add(receivers.len() as u64, Relaxed);
        receivers.len()
    }

    /// Returns the names that have subscribers, and match the pattern if there is one.
    pub(crate) fn names(&self, kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let subscribers = self.subscribers.lock();
        let names = subscribers[kind as usize].keys();
        names.filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name))).cloned().collect()
    }

    /// Number of names that have subscribers.
    pub(crate) fn len(&self, kind: ChannelKind) -> usize {
        self.subscribers.lock()[kind as usize].len()
    }

    /// Number of subscribers of each name.
    pub(crate) fn subscribers(&self, kind: ChannelKind, names: &[&[u8]]) -> Vec<usize> {
        let subscribers = self.subscribers.lock();
        names.iter().map(|name| subscribers[kind as usize].get(*name).map_or(0, Vec::len)).collect()
    }

    fn add(&self, kind: ChannelKind, name: &[u8], subscriber: &Arc<Subscriber>) {
        self.subscribers.lock()[kind as usize].entry(name.into()).or_default().push(Arc::clone(subscriber));
    }

    fn remove(&self, kind: ChannelKind, name: &[u8], subscriber: &Arc<Subscriber>) {
        let mut subscribers = self.subscribers.lock();
        let of_kind = &mut subscribers[kind as usize];
        if let Some(receivers) = of_kind.get_mut(name) {
            receivers.retain(|receiver| !Arc::ptr_eq(receiver, subscriber));
            if receivers.is_empty() {
                of_kind.remove(name);
            }
        }
    }
}

/// Subscriptions of one connection; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    all: Arc<Channels>,
    subscriber: Arc<Subscriber>,
    names: [BTreeSet<Box<[u8]>>; 3],
}

impl Subscriptions {
    pub(crate) fn new(all: &Arc<Channels>, subscriber: &Arc<Subscriber>) -> Self {
        Self { all: Arc::clone(all), subscriber: Arc::clone(subscriber), names: Default::default() }
    }

    /// Number of subscriptions of a kind.
    pub(crate) fn len(&self, kind: ChannelKind) -> usize {
        self.names[kind as usize].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// Number of subscriptions that the reply to one of this kind shows.
    pub(crate) fn shown(&self, kind: ChannelKind) -> usize {
        match kind {
            ChannelKind::Channel | ChannelKind::Pattern => {
                self.len(ChannelKind::Channel) + self.len(ChannelKind::Pattern)
            }
            ChannelKind::Shard => self.len(ChannelKind::Shard),
        }
    }

    pub(crate) fn subscribe(&mut self, kind: ChannelKind, name: &[u8]) {
        if self.names[kind as usize].insert(name.into()) {
            self.all.add(kind, name, &self.subscriber);
            self.publish_counts();
        }
    }

    /// Ends a subscription. All messages that it brings are in the connection's mailbox then.
    pub(crate) fn unsubscribe(&mut self, kind: ChannelKind, name: &[u8]) {
        if self.names[kind as usize].remove(name) {
            self.all.remove(kind, name, &self.subscriber);
            self.publish_counts();
        }
    }

    /// Returns the names of a kind.
    pub(crate) fn names(&self, kind: ChannelKind) -> Vec<Box<[u8]>> {
        self.names[kind as usize].iter().cloned().collect()
    }

    fn publish_counts(&self) {
        for kind in ChannelKind::ALL {
            self.subscriber.profile.subscriptions[kind as usize].store(self.len(kind), Relaxed);
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for kind in ChannelKind::ALL {
            for name in mem::take(&mut self.names[kind as usize]) {
                self.all.remove(kind, &name, &self.subscriber);
            }
        }
        self.publish_counts();
    }
}

/// Numbers of subscriptions that other connections see, by [`ChannelKind`].
pub(crate) type SubscriptionCounts = [AtomicUsize; 3];
