//! MULTI, EXEC and the watched keys.

use std::{mem, sync::Arc};

use proto::Flow;
use store::Store;

use super::{
    Call, Outcome, Refusal,
    table::{Flags, TABLE},
};
use crate::reply::Reply;
use crate::state::space::Space;
use crate::state::space::stored_key;

/// What a connection has queued, and what it watches.
#[derive(Debug)]
pub(crate) struct Transaction<S: Store> {
    space: Arc<Space<S>>,
    open: bool,
    /// A command could not be queued: EXEC will refuse.
    spoiled: bool,
    queue: Vec<Queued>,
    queued_bytes: usize,
    watches: Vec<Watch>,
}

#[derive(Debug)]
struct Queued {
    number: usize,
    args: Vec<Box<[u8]>>,
}

#[derive(Debug)]
struct Watch {
    hash: u64,
    /// As it is stored.
    key: Box<[u8]>,
    since: u64,
}

/// Commands that a transaction does not queue.
pub(super) fn is_immediate(name: &str) -> bool {
    matches!(name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

impl<S: Store> Transaction<S> {
    pub(crate) fn new(space: &Arc<Space<S>>) -> Self {
        Self {
            space: Arc::clone(space),
            open: false,
            spoiled: false,
            queue: Vec::new(),
            queued_bytes: 0,
            watches: Vec::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn spoil(&mut self) {
        self.spoiled = true;
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// EXEC would change something.
    pub(crate) fn writes(&self) -> bool {
        self.queue.iter().any(|queued| TABLE[queued.number].flags.has(Flags::WRITE))
    }

    pub(crate) fn watched(&self) -> usize {
        self.watches.len()
    }
}

impl<S: Store> Drop for Transaction<S> {
    fn drop(&mut self) {
        for watch in mem::take(&mut self.watches) {
            self.space.lock(self.space.shard_of(watch.hash)).unwatch(watch.hash, watch.since);
        }
    }
}

impl<S: Store> Call<'_, '_, S> {
    pub(super) fn queue(&mut self, number: usize) {
        let bytes: usize = self.args.iter().map(|arg| arg.len()).sum();
        let bytes_max = self.server.limits.bulk_bytes_max;
        let transaction = self.conn.transaction(&self.server.space);
        if transaction.spoiled {
            // EXEC will refuse: what would be the use of keeping it?
            return self.reply.simple("QUEUED");
        }
        transaction.queued_bytes += bytes;
        if transaction.queued_bytes > bytes_max {
            transaction.spoil();
            return self.refuse(&Refusal::new("ERR the transaction is larger than the longest request"));
        }
        transaction.queue.push(Queued { number, args: self.args.iter().map(|&arg| arg.into()).collect() });
        self.reply.simple("QUEUED");
    }
}

pub(super) fn multi<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.conn.is_in_transaction() {
        return Err(Refusal::new("ERR MULTI calls can not be nested"));
    }
    call.conn.transaction(&call.server.space).open = true;
    call.reply.ok();
    Ok(())
}

pub(super) fn discard<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if !call.conn.is_in_transaction() {
        return Err(Refusal::new("ERR DISCARD without MULTI"));
    }
    call.end_transaction();
    call.reply.ok();
    Ok(())
}

pub(super) fn watch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.conn.is_in_transaction() {
        return Err(Refusal::new("ERR WATCH inside MULTI is not allowed"));
    }
    for &key in &call.args[1..] {
        let key = stored_key(call.keys.database, key);
        let hash = call.server.space.hash(&key);
        let now = call.keys.now;
        let cache = call.keys.cache(hash);
        // What has expired already must not count as a change later.
        cache.peek(hash, &key, now);
        let since = cache.watch(hash);
        call.conn.transaction(&call.server.space).watches.push(Watch { hash, key: (*key).into(), since });
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn unwatch<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if call.conn.is_in_transaction() {
        // Of no use inside a transaction, where EXEC is what decides, and no error.
        call.reply.ok();
        return Ok(());
    }
    call.end_transaction();
    call.reply.ok();
    Ok(())
}

pub(super) fn exec<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    if !call.conn.is_in_transaction() {
        return Err(Refusal::new("ERR EXEC without MULTI"));
    }
    call.hold_all();
    let transaction = call.conn.transaction(&call.server.space);
    let (queue, spoiled) = (mem::take(&mut transaction.queue), transaction.spoiled);
    if call.end_transaction() && !spoiled {
        call.reply.null_array();
        return Ok(());
    }
    if spoiled {
        return Err(Refusal::new("EXECABORT Transaction discarded because of previous errors."));
    }
    call.reply.array(queue.len());
    for Queued { number, args } in &queue {
        let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
        let mut inner = Call {
            server: call.server,
            conn: &mut *call.conn,
            keys: &mut *call.keys,
            args: &args,
            now: call.now,
            reply: Reply { out: &mut *call.reply.out, version: call.reply.version },
            flow: Flow::Open,
        };
        if let Err(refusal) = inner.run(*number) {
            inner.refuse(&refusal);
        }
        let (flow, version) = (inner.flow, inner.reply.version);
        call.reply.version = version;
        if flow != Flow::Open {
            call.flow = flow;
        }
    }
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// Forgets queue and watches. True: a watched key has changed.
    pub(super) fn end_transaction(&mut self) -> bool {
        let Some(mut transaction) = self.conn.take_transaction() else { return false };
        let now = self.keys.now;
        let mut changed = false;
        for Watch { hash, key, since } in mem::take(&mut transaction.watches) {
            let cache = self.keys.cache(hash);
            // To find out whether it has expired meanwhile.
            cache.peek(hash, &key, now);
            changed |= cache.unwatch(hash, since);
        }
        changed
    }
}
