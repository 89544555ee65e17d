//! Commands that a connection has queued by MULTI, and the keys that it watches.

use std::{mem, sync::Arc};

use store::Store;

use super::space::{Keyspace, Space, stored_key};

/// Queue and watched keys of one connection.
#[derive(Debug)]
pub(crate) struct Transaction<S: Store> {
    space: Arc<Space<S>>,
    is_open: bool,
    /// A command could not be queued: EXEC will refuse.
    is_aborted: bool,
    queue: Vec<QueuedCommand>,
    queued_bytes: usize,
    has_writes: bool,
    watches: Vec<Watch>,
}

/// One command between MULTI and EXEC.
#[derive(Debug)]
pub(crate) struct QueuedCommand {
    pub(crate) number: usize,
    pub(crate) args: Vec<Box<[u8]>>,
}

/// One watched key.
#[derive(Debug)]
struct Watch {
    hash: u64,
    /// Key as it is stored.
    key: Box<[u8]>,
    since: u64,
}

impl<S: Store> Transaction<S> {
    pub(super) fn new(space: &Arc<Space<S>>) -> Self {
        Self {
            space: Arc::clone(space),
            is_open: false,
            is_aborted: false,
            queue: Vec::new(),
            queued_bytes: 0,
            has_writes: false,
            watches: Vec::new(),
        }
    }

    /// Begins to queue commands.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn abort(&mut self) {
        self.is_aborted = true;
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Queues a command. False, and the transaction is aborted, if it becomes longer than `bytes_max`.
    pub(crate) fn queue(&mut self, number: usize, is_write: bool, args: &[&[u8]], bytes_max: usize) -> bool {
        if self.is_aborted {
            return true; // EXEC will refuse, so nothing needs to be kept.
        }
        let overhead = size_of::<QueuedCommand>() + args.len() * size_of::<Box<[u8]>>();
        self.queued_bytes += overhead + args.iter().map(|arg| arg.len()).sum::<usize>();
        if self.queued_bytes > bytes_max {
            self.abort();
            return false;
        }
        self.has_writes |= is_write;
        self.queue.push(QueuedCommand { number, args: args.iter().map(|&arg| arg.into()).collect() });
        true
    }

    /// Takes the queued commands out, for EXEC.
    pub(crate) fn take_queue(&mut self) -> Vec<QueuedCommand> {
        self.queued_bytes = 0;
        mem::take(&mut self.queue)
    }

    /// True if a command of this kind is queued.
    pub(crate) fn has_queued(&self, is_wanted: impl Fn(usize) -> bool) -> bool {
        self.queue.iter().any(|command| is_wanted(command.number))
    }

    /// Returns the queued commands.
    pub(crate) fn queue_so_far(&self) -> &[QueuedCommand] {
        &self.queue
    }

    /// Bytes of queued commands.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Number of queued commands.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// True if EXEC would change something.
    pub(crate) fn has_writes(&self) -> bool {
        self.has_writes
    }

    /// Number of watched keys.
    pub(crate) fn watched(&self) -> usize {
        self.watches.len()
    }

    /// Watches a key of the selected database.
    pub(crate) fn watch(&mut self, keys: &mut Keyspace<'_, S>, key: &[u8]) {
        let key = stored_key(keys.database, key);
        let (hash, now) = (self.space.hash(&key), keys.now);
        let cache = keys.cache(hash);
        // A key that has expired already must not count as changed later.
        cache.peek(hash, &key, now);
        let since = cache.watch(hash);
        self.watches.push(Watch { hash, key: (*key).into(), since });
    }

    /// Forgets the watched keys. True if one of them has changed.
    pub(crate) fn unwatch(&mut self, keys: &mut Keyspace<'_, S>) -> bool {
        let now = keys.now;
        let mut is_changed = false;
        for Watch { hash, key, since } in mem::take(&mut self.watches) {
            let cache = keys.cache(hash);
            // It may have expired meanwhile.
            cache.peek(hash, &key, now);
            is_changed |= cache.unwatch(hash, since);
        }
        is_changed
    }
}

impl<S: Store> Drop for Transaction<S> {
    fn drop(&mut self) {
        for watch in mem::take(&mut self.watches) {
            self.space.unwatch_soon(watch.hash, watch.since);
        }
    }
}
