//! State of the server: keys, clients, settings and figures, shared by all its threads.
//!
//! Nothing in here knows a command's handler or a protocol's requests.

mod channels;
mod client;
mod client_memory;
mod clients;
mod forwarding;
mod gauges;
mod latency_monitor;
mod memcached;
mod notifications;
mod pause;
mod scripts;
mod server_info;
mod settings;
mod slot_map;
mod slow_log;
mod snapshot;
mod space;
mod statistics;
mod timer;
mod tracking;
mod transaction;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use proto::Outbox;
use store::Store;
use wire::resp::{RequestLimits, Version};

pub(crate) use self::{
    channels::{ChannelKind, Channels},
    client::{Client, ReplyMode},
    clients::{Clients, Profile, Registration, is_printable},
    forwarding::{ForwardedDialect, ForwardedRequest, Successor, send_reply},
    gauges::{Gauges, Rates},
    latency_monitor::{LatencyMonitor, LatencySample, LatencySeries},
    memcached::{MemcachedState, UNIQUE_NUMBER},
    notifications::{EventClass, Notifications},
    pause::{Pause, PauseMode},
    scripts::{ClientChange, HandedOver, LocalScript, ScriptError, ScriptJob, ScriptMessage, Scripts},
    settings::Settings,
    slot_map::{ClusterNode, SLOTS, slot},
    slow_log::{SlowCommand, SlowLog, redacted_args},
    snapshot::{SaveStart, SnapshotStore, receive_entries, send_entries},
    space::{DATABASE_PREFIX, DATABASES, Item, Keyspace, split_stored_key, stored_key},
    statistics::{BATCH_BUCKETS, BUCKETS, CommandReading, PerfReport, Statistics, upper_ns},
    timer::Timer,
    tracking::{ClientTracking, Tracking, TrackingOptions, with_origin},
};
pub use self::{
    server_info::{ServerInfo, StopServer},
    slot_map::{NodeAddress, SlotMap, SlotMapError},
    snapshot::SnapshotError,
    space::{Space, SpaceOptions},
};

/// State that all threads of a server share.
#[derive(Debug)]
pub(crate) struct ServerState<S: Store> {
    pub(crate) space: Arc<Space<S>>,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) statistics: Statistics,
    pub(crate) slow_log: Arc<SlowLog>,
    pub(crate) latency_monitor: Arc<LatencyMonitor>,
    pub(crate) gauges: Gauges,
    pub(crate) timer: Timer,
    pub(crate) info: ServerInfo,
    pub(crate) limits: RequestLimits,
    limits_before_auth: RequestLimits,
    pub(crate) memcached: MemcachedState,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) scripts: Scripts<S>,
    pub(crate) channels: Arc<Channels>,
    /// Bytes of messages that are held for a client that does not read.
    pub(crate) pushed_bytes_max: usize,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) tracking: Arc<Tracking>,
    /// Time of the next log line about HTTP, in seconds since the start.
    next_http_warning_s: AtomicU64,
}

/// Shortest time between two log lines about HTTP, in seconds, as in Redis.
const HTTP_WARNING_INTERVAL_S: u64 = 60;

/// Parts that a [`ServerState`] is made of.
#[derive(Debug)]
pub(crate) struct ServerStateOptions<S: Store> {
    pub(crate) space: Space<S>,
    pub(crate) password: Option<String>,
    /// Bytes that the space was made with.
    pub(crate) memory_max: Option<usize>,
    pub(crate) idle_timeout: Duration,
    pub(crate) limits: RequestLimits,
    pub(crate) info: ServerInfo,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) scripts: Scripts<S>,
    /// Bytes of messages that are held for a client that does not read.
    pub(crate) pushed_bytes_max: usize,
    /// Limit of the memory of clients' buffers; 0: no limit.
    pub(crate) client_memory_max: usize,
    /// Limit of an item that a memcached client stores.
    pub(crate) item_bytes_max: usize,
}

impl<S: Store> ServerState<S> {
    pub(crate) fn new(options: ServerStateOptions<S>) -> Self {
        let ServerStateOptions {
            space,
            password,
            memory_max,
            idle_timeout,
            limits,
            info,
            snapshots,
            scripts,
            pushed_bytes_max,
            client_memory_max,
            item_bytes_max,
        } = options;
        let clients = Arc::<Clients>::default();
        clients.set_memory_max(client_memory_max);
        let policy = space.lock(0).policy();
        let channels = Arc::<Channels>::default();
        let notifications = Arc::new(Notifications::new(&channels));
        Self {
            space: Arc::new(space),
            settings: Settings::new(password.as_deref(), memory_max, policy, idle_timeout),
            clients,
            statistics: Statistics::default(),
            slow_log: Arc::default(),
            latency_monitor: Arc::default(),
            gauges: Gauges::default(),
            timer: Timer::default(),
            info,
            limits,
            limits_before_auth: limits.before_authentication(),
            memcached: MemcachedState::new(limits.bulk_bytes_max, item_bytes_max),
            snapshots: Arc::new(snapshots),
            scripts,
            tracking: Arc::new(Tracking::new(&notifications)),
            notifications,
            channels,
            pushed_bytes_max,
            next_http_warning_s: AtomicU64::new(0),
        }
    }

    /// Logs, now and then, that a connection is closed because it speaks HTTP: a page in a browser can send such requests,
    /// with commands in their bodies, to a server that its user reaches.
    #[cold]
    pub(crate) fn warn_of_http(&self, client: &Profile) {
        let now_s = self.info.started.elapsed().as_secs();
        let next_s = self.next_http_warning_s.load(Relaxed);
        if now_s >= next_s {
            self.next_http_warning_s.store(now_s + HTTP_WARNING_INTERVAL_S, Relaxed);
            tracing::warn!("connection of {} closed: it sends HTTP, perhaps from a hostile page", client.peer_text());
        }
    }

    /// Forwards a request that depends on nothing of its connection to the process that has the keys.
    pub(crate) fn forward(&self, dialect: ForwardedDialect, request: &[u8], out: &mut Outbox) {
        let (bytes, version) = (request.to_vec(), Version::Resp2);
        let request = ForwardedRequest { bytes, begin: 0, dialect, database: 0, version, locks_all: false };
        self.scripts.send(ScriptMessage::Forward(request, out.defer()));
    }

    /// Returns the limits of a client's requests: low ones until it has authenticated.
    pub(crate) fn limits_for(&self, is_authenticated: bool) -> &RequestLimits {
        if is_authenticated { &self.limits } else { &self.limits_before_auth }
    }
}
