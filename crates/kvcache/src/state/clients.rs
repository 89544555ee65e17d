//! Who is connected: what CLIENT shows and changes.

use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use proto::{Now, Peer};
use sys::{
    listen::Address,
    socket::{self, Handle},
};

use crate::commands::call::Refusal;
use crate::state::pause::Pause;
use crate::state::pause::Paused;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    all: Mutex<BTreeMap<u64, Arc<Profile>>>,
    next_id: AtomicU64,
    pub(crate) pause: Pause,
}

/// What others may know of a connection, and do to it.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    pub id: u64,
    pub connected_unix_ms: u64,
    pub peer: Option<Address>,
    pub local: Option<Address>,
    socket: Option<Handle>,
    /// Written once per batch of commands.
    pub last_unix_ms: AtomicU64,
    /// The last command's number in the table, and 1; 0: none yet.
    pub last_command: AtomicUsize,
    pub database: AtomicU8,
    /// 2 or 3.
    pub version: AtomicU8,
    /// Commands queued by MULTI; negative: there is no transaction.
    pub queued: AtomicI64,
    pub watched: AtomicUsize,
    /// CLIENT NO-EVICT and NO-TOUCH.
    pub no_evict: AtomicBool,
    pub no_touch: AtomicBool,
    /// To be closed as soon as it is looked at.
    killed: AtomicBool,
    texts: Mutex<Texts>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    pub name: String,
    pub library: String,
    pub library_version: String,
}

/// A connection's own entry among [`Clients`]; it leaves with it.
#[derive(Debug)]
pub(crate) struct Client {
    clients: Arc<Clients>,
    profile: Arc<Profile>,
}

impl Clients {
    /// A client that is not among all.
    pub(crate) fn nobody(self: &Arc<Self>) -> Client {
        Client { clients: Arc::clone(self), profile: Arc::default() }
    }

    pub(crate) fn enter(self: &Arc<Self>, peer: Peer<'_>, now: Now) -> Client {
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
        Client { clients: Arc::clone(self), profile }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Profile>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All profiles but of those that are being closed, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Profile>> {
        self.all().values().filter(|profile| !profile.killed.load(Relaxed)).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.all().len()
    }

    /// All that have ever come.
    pub(crate) fn entered(&self) -> u64 {
        self.next_id.load(Relaxed)
    }

    /// Commands wait.
    #[inline]
    pub(crate) fn are_paused(&self) -> bool {
        self.pause.what() != Paused::Nothing
    }

    /// Ends connections that have been idle since before `unix_ms`.
    pub(crate) fn kill_idle(&self, unix_ms: u64) {
        let idle = self.list().into_iter().filter(|profile| profile.last_unix_ms.load(Relaxed) < unix_ms);
        idle.for_each(|profile| profile.kill());
    }
}

impl Profile {
    pub(crate) fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: nothing more of it is answered. One that is idle costs nothing until then, since its socket
    /// is shut down from here and whoever drives it sees the end.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Relaxed);
        if let Some(socket) = self.socket {
            socket.shutdown(); // One that is gone already needs no end.
        }
    }

    /// The descriptor's number.
    pub(crate) fn descriptor(&self) -> i32 {
        self.socket.map_or(-1, Handle::number)
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
        self.profile.killed.load(Relaxed)
    }

    /// Its last command, by the number in the table.
    #[inline]
    pub(crate) fn ran(&self, number: usize) {
        self.profile.last_command.store(number + 1, Relaxed);
    }

    /// A batch of its commands has been looked at.
    #[inline]
    pub(crate) fn seen(&self, now: Now) {
        // Lossless for some 500 million years.
        self.profile.last_unix_ms.store(now.unix.as_millis() as u64, Relaxed);
    }

    /// An empty name takes the old one away.
    pub(crate) fn set_name(&self, name: &[u8]) -> Result<(), Refusal> {
        if !is_printable(name) {
            return Err(Refusal::new("ERR Client names cannot contain spaces, newlines or special characters."));
        }
        self.profile.texts().name = String::from_utf8_lossy(name).into_owned();
        Ok(())
    }
}

/// No spaces and no control characters.
pub(crate) fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.all().remove(&self.profile.id);
    }
}
