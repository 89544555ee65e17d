//! Listings of one host as responses: read and rendered by the workers, kept for a moment, and limited in number and memory.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use proto::{Outbox, Promise};
use service::{Budget, Reservation};
use sha2::{Digest, Sha256};
use sys::beneath::{Entries, Metadata, OpenError, Root};
use wire::http1::{PreparedResponse, Status, conditional::Validators, date::format_date};

use super::{Listing, View, html, order::Format, seconds};
use crate::{
    NotFound,
    waiting::{Outcome, Slot},
    workers::Workers,
};

/// Number of entries that are listed. More are said to be there.
const ENTRIES_MAX: usize = 250_000;
/// Memory for rendered listings of all hosts, cached ones and those that are being sent, in bytes.
const BYTES_MAX: u64 = 256 << 20;
/// Memory for the cached ones of one host, in bytes.
const CACHED_BYTES_MAX: usize = 32 << 20;
/// Number of cached listings, and of those that are being rendered, of one host.
const CACHED_MAX: usize = 256;
const RENDERING_MAX: usize = 16;
/// Time for which a listing is sent without a look at its directory.
const UNCHECKED: Duration = Duration::from_secs(1);
/// Time for which it is sent while its directory has not changed: files in it may have.
const FRESH: Duration = Duration::from_secs(5);

static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new(BYTES_MAX));

/// Listing that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Page {
    /// Head of the 200.
    pub(crate) ok: PreparedResponse,
    /// 304.
    pub(crate) not_modified: PreparedResponse,
    pub(crate) body: Bytes,
    etag: String,
    /// Last modification, in seconds since the epoch.
    modified: u64,
}

/// Memory of a page, and its share of the budget for as long as somebody sends it.
struct Charged {
    bytes: Vec<u8>,
    _share: Reservation,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Directory to list, and how.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Normal path, with the slash at its end.
    pub(crate) path: Vec<u8>,
    pub(crate) view: View,
}

/// Way to read a directory, by the rules of its host.
pub(crate) trait Reader: Send + 'static {
    /// Reads at most `entries_max` entries.
    ///
    /// # Errors
    /// See [`OpenError`].
    fn read(&self, relative: &[u8], entries_max: usize) -> Result<Entries, OpenError>;

    /// Returns the configured fields of the responses.
    fn fields(&self) -> Vec<u8>;
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Listings(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    cached: HashMap<Key, Cached>,
    cached_bytes: usize,
    /// Those that wait for what is being rendered.
    rendering: HashMap<Key, Vec<(Promise, Arc<Slot>)>>,
}

#[derive(Debug)]
struct Cached {
    page: Arc<Page>,
    directory: Metadata,
    made: Instant,
    checked: Instant,
}

/// Answer to a request for a listing.
#[derive(Debug)]
pub(crate) enum Answer {
    Ready(Arc<Page>),
    /// The slot will have it when the promise is fulfilled.
    Deferred(Arc<Slot>),
    Overloaded,
}

impl Page {
    /// Renders a listing as it is at `unix` since the epoch; `None` where there is no memory left for it.
    fn new(key: &Key, mut read: Entries, configured: &[u8], unix: Duration) -> Option<Self> {
        key.view.sort(&mut read.entries);
        let newest = read.entries.iter().map(|entry| entry.modified_ns).max();
        // What was removed has changed the directory, what was written only itself.
        let modified = seconds(newest.unwrap_or(0).max(read.metadata.modified_ns)).min(unix.as_secs());
        let listing = Listing { path: key.path.clone(), entries: read.entries, is_truncated: read.is_truncated };
        let bytes = listing.render(key.view);
        drop(listing);
        let share = BUDGET.reserve(bytes.len() as u64)?;
        let etag = format!("\"{}\"", hex(&Sha256::digest(&bytes)[..12]));
        let fields = |status| {
            PreparedResponse::builder(status)
                .field("Last-Modified", format_date(modified))
                .field("ETag", &etag)
                .field("Cache-Control", "no-cache")
                .field("Vary", "Accept")
                .lines(configured)
        };
        let ok = fields(Status::Ok)
            .field("Content-Type", key.view.format.media_type())
            .field("Content-Length", bytes.len().to_string())
            .field("X-Content-Type-Options", "nosniff");
        let ok = match key.view.format {
            Format::Html => ok
                .field("Content-Security-Policy", html::CONTENT_SECURITY_POLICY.as_str())
                .field("Referrer-Policy", "same-origin"),
            Format::Json => ok,
        };
        let (ok, not_modified) = (ok.body(b""), fields(Status::NotModified).body(b""));
        Some(Self { ok, not_modified, body: Bytes::from_owner(Charged { bytes, _share: share }), etag, modified })
    }

