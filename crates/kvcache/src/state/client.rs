//! State of one connection that commands read and change.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use parking_lot::Mutex;
use proto::Outbox;
use store::Store;
use wire::resp::Version;

use super::{
    channels::{ChannelKind, Channels, Subscriber, Subscriptions},
    clients::{Clients, Registration},
    scripts::ClientChange,
    space::Space,
    tracking::ClientTracking,
    transaction::Transaction,
};

/// One client, as Redis's commands know it.
#[derive(Debug)]
pub(crate) struct Client<S: Store> {
    pub(crate) is_authenticated: bool,
    pub(crate) database: u8,
    pub(crate) version: Version,
    /// Mode chosen by CLIENT REPLY.
    pub(crate) replies: ReplyMode,
    /// Set by CLIENT NO-TOUCH: reading a key does not count as a use of it.
    pub(crate) is_no_touch: bool,
    /// True while a reply is to come before anything more is read.
    pub(crate) is_held: bool,
    pub(crate) registration: Registration,
    /// True for one that no connection has: its commands were admitted before they came here.
    pub(crate) is_detached: bool,
    /// True while EXEC runs its commands.
    pub(crate) is_executing: bool,
    /// State that a script or transaction on another thread leaves for this client.
    pub(crate) change: Option<Arc<Mutex<Option<ClientChange>>>>,
    transaction: Option<Box<Transaction<S>>>,
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// Made with the first subscription.
    subscriptions: Option<Box<Subscriptions>>,
    /// Handle that pushes into the connection; made when something is first to be pushed.
    subscriber: Option<Arc<Subscriber>>,
}

/// Mode of CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// The replies to the next command are dropped.
    SkipNext,
    /// The replies to this command are dropped.
    Skip,
}

impl<S: Store> Client<S> {
    pub(crate) fn new(is_authenticated: bool, registration: Registration) -> Self {
        Self {
            is_authenticated,
            database: 0,
            version: Version::Resp2,
            replies: ReplyMode::On,
            is_no_touch: false,
            is_held: false,
            registration,
            is_detached: false,
            is_executing: false,
            change: None,
            transaction: None,
            tracking: None,
            subscriptions: None,
            subscriber: None,
        }
    }

    /// Returns a client that no connection has, for commands that run on another thread than their own connection's.
    pub(crate) fn detached(registration: Registration) -> Self {
        Self { is_detached: true, ..Self::new(true, registration) }
    }

    /// Takes over what a script or transaction on another thread has changed, once it has been answered.
    pub(crate) fn apply_change(&mut self) {
        let change = self.change.take().and_then(|change| change.lock().take());
        if let Some(ClientChange { database, version }) = change {
            (self.database, self.version) = (database, version);
        }
    }

    /// True if nothing about this client stands between a command on one key and the store.
    pub(crate) fn is_plain(&self, clients: &Clients) -> bool {
        self.is_authenticated
            && self.replies == ReplyMode::On
            && !self.is_no_touch
            && !self.is_held
            && self.subscriber.is_none()
            && !clients.are_paused()
    }

    /// Makes the connection wait for the end of CLIENT PAUSE. False if there is no pause any more.
    pub(crate) fn hold(&mut self, clients: &Clients, out: &mut Outbox) -> bool {
        self.is_held = clients.pause.hold(out);
        self.is_held
    }

    // --- subscriptions --------------------------------------------------------------------

    /// Returns the handle that pushes into the connection, of which at most `bytes_max` bytes are held for it.
    pub(crate) fn subscriber(&mut self, bytes_max: usize) -> &Arc<Subscriber> {
        let profile = self.registration.shared_profile();
        self.subscriber.get_or_insert_with(|| {
            let subscriber = Subscriber::new(profile, bytes_max);
            profile.set_subscriber(&subscriber);
            subscriber
        })
    }

    /// Lets the connection take what is pushed, once anything may be.
    #[inline]
    pub(crate) fn take_pushes(&self, out: &mut Outbox) {
        if let Some(subscriber) = &self.subscriber {
            out.take_pushes_of(subscriber.pusher());
        }
    }

    /// Moves what has been pushed so far in front of the reply that follows.
    pub(crate) fn move_pushes(&self, out: &mut Outbox) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.pusher().move_all(out);
        }
    }

    /// Drops what has been pushed and is not in the outbox yet.
    pub(crate) fn discard_pushes(&self) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.pusher().discard();
        }
    }

    pub(crate) fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    pub(crate) fn subscriptions_mut(&mut self, all: &Arc<Channels>, bytes_max: usize) -> &mut Subscriptions {
        let subscriber = Arc::clone(self.subscriber(bytes_max));
        self.subscriptions.get_or_insert_with(|| Box::new(Subscriptions::new(all, &subscriber)))
    }

    /// Ends all subscriptions.
    pub(crate) fn unsubscribe_all(&mut self) {
        self.subscriptions = None;
    }

    /// True if there is any subscription.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// Number of subscriptions that the reply to one of this kind shows.
    pub(crate) fn shown_subscriptions(&self, kind: ChannelKind) -> usize {
        self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.shown(kind))
    }

    // --- transactions ---------------------------------------------------------------------

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_open())
    }

    /// Bytes of queued commands.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.queued_bytes())
    }

    pub(crate) fn has_queued_writes(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.has_writes())
    }

    pub(crate) fn transaction(&mut self, space: &Arc<Space<S>>) -> &mut Transaction<S> {
        self.transaction.get_or_insert_with(|| Box::new(Transaction::new(space)))
    }

    /// True if a command of this kind is queued.
    pub(crate) fn has_queued(&self, is_wanted: impl Fn(usize) -> bool) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.has_queued(is_wanted))
    }

    pub(crate) fn set_transaction(&mut self, transaction: Option<Box<Transaction<S>>>) {
        self.transaction = transaction;
    }

    pub(crate) fn take_transaction(&mut self) -> Option<Box<Transaction<S>>> {
        self.transaction.take()
    }

    /// Makes EXEC refuse, if there is an open transaction.
    pub(crate) fn abort_transaction(&mut self) {
        if let Some(transaction) = self.transaction.as_mut().filter(|transaction| transaction.is_open()) {
            transaction.abort();
        }
    }

    /// Publishes what CLIENT LIST shows of the connection, after it has run a command of this number.
    pub(crate) fn publish(&self, command: usize) {
        let profile = self.registration.profile();
        self.registration.set_last_command(command);
        profile.database.store(self.database, Relaxed);
        profile.version.store(if self.version == Version::Resp3 { 3 } else { 2 }, Relaxed);
        let open = self.transaction.as_ref().filter(|transaction| transaction.is_open());
        profile.queued.store(open.map_or(-1, |open| i64::try_from(open.queued()).unwrap_or(i64::MAX)), Relaxed);
        profile.watched.store(self.transaction.as_ref().map_or(0, |transaction| transaction.watched()), Relaxed);
    }
}
