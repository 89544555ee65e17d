//! Connected clients, which CLIENT shows and changes.

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::{Mutex, MutexGuard};
use proto::{Now, Peer, ProxyAddresses};
use sys::{
    listen::Address,
    socket::{self, Handle},
};
use wire::resp::Version;

use super::{
    channels::{ChannelKind, Subscriber, SubscriptionCounts},
    client_memory::{BufferAccount, ClientMemory},
    pause::Pause,
    tracking::TrackingOptions,
};
use crate::reply::Refusal;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Profile>>>,
    next_id: AtomicU64,
    pub(crate) pause: Pause,
    pub(crate) memory: ClientMemory,
}

/// Data of a connection that other connections see, and what they can do to it.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub id: u64,
    pub connected_unix_ms: u64,
    pub peer: Option<Address>,
    pub local: Option<Address>,
    /// Addresses that a proxy has named instead of `peer` and `local`.
    pub proxied: OnceLock<ProxyAddresses>,
    socket: Option<Handle>,
    /// Time of the last batch of commands.
    pub last_unix_ms: AtomicU64,
    /// Number of the last command, plus 1; 0: none yet.
    pub last_command: AtomicUsize,
    pub database: AtomicU8,
    /// Version of RESP: 2 or 3.
    pub version: AtomicU8,
    /// Number of commands queued by MULTI; negative: there is no transaction.
    pub queued: AtomicI64,
    pub watched: AtomicUsize,
    /// Numbers of subscriptions, by [`ChannelKind`].
    pub subscriptions: SubscriptionCounts,
    /// Handle that pushes into the connection, once anything may be pushed.
    subscriber: OnceLock<Weak<Subscriber>>,
    /// Mode of CLIENT TRACKING.
    tracking: Mutex<Option<TrackingOptions>>,
    /// Bytes of the connection's buffers, in units of 16 KiB.
    pub buffer_bytes: AtomicUsize,
    /// Set by CLIENT NO-EVICT.
    pub is_no_evict: AtomicBool,
    /// Set by CLIENT NO-TOUCH.
    pub is_no_touch: AtomicBool,
    /// The connection is to be closed with its next batch.
    is_killed: AtomicBool,
    labels: Mutex<ClientLabels>,
}

/// Names that a client gives itself, by CLIENT SETNAME and SETINFO.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientLabels {
    pub name: String,
    pub library: String,
    pub library_version: String,
}

/// Entry of a connection in [`Clients`], removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    clients: Arc<Clients>,
    profile: Arc<Profile>,
    buffers: BufferAccount,
}

impl Clients {
    /// Returns a registration that is not listed.
    pub(crate) fn unlisted(self: &Arc<Self>) -> Registration {
        Registration { clients: Arc::clone(self), profile: Arc::default(), buffers: BufferAccount::default() }
    }