    pub(crate) fn validators(&self) -> Validators<'_> {
        // Files in it may have changed without a trace in its own times: only the same date is certain.
        Validators { etag: self.etag.as_bytes(), modified: self.modified, changed: u64::MAX }
    }
}

impl Listings {
    /// Finds a listing in the cache, or has it rendered. `root` tells whether a cached one is still true; `reader` reads the
    /// directory on another thread.
    pub(crate) fn get(
        &self,
        key: Key,
        root: &Root,
        reader: impl Reader,
        (now, unix): (Instant, Duration),
        out: &mut Outbox,
    ) -> Answer {
        let mut state = self.0.lock();
        if let Some(page) = state.find(&key, root, now) {
            return Answer::Ready(page);
        }
        let slot = Arc::new(Slot::default());
        if let Some(waiting) = state.rendering.get_mut(&key) {
            waiting.push((out.defer(), Arc::clone(&slot)));
            return Answer::Deferred(slot);
        }
        if state.rendering.len() >= RENDERING_MAX {
            return Answer::Overloaded;
        }
        state.rendering.insert(key.clone(), vec![(out.defer(), Arc::clone(&slot))]);
        drop(state);
        let rendering = Rendering { state: Arc::clone(&self.0), key, is_done: false };
        // A job that is refused is dropped, which answers those that wait.
        let _ = Workers::shared().submit(move || rendering.finish(&reader, now, unix));
        Answer::Deferred(slot)
    }
}

impl State {
    fn find(&mut self, key: &Key, root: &Root, now: Instant) -> Option<Arc<Page>> {
        let cached = self.cached.get_mut(key)?;
        if now.saturating_duration_since(cached.checked) >= UNCHECKED {
            let is_fresh = now.saturating_duration_since(cached.made) < FRESH;
            if !is_fresh || root.stat(relative(&key.path)) != Ok(cached.directory) {
                self.remove(&key.clone());
                return None;
            }
            cached.checked = now;
        }
        Some(Arc::clone(&cached.page))
    }

    fn remove(&mut self, key: &Key) {
        if let Some(removed) = self.cached.remove(key) {
            self.cached_bytes -= removed.page.body.len();
        }
    }

    fn insert(&mut self, key: Key, cached: Cached) {
        let bytes = cached.page.body.len();
        if bytes > CACHED_BYTES_MAX {
            return;
        }
        self.remove(&key);
        while self.cached.len() >= CACHED_MAX || self.cached_bytes + bytes > CACHED_BYTES_MAX {
            let Some(oldest) = self.cached.iter().min_by_key(|(_, cached)| cached.made).map(|(key, _)| key.clone())
            else {
                break;
            };
            self.remove(&oldest);
        }
        self.cached_bytes += bytes;
        self.cached.insert(key, cached);
    }
}

/// Listing that is being rendered. Where it is dropped unfinished, those that wait for it get a 503.
struct Rendering {
    state: Arc<Mutex<State>>,
    key: Key,
    is_done: bool,
}

impl Rendering {
    /// Renders the listing for all who wait for it.
    fn finish(mut self, reader: &impl Reader, now: Instant, unix: Duration) {
        let rendered = reader.read(relative(&self.key.path), ENTRIES_MAX).map_err(NotFound::from).and_then(|read| {
            let directory = read.metadata;
            let page = Page::new(&self.key, read, &reader.fields(), unix)
                .ok_or(NotFound::Status(Status::ServiceUnavailable))?;
            Ok((Arc::new(page), directory))
        });
        if let Ok((page, directory)) = &rendered
            && directory.is_settled(unix)
        {
            let page = Arc::clone(page);
            self.state.lock().insert(self.key.clone(), Cached { page, directory: *directory, made: now, checked: now });
        }
        self.answer(&rendered.map(|(page, _)| page));
    }

    fn answer(&mut self, outcome: &Result<Arc<Page>, NotFound>) {
        self.is_done = true;
        let waiting = self.state.lock().rendering.remove(&self.key).unwrap_or_default();
        for (promise, slot) in waiting {
            slot.set(Outcome::Listing(outcome.clone()));
            promise.fulfil(Outbox::default());
        }
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.answer(&Err(NotFound::Status(Status::ServiceUnavailable)));
    }
}

/// Returns the path beneath the root of a directory with this normal path.
pub(crate) fn relative(path: &[u8]) -> &[u8] {
    if path.len() <= 1 { b"." } else { &path[1..path.len() - 1] }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
