//! What can be changed while the server runs, and what is known from its start.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use store::PolicyKind;
use sys::listen::Address;

use crate::state::clients::Clients;

/// Settings that commands read and CONFIG SET writes.
#[derive(Debug)]
pub(crate) struct Settings {
    password: RwLock<Option<Arc<str>>>,
    /// `usize::MAX`: no limit.
    memory_max: AtomicUsize,
    policy: Mutex<PolicyKind>,
    /// Milliseconds; `u64::MAX`: an idle connection may stay for ever.
    idle_ms: AtomicU64,
    /// Idle connections may have been promised more time than they have now.
    pub(crate) idle_was_shortened: AtomicBool,
    /// DEBUG SET-ACTIVE-EXPIRE
    pub(crate) expires_actively: AtomicBool,
}

/// How to stop the server from inside, as SIGTERM does from outside.
#[derive(Clone)]
pub struct StopServer(pub Arc<dyn Fn() + Send + Sync>);

/// What does not change while the server runs.
#[derive(Debug)]
pub struct Facts {
    pub driver: String,
    pub store: &'static str,
    pub threads: usize,
    /// Connections above this are turned away.
    pub connections_max: usize,
    /// Longest request, in bytes.
    pub request_bytes_max: usize,
    /// Output held for one peer, in bytes, above which it is cut off.
    pub output_bytes_max: usize,
    pub backlog: i32,
    /// `--cluster yes`
    pub is_cluster: bool,
    /// `None`: it cannot be stopped from inside.
    pub stop: Option<StopServer>,
    /// What the threads of the driver count.
    pub connections: service::Statistics,
    /// Names this run of the server: 40 hexadecimal digits.
    pub run_id: String,
    pub started: Instant,
    pub started_unix: Duration,
    /// Written when the server begins to listen.
    pub addresses: OnceLock<Vec<Address>>,
}

impl Settings {
    pub(crate) fn new(
        password: Option<&str>,
        memory_max: Option<usize>,
        policy: PolicyKind,
        idle_timeout: Duration,
    ) -> Self {
        let settings = Self {
            password: RwLock::new(None),
            memory_max: AtomicUsize::new(memory_max.unwrap_or(usize::MAX)),
            policy: Mutex::new(policy),
            idle_ms: AtomicU64::new(u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX)),
            idle_was_shortened: AtomicBool::new(false),
            expires_actively: AtomicBool::new(true),
        };
        settings.set_password(password.unwrap_or_default());
        settings
    }

    /// What AUTH asks for.
    pub(crate) fn password(&self) -> Option<Arc<str>> {
        self.password.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An empty one: none is asked for.
    pub(crate) fn set_password(&self, password: &str) {
        let password = Some(password).filter(|password| !password.is_empty()).map(Arc::from);
        *self.password.write().unwrap_or_else(PoisonError::into_inner) = password;
    }

    /// Bytes for entries; `None`: no limit.
    pub(crate) fn memory_max(&self) -> Option<usize> {
        Some(self.memory_max.load(Relaxed)).filter(|&max| max != usize::MAX)
    }

    pub(crate) fn set_memory_max(&self, bytes: Option<usize>) {
        self.memory_max.store(bytes.unwrap_or(usize::MAX), Relaxed);
    }

    pub(crate) fn policy(&self) -> PolicyKind {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_policy(&self, policy: PolicyKind) {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// `None`: an idle connection may stay for ever.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_ms.load(Relaxed)).filter(|&ms| ms != u64::MAX).map(Duration::from_millis)
    }

    pub(crate) fn set_idle_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        if self.idle_ms.swap(ms, Relaxed) > ms {
            self.idle_was_shortened.store(true, Relaxed);
        }
    }

    /// Ends connections that were promised more idle time than there is now, as of `now_unix_ms`.
    pub(crate) fn enforce_idle_timeout(&self, clients: &Clients, now_unix_ms: u64) {
        if !self.idle_was_shortened.load(Relaxed) {
            return;
        }
        if let Some(timeout) = self.idle_timeout() {
            let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            clients.kill_idle(now_unix_ms.saturating_sub(timeout_ms));
        }
    }
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            driver: String::new(),
            store: "",
            threads: 1,
            connections_max: usize::MAX,
            request_bytes_max: 512 << 20,
            output_bytes_max: 64 << 20,
            backlog: 0,
            is_cluster: false,
            stop: None,
            connections: service::Statistics::default(),
            run_id: (0..40).map(|_| fastrand::digit(16)).collect(),
            started: Instant::now(),
            started_unix: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            addresses: OnceLock::new(),
        }
    }
}

impl Facts {
    /// Empty before the server listens.
    fn listened(&self) -> &[Address] {
        self.addresses.get().map_or(&[], Vec::as_slice)
    }

    /// The hosts of TCP addresses, with blanks between them.
    pub(crate) fn bound(&self) -> String {
        let host = |address: &Address| match address {
            Address::Tcp(address) => Some(address.ip().to_string()),
            Address::Unix(_) => None,
        };
        self.listened().iter().filter_map(host).collect::<Vec<_>>().join(" ")
    }

    /// The path of the first unix socket, if there is one.
    pub(crate) fn unix_socket(&self) -> String {
        let path = |address: &Address| match address {
            Address::Unix(path) => Some(path.display().to_string()),
            Address::Tcp(_) => None,
        };
        self.listened().iter().find_map(path).unwrap_or_default()
    }

    /// The first port; 0: there is none.
    pub fn port(&self) -> u16 {
        let port = |address: &Address| match address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        };
        self.listened().iter().find_map(port).unwrap_or(0)
    }
}

impl fmt::Debug for StopServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopServer")
    }
}
