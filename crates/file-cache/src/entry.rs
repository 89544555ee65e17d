//! A path, and what is kept of the file that it leads to.

use std::sync::atomic::{AtomicU64, Ordering};

use sys::beneath::Root;

use crate::{FileState, LastCheck, limits::Cost};

/// Cached form of a file.
pub trait Body: Send + Sync + 'static {
    /// State of the file that this was made from.
    fn state(&self) -> &FileState;

    /// True if the file at `relative` beneath `root`, and whatever else this was made from, is certain to be as it was.
    fn is_unchanged(&self, root: &Root, relative: &[u8]) -> bool {
        self.state().is_unchanged(|| root.stat(relative))
    }

    /// Memory that counts against the cache's bytes; must not change.
    fn memory_bytes(&self) -> usize;

    /// Open files that count against the cache's descriptors; must not change.
    fn descriptors(&self) -> usize;

    /// False once this is known to be wrong, however short ago the last check was. Called for each request.
    #[inline]
    fn is_intact(&self, now_ns: u64) -> bool {
        let _ = now_ns;
        true
    }

    /// Counts a request. The time of the last one is kept by the entry.
    #[inline]
    fn record_use(&self) {}
}

/// Entry of a [`PathCache`](crate::PathCache).
#[derive(Debug)]
pub struct PathEntry<B> {
    /// Normal path of the requests for it.
    path: Box<[u8]>,
    /// Path of the file beneath the root; `None` for a pinned entry.
    relative: Option<Box<[u8]>>,
    pub(crate) last_check: LastCheck,
    used_ns: AtomicU64,
    body: B,
}

impl<B: Body> PathEntry<B> {
    /// Entry for a file that was opened beneath a root which was checked at `checked_ns`, in nanoseconds since the epoch: it
    /// is no fresher than that.
    pub fn new(path: &[u8], relative: &[u8], body: B, checked_ns: u64) -> Self {
        Self { relative: Some(relative.into()), ..Self::pinned(path, body, checked_ns) }
    }

    /// Entry that stands for no file of the tree: it is always current, and never evicted.
    pub fn pinned(path: &[u8], body: B, now_ns: u64) -> Self {
        Self {
            path: path.into(),
            relative: None,
            last_check: LastCheck::new(now_ns),
            used_ns: AtomicU64::new(now_ns),
            body,
        }
    }

    /// Entry with another body for the same path: as old, and used as recently.
    pub(crate) fn with_body(&self, body: B) -> Self {
        Self {
            path: self.path.clone(),
            relative: self.relative.clone(),
            last_check: self.last_check.clone(),
            used_ns: AtomicU64::new(self.used_ns()),
            body,
        }
    }

    /// Normal path of the requests for it.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Path of the file beneath the root; `None` for a pinned entry.
    pub fn relative(&self) -> Option<&[u8]> {
        self.relative.as_deref()
    }

    pub fn body(&self) -> &B {
        &self.body
    }

    pub fn is_pinned(&self) -> bool {
        self.relative.is_none()
    }

    /// Time of the last use, in nanoseconds since the epoch.
    pub fn used_ns(&self) -> u64 {
        self.used_ns.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn record_use(&self, now_ns: u64) {
        // Read first: the clock is coarse, and a time that is there already must not make the line ours.
        if self.used_ns.load(Ordering::Relaxed) != now_ns {
            self.used_ns.store(now_ns, Ordering::Relaxed);
        }
        self.body.record_use();
    }

    pub(crate) fn cost(&self) -> Cost {
        let bookkeeping = size_of::<Self>() - size_of::<B>();
        let paths = self.path.len() + self.relative.as_deref().map_or(0, <[u8]>::len);
        Cost { bytes: bookkeeping + paths + self.body.memory_bytes(), descriptors: self.body.descriptors() }
    }
}
