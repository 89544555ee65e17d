//! Settings that can be changed while the server runs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use store::PolicyKind;

use super::clients::Clients;

/// Settings that commands read and CONFIG SET writes.
#[derive(Debug)]
pub(crate) struct Settings {
    password: RwLock<Option<Arc<str>>>,
    /// Bytes for entries; `usize::MAX`: no limit.
    memory_max: AtomicUsize,
    policy: Mutex<PolicyKind>,
    /// Idle timeout in milliseconds; `u64::MAX`: there is none.
    idle_timeout_ms: AtomicU64,
    /// True once the timeout has been lowered: idle connections may have a later deadline than they should.
    has_shorter_idle_timeout: AtomicBool,
    /// Values of settings that have no effect, where they are not the defaults.
    pub(crate) ignored: Mutex<BTreeMap<&'static str, String>>,
    /// Set by DEBUG SET-ACTIVE-EXPIRE.
    pub(crate) is_expiring_actively: AtomicBool,
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
            idle_timeout_ms: AtomicU64::new(u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX)),
            has_shorter_idle_timeout: AtomicBool::new(false),
            ignored: Mutex::default(),
            is_expiring_actively: AtomicBool::new(true),
        };
        settings.set_password(password.unwrap_or_default());
        settings
    }

    /// Returns the password that AUTH compares with.
    pub(crate) fn password(&self) -> Option<Arc<str>> {
        self.password.read().clone()
    }

    /// Sets the password; an empty one lets everybody in.
    pub(crate) fn set_password(&self, password: &str) {
        let password = Some(password).filter(|password| !password.is_empty()).map(Arc::from);
        *self.password.write() = password;
    }

    /// Returns the bytes for entries, or `None` if there is no limit.
    pub(crate) fn memory_max(&self) -> Option<usize> {
        Some(self.memory_max.load(Relaxed)).filter(|&max| max != usize::MAX)
    }

    pub(crate) fn set_memory_max(&self, bytes: Option<usize>) {
        self.memory_max.store(bytes.unwrap_or(usize::MAX), Relaxed);
    }

    pub(crate) fn policy(&self) -> PolicyKind {
        *self.policy.lock()
    }

    pub(crate) fn set_policy(&self, policy: PolicyKind) {
        *self.policy.lock() = policy;
    }

    /// Returns the idle timeout, or `None` if there is none.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_timeout_ms.load(Relaxed)).filter(|&ms| ms != u64::MAX).map(Duration::from_millis)
    }

    pub(crate) fn set_idle_timeout(&self, timeout: Option<Duration>) {
        let ms = timeout.map_or(u64::MAX, |timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        if self.idle_timeout_ms.swap(ms, Relaxed) > ms {
            self.has_shorter_idle_timeout.store(true, Relaxed);
        }
    }

    /// Closes connections that have been idle for longer than a timeout that has been lowered.
    pub(crate) fn enforce_idle_timeout(&self, clients: &Clients, now_unix_ms: u64) {
        if !self.has_shorter_idle_timeout.load(Relaxed) {
            return;
        }
        if let Some(timeout) = self.idle_timeout() {
            let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            clients.kill_idle(now_unix_ms.saturating_sub(timeout_ms));
        }
    }
}
