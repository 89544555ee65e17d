//! The protocol: requests in, replies out.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use proto::{BatchEntry, Flow, Now, Outbox, Peer, Protocol, Step};
use store::Store;
use sys::listen::Address;
use wire::{
    Detected,
    resp::{self, Parsed, RequestLimits, RequestParser},
};

use crate::{
    clients::Clients,
    commands,
    config::{Facts, Settings},
    connection::{Conn, Dialect, FrontEnd},
    journal::Journal,
    maintenance::{Gauges, Maintenance},
    memcached::{self, Memcached},
    owners::Owners,
    snapshot::{Keeper, SnapshotError},
    space::{Keyspace, Space},
    statistics::Statistics,
    table::Sharing,
    timer::Timer,
    us::{self, Us},
    window::Window,
};

/// Input of a client that has not been let in, above which it is not waited for the byte that tells its protocol.
const UNDECIDED_BYTES_MAX: usize = 64 * 1024;

/// What a [`KvServer`] is made with.
#[derive(Debug)]
pub struct KvOptions {
    /// From the first byte of a request to its last.
    pub request_timeout: Duration,
    /// Between a reply and the next request.
    pub idle_timeout: Duration,
    pub limits: RequestLimits,
    pub password: Option<String>,
    /// As the space was made with.
    pub memory_max: Option<usize>,
    pub facts: Facts,
    /// The file that keys are saved to and loaded from.
    pub snapshot: Option<PathBuf>,
    /// What is spoken at each listening address, by its number; at any other it is detected.
    pub front_ends: Vec<FrontEnd>,
}

/// A cache of strings.
#[derive(Debug)]
pub struct KvServer<S: Store> {
    pub(crate) space: Arc<Space<S>>,
    pub(crate) settings: Settings,
    pub(crate) clients: Arc<Clients>,
    pub(crate) statistics: Statistics,
    pub(crate) journal: Arc<Journal>,
    pub(crate) gauges: Gauges,
    pub(crate) timer: Timer,
    pub(crate) facts: Facts,
    maintenance: Mutex<Option<Maintenance>>,
    /// Of a partitioned store.
    pub(crate) owners: OnceLock<Owners>,
    pub(crate) limits: RequestLimits,
    pub(crate) limits_before_auth: RequestLimits,
    pub(crate) memcached: Memcached,
    pub(crate) keeper: Arc<Keeper>,
    front_ends: Vec<FrontEnd>,
    request_timeout: Duration,
}