    /// Adds a connection.
    pub(crate) fn register(self: &Arc<Self>, peer: Peer<'_>, now: Now) -> Registration {
        let id = self.next_id.fetch_add(1, Relaxed) + 1;
        let unix_ms = u64::try_from(now.unix.as_millis()).unwrap_or(u64::MAX);
        let profile = Arc::new(Profile {
            id,
            connected_unix_ms: unix_ms,
            peer: socket::peer(peer.as_fd()).ok(),
            local: socket::local(peer.as_fd()).ok(),
            socket: Handle::new(peer.as_fd()).ok(),
            last_unix_ms: AtomicU64::new(unix_ms),
            version: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            ..Profile::default()
        });
        self.all().insert(id, Arc::clone(&profile));
        Registration { clients: Arc::clone(self), profile, buffers: BufferAccount::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Profile>>> {
        self.all.lock()
    }

    /// Returns the profiles of all connections that are not being closed, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Profile>> {
        self.all().values().filter(|profile| !profile.is_killed.load(Relaxed)).cloned().collect()
    }

    /// Returns the profile of a connection.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Profile>> {
        self.all().get(&id).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// Number of connections since the start.
    pub(crate) fn total(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    /// True while CLIENT PAUSE or a script makes commands wait.
    #[inline]
    pub(crate) fn are_paused(&self) -> bool {
        self.pause.is_on()
    }

    /// Closes connections that have been idle since before `unix_ms`.
    pub(crate) fn kill_idle(&self, unix_ms: u64) {
        let list = self.list();
        let idle =
            list.into_iter().filter(|profile| profile.last_unix_ms.load(Relaxed) < unix_ms && !profile.is_subscribed());
        idle.for_each(|profile| profile.kill());
    }
}

impl Profile {
    pub(crate) fn labels(&self) -> MutexGuard<'_, ClientLabels> {
        self.labels.lock()
    }

    /// Returns the version of RESP that the client speaks.
    pub(crate) fn resp_version(&self) -> Version {
        if self.version.load(Relaxed) == 3 { Version::Resp3 } else { Version::Resp2 }
    }

    /// Number of subscriptions of a kind.
    pub(crate) fn subscriptions(&self, kind: ChannelKind) -> usize {
        self.subscriptions[kind as usize].load(Relaxed)
    }

    /// Returns the handle that pushes into the connection, if anything may be pushed.
    pub(crate) fn subscriber(&self) -> Option<Arc<Subscriber>> {
        self.subscriber.get().and_then(Weak::upgrade)
    }

    /// Lets others push into the connection, too.
    pub(crate) fn set_subscriber(&self, subscriber: &Arc<Subscriber>) {
        self.subscriber.get_or_init(|| Arc::downgrade(subscriber));
    }

    pub(crate) fn set_tracking(&self, options: Option<&TrackingOptions>) {
        *self.tracking.lock() = options.cloned();
    }

    /// True if the client has tracking enabled.
    pub(crate) fn tracks(&self) -> bool {
        self.tracking.lock().is_some()
    }

    /// True if that is in broadcasting mode.
    pub(crate) fn tracks_prefixes(&self) -> bool {
        self.tracking.lock().as_ref().is_some_and(|options| options.is_broadcast)
    }

    /// Returns the client that is told of changes instead: 0 for none, -1 without tracking.
    pub(crate) fn redirect(&self) -> i64 {
        let shown = |options: &TrackingOptions| options.redirect.map_or(0, |id| i64::try_from(id).unwrap_or(i64::MAX));
        self.tracking.lock().as_ref().map_or(-1, shown)
    }

    /// True if the client waits for messages: it may be idle for as long as it likes.
    pub(crate) fn is_subscribed(&self) -> bool {
        ChannelKind::ALL.into_iter().any(|kind| self.subscriptions(kind) > 0)
    }

    /// Closes the connection: nothing more of it is answered. Its socket is shut down from here, so that its driver sees
    /// the end even if it is idle.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Relaxed);
        if let Some(socket) = self.socket {
            socket.shutdown(); // Fails for one that is gone already.
        }
    }

    /// Returns the number of the descriptor, or -1.
    pub(crate) fn descriptor(&self) -> i32 {
        self.socket.map_or(-1, Handle::number)
    }

    /// Returns the peer's address as Redis writes it: a client of a unix socket has the server's path and port 0.
    pub(crate) fn peer_text(&self) -> String {
        if let Some(proxied) = self.proxied.get() {
            return proxied.client.to_string();
        }
        match &self.peer {
            Some(Address::Unix(path)) if path.as_os_str().is_empty() => self.local_text(),
            peer => address_text(peer.as_ref()),
        }
    }

    /// Returns the address that the client has connected to, as Redis writes it.
    pub(crate) fn local_text(&self) -> String {
        match self.proxied.get() {
            Some(proxied) => proxied.server.to_string(),
            None => address_text(self.local.as_ref()),
        }
    }
}

impl Registration {
    pub(crate) fn id(&self) -> u64 {
        self.profile.id
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    pub(crate) fn shared_profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.profile.is_killed.load(Relaxed)
    }

    /// Counts the bytes of the connection's buffers. It may be closed because of them.
    #[inline]
    pub(crate) fn set_buffer_bytes(&mut self, bytes: usize) {
        self.buffers.set(bytes, &self.clients, &self.profile);
    }

    /// Publishes the number of the last command.
    #[inline]
    pub(crate) fn set_last_command(&self, number: usize) {
        self.profile.last_command.store(number + 1, Relaxed);
    }

    /// Publishes the time of a batch of commands.
    #[inline]
    pub(crate) fn set_last_batch(&self, now: Now) {
        // Lossless for some 500 million years.
        self.profile.last_unix_ms.store(now.unix.as_millis() as u64, Relaxed);
    }

    /// Sets the name of the connection; an empty one removes it.
    pub(crate) fn set_name(&self, name: &[u8]) -> Result<(), Refusal> {
        if !is_printable(name) {
            return Err(Refusal::new("ERR Client names cannot contain spaces, newlines or special characters."));
        }
        self.profile.labels().name = String::from_utf8_lossy(name).into_owned();
        Ok(())
    }
}

fn address_text(address: Option<&Address>) -> String {
    match address {
        Some(Address::Tcp(address)) => address.to_string(),
        Some(Address::Unix(path)) => format!("{}:0", path.display()),
        None => "?:0".to_owned(),
    }
}

/// True if the text has no spaces and no control characters.
pub(crate) fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.set_buffer_bytes(0);
        self.clients.all().remove(&self.profile.id);
    }
}
