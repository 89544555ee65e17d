//! The server: its state and threads, as a protocol that drivers run.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use proto::{BatchEntry, Flow, Now, Outbox, Peer, Protocol, ProxyAddresses, Step};
use store::Store;
use sys::listen::Address;
use wire::resp::RequestLimits;

use crate::{
    commands::script_thread,
    connection::{Conn, FrontEnd},
    events::Events,
    hand_over::PredecessorThread,
    maintenance::Maintenance,
    shard_threads::ShardThreads,
    state::{Scripts, ServerInfo, ServerState, ServerStateOptions, SnapshotError, SnapshotStore, Space},
    store_kind::Sharing,
    window::Window,
};

/// Options of a [`KvServer`].
#[derive(Debug)]
pub struct KvOptions {
    /// Time between the first byte of a request and its last.
    pub request_timeout: Duration,
    /// Time between a reply and the next request.
    pub idle_timeout: Duration,
    pub limits: RequestLimits,
    pub password: Option<String>,
    /// Bytes that the space was made with.
    pub memory_max: Option<usize>,
    pub info: ServerInfo,
    /// File that keys are saved to and loaded from.
    pub snapshot: Option<PathBuf>,
    /// Clock that is read once per batch; that of drivers is coarse, and may be older than the input.
    pub clock: Clock,
    /// Protocol of each listening address, by its number; at any other it is detected.
    pub front_ends: Vec<FrontEnd>,
    pub scripts: ScriptOptions,
    /// Bytes of messages that are held for a client that does not read.
    pub pushed_bytes_max: usize,
    /// Limit of the memory of clients' buffers, in bytes; 0: no limit.
    pub client_memory_max: usize,
    /// Limit of an item that a memcached client stores: key, value and what memcached counts beside them, in bytes.
    pub item_bytes_max: usize,
}

/// Limits of scripts.
#[derive(Clone, Copy, Debug)]
pub struct ScriptOptions {
    /// Bytes that the Lua state of each thread may take.
    pub memory_max: usize,
    /// Time after which a script that runs makes commands fail instead of wait.
    pub time_limit: Duration,
}

/// Function that completes the time of a batch.
pub type Clock = fn(Now) -> Now;

/// Returns the time with the present time since the Unix epoch in it, exact to the resolution of the system's clock.
pub fn exact_time(now: Now) -> Now {
    Now { unix: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(), ..now }
}

/// A cache of strings and hashes.
#[derive(Debug)]
pub struct KvServer<S: Store> {
    pub(crate) state: Arc<ServerState<S>>,
    maintenance: Mutex<Option<Maintenance>>,
    /// Threads of a partitioned store.
    shard_threads: OnceLock<ShardThreads>,
    script_thread: Mutex<Option<JoinHandle<()>>>,
    front_ends: Vec<FrontEnd>,
    clock: Clock,
    request_timeout: Duration,
    events: Option<Arc<Events>>,
    pub(crate) predecessor: PredecessorThread,
}

