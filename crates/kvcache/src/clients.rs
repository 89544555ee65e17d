//! Who is connected: what CLIENT shows and changes.

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use proto::{Now, Peer};
use sys::{listen::Address, socket};

use crate::commands::Refusal;

/// All connections.
#[derive(Debug, Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Profile>>>,
    next_id: AtomicU64,
    paused: AtomicBool,
}

/// What others may know of a connection.
#[derive(Debug)]
pub struct Profile {
    pub id: u64,
    pub connected_unix_ms: u64,
    pub peer: Option<Address>,
    pub local: Option<Address>,
    /// Written once per batch of commands.
    pub last_unix_ms: AtomicU64,
    pub commands: AtomicU64,
    /// To be closed as soon as it is looked at.
    pub killed: AtomicBool,
    texts: Mutex<Texts>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    pub name: String,
    pub library: String,
    pub library_version: String,
}

/// A connection's own entry among [`Clients`]; it leaves with it.
#[derive(Debug)]
pub struct Client {
    clients: Arc<Clients>,
    profile: Arc<Profile>,
}

impl Clients {
    /// A client that is not among all.
    pub(crate) fn nobody(self: &Arc<Self>) -> Client {
        let profile = Profile {
            id: 0,
            connected_unix_ms: 0,
            peer: None,
            local: None,
            last_unix_ms: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            texts: Mutex::default(),
        };
        Client { clients: Arc::clone(self), profile: Arc::new(profile) }
    }

    pub(crate) fn enter(self: &Arc<Self>, peer: Peer<'_>, now: Now) -> Client {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let unix_ms = u64::try_from(now.unix.as_millis()).unwrap_or(u64::MAX);
        let profile = Arc::new(Profile {
            id,
            connected_unix_ms: unix_ms,
            peer: socket::peer(peer.as_fd()).ok(),
            local: socket::local(peer.as_fd()).ok(),
            last_unix_ms: AtomicU64::new(unix_ms),
            commands: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            texts: Mutex::default(),
        });
        self.all().insert(id, Arc::clone(&profile));
        Client { clients: Arc::clone(self), profile }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Profile>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All profiles, oldest first.
    pub fn list(&self) -> Vec<Arc<Profile>> {
        self.all().values().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.all().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Commands wait.
    #[inline]
    pub(crate) fn are_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }
}

impl Profile {
    pub fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    pub(crate) fn id(&self) -> u64 {
        self.profile.id
    }

    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.profile.killed.load(Ordering::Relaxed)
    }

    /// An empty name takes the old one away.
    pub(crate) fn set_name(&self, name: &[u8]) -> Result<(), Refusal> {
        let is_printable = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
        if !is_printable {
            return Err(Refusal::new("ERR Client names cannot contain spaces, newlines or special characters."));
        }
        self.profile.texts().name = String::from_utf8_lossy(name).into_owned();
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.all().remove(&self.profile.id);
    }
}