impl<S: Store + 'static> KvServer<S> {
    pub fn new(space: Space<S>, options: KvOptions) -> Self {
        let policy = space.lock(0).policy();
        let password = options.password.as_deref();
        Self {
            space: Arc::new(space),
            settings: Settings::new(password, options.memory_max, policy, options.idle_timeout),
            clients: Arc::default(),
            statistics: Statistics::default(),
            journal: Arc::default(),
            gauges: Gauges::default(),
            timer: Timer::default(),
            facts: options.facts,
            maintenance: Mutex::new(None),
            owners: OnceLock::new(),
            limits: options.limits,
            limits_before_auth: options.limits.before_authentication(),
            memcached: Memcached::new(options.limits.bulk_bytes_max),
            keeper: Arc::new(Keeper::new(options.snapshot)),
            front_ends: options.front_ends,
            request_timeout: options.request_timeout,
        }
    }

    /// Loads the snapshot, if there is one.
    ///
    /// # Errors
    /// It cannot be read as a whole, or does not fit. What has been loaded by then is there.
    pub fn load(&self) -> Result<(), SnapshotError> {
        let number_max = self.keeper.load(&self.space)?;
        self.memcached.numbers.skip(number_max);
        Ok(())
    }

    /// Saves a snapshot, once one that is being saved already is done.
    ///
    /// # Errors
    /// The file of before is still there.
    pub fn save(&self) -> Result<(), SnapshotError> {
        self.keeper.save(&self.space)
    }

    /// Starts the threads that work beside the drivers.
    ///
    /// # Errors
    /// When the system has no thread to spare.
    pub fn start(self: &Arc<Self>, sharing: Sharing) -> io::Result<()> {
        let maintenance = Maintenance::start(Arc::clone(self))?;
        if let Some(twice) = self.lock_maintenance().replace(maintenance) {
            twice.stop();
        }
        if sharing == Sharing::Owned {
            let owners = Owners::start(self)?;
            if let Err(twice) = self.owners.set(owners) {
                twice.stop();
            }
        }
        Ok(())
    }

    /// Ends them, once the last connection has gone.
    pub fn stop(&self) {
        let maintenance = self.lock_maintenance().take();
        if let Some(maintenance) = maintenance {
            maintenance.stop();
        }
        if let Some(owners) = self.owners.get() {
            owners.stop();
        }
    }

    fn lock_maintenance(&self) -> MutexGuard<'_, Option<Maintenance>> {
        self.maintenance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the server where it listens, for those who ask.
    pub fn listens_on(&self, addresses: &[Address]) {
        // Said once, by whoever serves.
        let _ = self.facts.addresses.set(addresses.to_vec());
    }

    /// Answers the request that `input` begins with, whatever it is.
    pub(crate) fn one(
        &self,
        conn: &mut Conn<S>,
        input: &[u8],
        keys: &mut Keyspace<'_, S>,
        now: Now,
        out: &mut Outbox,
    ) -> Step {
        if conn.is_held(self, out) {
            return Step::open(0);
        }
        match &mut conn.dialect {
            Dialect::Undecided(detector) => {
                conn.dialect = match detector.detect(input) {
                    Detected::Us => Dialect::Us(Us::default()),
                    Detected::Resp => Dialect::Resp(RequestParser::default()),
                    // Nobody may send a large request before being let in, in whatever protocol.
                    Detected::Unknown if !conn.authenticated && input.len() > UNDECIDED_BYTES_MAX => {
                        Dialect::Resp(RequestParser::default())
                    }
                    Detected::Unknown => return Step::open(0),
                };
                conn.refresh(self);
                self.one(conn, input, keys, now, out)
            }
            Dialect::Resp(_) => self.one_resp(conn, input, keys, now, out),
            Dialect::Us(_) => us::one(self, conn, input, keys, out),
            Dialect::Memcached(_) => memcached::one(self, conn, input, keys, out),
        }
    }

    fn one_resp(
        &self,
        conn: &mut Conn<S>,
        input: &[u8],
        keys: &mut Keyspace<'_, S>,
        now: Now,
        out: &mut Outbox,
    ) -> Step {
        match self.hear(conn, input) {
            Heard::Request(args, _) if commands::must_wait(self, conn, &args) && conn.hold(self, out) => Step::open(0),
            Heard::Request(args, consumed) => {
                let flow = commands::answer(self, conn, keys, &args, now, out);
                Step { flow, ..Step::open(consumed) }
            }
            Heard::Quoted(args, consumed) => {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                if commands::must_wait(self, conn, &args) && conn.hold(self, out) {
                    return Step::open(0);
                }
                let flow = commands::answer(self, conn, keys, &args, now, out);
                Step { flow, ..Step::open(consumed) }
            }
            Heard::Nothing(consumed) => Step::open(consumed),
            Heard::Torn(need) => Step { need, ..Step::open(0) },
            Heard::Nonsense(error) => {
                error.write(out.inline());
                Step { flow: Flow::Linger, ..Step::open(0) }
            }
        }
    }

    /// Reads the RESP request at the start of `input`.
    pub(crate) fn hear<'i>(&self, conn: &mut Conn<S>, input: &'i [u8]) -> Heard<'i> {
        let limits = conn.limits(self);
        let Dialect::Resp(parser) = &mut conn.dialect else { return Heard::Torn(0) };
        let mut args = resp::Args::new();
        match parser.parse(input, limits, &mut args) {
            Ok(Parsed::Complete { consumed }) if args.is_empty() => Heard::Nothing(consumed),
            Ok(Parsed::Complete { consumed }) => Heard::Request(args, consumed),
            // Rare, and typed by hand: a copy frees the parser.
            Ok(Parsed::Quoted { consumed }) => {
                Heard::Quoted(parser.quoted().iter().map(|arg| arg.to_vec()).collect(), consumed)
            }
            Ok(Parsed::Incomplete { need }) => Heard::Torn(need),
            Err(error) => Heard::Nonsense(error),
        }
    }
}

/// What a connection's input begins with. Numbers are bytes: those of the request, or those that are missing.
pub(crate) enum Heard<'i> {
    Request(resp::Args<'i>, usize),
    /// An inline command with quotes.
    Quoted(Vec<Vec<u8>>, usize),
    /// A request without a command.
    Nothing(usize),
    Torn(usize),
    Nonsense(resp::ProtocolError),
}

impl<S: Store + 'static> Protocol for KvServer<S> {
    type Conn = Conn<S>;

    /// Enough commands to keep the prefetch window busy, even if each connection brings one.
    const BATCH: usize = 32;

    fn open(&self, peer: Peer<'_>, now: Now) -> Conn<S> {
        let authenticated = self.settings.password().is_none();
        let front_end = self.front_ends.get(peer.front_end).copied().unwrap_or_default();
        let mut conn = Conn::new(front_end.into(), authenticated, self.clients.enter(peer, now));
        conn.refresh(self);
        conn
    }

    fn on_input(&self, conn: &mut Conn<S>, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let mut turns = [BatchEntry { conn, input, out, step: Step::open(0) }];
        self.on_ready(&mut turns, now);
        turns[0].step
    }

    fn on_ready(&self, turns: &mut [BatchEntry<'_, Conn<S>>], now: Now) {
        self.memcached.flush_if_due(self, now);
        match self.owners.get() {
            None => Window::new(self, now).run(turns),
            Some(owners) => owners.run(self, turns, now),
        }
    }

    fn deadline(&self, conn: &Conn<S>, quiet_since: Instant) -> Option<Instant> {
        // A patience too long to be added has no end.
        match conn.started {
            Some(started) => started.checked_add(self.request_timeout),
            None => quiet_since.checked_add(self.settings.idle_timeout()?),
        }
    }

    fn on_deadline(&self, _: &mut Conn<S>, _: Now, _: &mut Outbox) -> Flow {
        Flow::Close
    }

    fn refusal(&self) -> &[u8] {
        b"-ERR max number of clients reached\r\n"
    }
}