impl<S: Store + 'static> KvServer<S> {
    pub fn new(space: Space<S>, options: KvOptions) -> Self {
        let KvOptions {
            request_timeout,
            idle_timeout,
            limits,
            password,
            memory_max,
            info,
            snapshot,
            clock,
            front_ends,
            scripts,
            pushed_bytes_max,
            client_memory_max,
            item_bytes_max,
        } = options;
        let scripts = Scripts::new(scripts.memory_max, scripts.time_limit);
        let snapshots = SnapshotStore::new(snapshot);
        let state = ServerStateOptions {
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
        };
        Self {
            state: Arc::new(ServerState::new(state)),
            maintenance: Mutex::new(None),
            shard_threads: OnceLock::new(),
            script_thread: Mutex::new(None),
            front_ends,
            clock,
            request_timeout,
            events: None,
            predecessor: PredecessorThread::default(),
        }
    }

    /// Writes events of sampled connections from here on.
    #[must_use]
    pub fn with_events(self, events: Events) -> Self {
        Self { events: Some(Arc::new(events)), ..self }
    }

    /// Checks that a snapshot can be saved.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn prepare_snapshots(&self) -> Result<(), SnapshotError> {
        self.state.snapshots.prepare()
    }

    /// Loads the snapshot, if there is one.
    ///
    /// # Errors
    /// Nothing can be saved to its file; it cannot be read as a whole, or does not fit. What has been loaded by then stays.
    pub fn load(&self) -> Result<(), SnapshotError> {
        self.prepare_snapshots()?;
        let number_max = self.state.snapshots.load(&self.state.space)?;
        self.state.memcached.numbers.skip(number_max);
        Ok(())
    }

    /// Saves a snapshot, after one that is being saved already.
    ///
    /// # Errors
    /// The file is as it was before.
    pub fn save(&self) -> Result<(), SnapshotError> {
        self.state.snapshots.save(&self.state.space)
    }

    /// Starts the threads that work beside the drivers.
    ///
    /// # Errors
    /// The system has no thread to spare.
    pub fn start(&self, sharing: Sharing) -> io::Result<()> {
        let maintenance = Maintenance::start(Arc::clone(&self.state))?;
        let previous = self.maintenance.lock().replace(maintenance);
        if let Some(previous) = previous {
            previous.stop();
        }
        if let Some(thread) = script_thread::start(&self.state)? {
            *self.script_thread.lock() = Some(thread);
        }
        if sharing == Sharing::Owned {
            let threads = ShardThreads::start(&self.state)?;
            if let Err(superfluous) = self.shard_threads.set(threads) {
                superfluous.stop();
            }
        }
        Ok(())
    }

    /// Ends the script that runs apart from the drivers, and all that wait for their turn.
    pub fn stop_scripts(&self) {
        self.state.scripts.stop();
        let thread = self.script_thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }

    /// Waits until the threads of a partitioned store have run what has been routed to them.
    pub(crate) fn finish_routed(&self) {
        if let Some(threads) = self.shard_threads.get() {
            threads.finish();
        }
    }

    /// Ends the threads, after the last connection has closed.
    pub fn stop(&self) {
        self.stop_scripts();
        let maintenance = self.maintenance.lock().take();
        if let Some(maintenance) = maintenance {
            maintenance.stop();
        }
        if let Some(threads) = self.shard_threads.get() {
            threads.stop();
        }
    }

    /// Records where the server listens, for INFO and CONFIG.
    pub fn listens_on(&self, addresses: Vec<Address>) {
        // Addresses are set once, when the server begins to listen.
        let _ = self.state.info.addresses.set(addresses);
    }
}

impl<S: Store + 'static> Protocol for KvServer<S> {
    type Conn = Conn<S>;

    /// Enough commands to keep the prefetch window busy, even if each connection brings one.
    const BATCH: usize = 32;

    /// For [`Events`].
    const OBSERVES_OUTPUT: bool = true;

    /// Messages of channels, and invalidations.
    const PUSHES: bool = true;

    fn open(&self, peer: Peer<'_>, now: Now) -> Conn<S> {
        let is_authenticated = self.state.settings.password().is_none();
        let front_end = self.front_ends.get(peer.front_end).copied().unwrap_or_default();
        let registration = self.state.clients.register(peer, now);
        let events = self.events.as_ref().and_then(|events| events.sample(&registration, now));
        let mut conn = Conn::new(front_end.into(), is_authenticated, registration).with_events(events);
        conn.refresh(&self.state);
        conn
    }

    fn on_proxied(&self, conn: &mut Conn<S>, addresses: ProxyAddresses) {
        conn.set_proxied(addresses);
    }

    fn on_input(&self, conn: &mut Conn<S>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut batch = [BatchEntry { conn, input, out, step: Step::open(0) }];
        self.on_ready(&mut batch, now);
        batch[0].step
    }

    fn on_ready(&self, batch: &mut [BatchEntry<'_, Conn<S>>], now: Now) {
        let (state, now) = (&*self.state, (self.clock)(now));
        state.memcached.flush.run_if_due(&state.space, &state.clients, now);
        match self.shard_threads.get() {
            None => Window::new(state, now).run_batch(batch),
            Some(threads) => threads.run_batch(state, batch, now),
        }
    }

    fn deadline(&self, conn: &Conn<S>, quiet_since: Instant) -> Option<Instant> {
        // A timeout too long to be added never ends.
        match conn.started() {
            Some(started) => started.checked_add(self.request_timeout),
            // It waits for messages.
            None if conn.client.is_subscribed() => None,
            None => quiet_since.checked_add(self.state.settings.idle_timeout()?),
        }
    }

    fn retire(&self, conn: &mut Conn<S>) -> bool {
        conn.started().is_none()
    }

    fn on_deadline(&self, _: &mut Conn<S>, _: Now, _: &mut Outbox) -> Flow {
        Flow::Close
    }

    fn on_sent(&self, conn: &mut Conn<S>, out: &Outbox, _: fn() -> Now) {
        conn.after_send(out);
    }

    fn refusal(&self) -> &[u8] {
        b"-ERR max number of clients reached\r\n"
    }
}
