//! `--store partitioned`: shared nothing. Each owner is a thread with a part of the shards; commands on one key travel
//! to its owner and come back as deferred replies.
//!
//! What a connection has sent in one go is handed over as one [`Parcel`]: every owner that has a part in it runs its
//! own commands, in order, and the last one to finish puts the replies together. So commands of one connection on keys
//! of one owner keep their order, as do all replies; commands on keys of two owners run at the same time. A command
//! that is not about one key waits until everything before it has been answered and then stops all owners by taking
//! their locks, which otherwise nobody else asks for.

use std::{
    io, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};

use proto::{BatchEntry, Flow, Now, Outbox, Promise, Step};
use store::{Pin, Scout as _, Store};
use wire::resp::{self, FastRequest, Version};

use crate::{
    commands::table::{self, Keys},
    connection::{Conn, Dialect},
    server::{Heard, KvServer},
    space::{Keyspace, stored_key},
};

/// Commands of one parcel; more than fill an outbox's high-water mark are left for the next.
const PARCEL_MAX: usize = 512;
/// Commands whose memory is asked for together.
const BATCH: usize = 16;

/// The threads that own the shards.
#[derive(Debug)]
pub(crate) struct Owners {
    /// `None` ends the thread.
    mail: Vec<Sender<Option<Arc<Parcel>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Commands on single keys, all from one connection.
#[derive(Debug)]
struct Parcel {
    bytes: Box<[u8]>,
    commands: Vec<Errand>,
    database: u8,
    version: Version,
    now: Now,
    /// By owner: its replies and where each of them ends.
    parts: Vec<Mutex<Part>>,
    /// Owners that have not finished.
    left: AtomicUsize,
    promise: Mutex<Option<Promise>>,
}

/// One command of a parcel.
#[derive(Clone, Copy, Debug)]
struct Errand {
    /// Where it ends; it begins where the one before it ends.
    end: usize,
    owner: usize,
    hash: u64,
}

/// One owner's replies.
#[derive(Debug, Default)]
struct Part {
    small: Vec<u8>,
    replies: Vec<Reply>,
}

#[derive(Debug)]
enum Reply {
    /// It ends here in `small`.
    Small(usize),
    /// It shares a value with the store.
    Large(Outbox),
}

impl Owners {
    /// One thread for every shard of the server's space.
    pub(crate) fn start<S: Store + 'static>(server: &Arc<KvServer<S>>) -> io::Result<Self> {
        let owners = server.space.shards();
        let (mut mail, mut threads) = (Vec::with_capacity(owners), Vec::with_capacity(owners));
        for owner in 0..owners {
            let (sender, inbox) = mpsc::channel();
            let server = Arc::clone(server);
            let name = format!("owner-{owner}");
            threads.push(thread::Builder::new().name(name).spawn(move || serve(&server, owner, &inbox))?);
            mail.push(sender);
        }
        Ok(Self { mail, threads: Mutex::new(threads) })
    }

    /// Answers one batch; see [`proto::Protocol::on_ready`].
    pub(crate) fn run<S: Store + 'static>(
        &self,
        server: &KvServer<S>,
        turns: &mut [BatchEntry<'_, Conn<S>>],
        now: Now,
    ) {
        let mut keys = Keyspace::new(&server.space, now);
        for turn in turns {
            turn.step = self.turn(server, turn, &mut keys, now);
            // The owners need the locks that a command may have taken.
            keys.release();
            turn.conn.looked(turn.input, &mut turn.step, turn.out, now);
        }
    }

    fn turn<S: Store + 'static>(
        &self,
        server: &KvServer<S>,
        turn: &mut BatchEntry<'_, Conn<S>>,
        keys: &mut Keyspace<'_, S>,
        now: Now,
    ) -> Step {
        let (input, mut step) = (turn.input, Step::open(0));
        while step.flow == Flow::Open && step.consumed < input.len() && !turn.out.is_full() {
            let begin = step.consumed;
            let (errands, end) = self.errands(server, turn.conn, &input[begin..]);
            if !errands.is_empty() {
                self.send(turn, errands, begin..begin + end, now);
                step.consumed += end;
                continue;
            }
            // Anything else sees what all commands before it have done.
            if turn.out.has_pending_replies() {
                break;
            }
            let one = server.one(turn.conn, &input[begin..], keys, now, turn.out);
            keys.release();
            step = Step { consumed: begin + one.consumed, ..one };
            if one.consumed == 0 {
                break;
            }
        }
        step
    }

    /// The commands on one key that `input` begins with, and where they end.
    fn errands<S: Store + 'static>(
        &self,
        server: &KvServer<S>,
        conn: &mut Conn<S>,
        input: &[u8],
    ) -> (Vec<Errand>, usize) {
        let (mut errands, mut end) = (Vec::new(), 0);
        let travels = matches!(conn.dialect, Dialect::Resp(_)) && conn.may_travel(server);
        while travels && end < input.len() && errands.len() < PARCEL_MAX {
            let rest = &input[end..];
            let usual = if end > 0 || !conn.is_mid_request() { usual(rest) } else { None };
            let Some((key, len)) = usual.or_else(|| other(server, conn, rest)) else { break };
            let hash = server.space.hash(&stored_key(conn.database, key));
            end += len;
            errands.push(Errand { end, owner: server.space.shard_of(hash), hash });
        }
        (errands, end)
    }

    fn send<S: Store>(
        &self,
        turn: &mut BatchEntry<'_, Conn<S>>,
        commands: Vec<Errand>,
        bytes: std::ops::Range<usize>,
        now: Now,
    ) {
        let mut wanted = vec![false; self.mail.len()];
        commands.iter().for_each(|errand| wanted[errand.owner] = true);
        let parcel = Arc::new(Parcel {
            bytes: turn.input[bytes].into(),
            commands,
            database: turn.conn.database,
            version: turn.conn.version,
            now,
            parts: self.mail.iter().map(|_| Mutex::default()).collect(),
            left: AtomicUsize::new(wanted.iter().filter(|&&wanted| wanted).count()),
            promise: Mutex::new(Some(turn.out.defer())),
        });
        for (owner, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            // An owner that is gone drops the parcel, and with it the promise: the connection closes.
            let _ = self.mail[owner].send(Some(Arc::clone(&parcel)));
        }
    }

    /// Ends the threads, once they have run everything that is under way.
    pub(crate) fn stop(&self) {
        for owner in &self.mail {
            let _ = owner.send(None); // One that is gone needs no telling.
        }
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }
}

/// Key and length of a GET or SET in its usual form.
#[inline]
fn usual(input: &[u8]) -> Option<(&[u8], usize)> {
    resp::parse_fast(input).map(|(command, len)| match command {
        FastRequest::Get { key } | FastRequest::Set { key, .. } => (key, len),
    })
}

/// Key and length of any other command on one key.
fn other<'i, S: Store + 'static>(
    server: &KvServer<S>,
    conn: &mut Conn<S>,
    input: &'i [u8],
) -> Option<(&'i [u8], usize)> {
    let Heard::Request(args, len) = server.hear(conn, input) else { return None };
    let command = &table::TABLE[table::find(args[0])?];
    let is_on_one_key = command.keys == Keys(1, 1, 1) && command.takes(args.len());
    is_on_one_key.then(|| (args[1], len))
}

// --- an owner's thread ------------------------------------------------------------------------

fn serve<S: Store + 'static>(server: &KvServer<S>, me: usize, inbox: &Receiver<Option<Arc<Parcel>>>) {
    let mut conn = Conn::of_nobody(server);
    while let Ok(Some(parcel)) = inbox.recv() {
        let part = run(server, me, &parcel, &mut conn);
        *lock(&parcel.parts[me]) = part;
        if parcel.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            parcel.deliver();
        }
    }
}

/// Runs the commands of a parcel that are on `me`'s keys.
fn run<S: Store + 'static>(server: &KvServer<S>, me: usize, parcel: &Parcel, conn: &mut Conn<S>) -> Part {
    let (mut part, mut out) = (Part::default(), Outbox::default());
    let mut keys = Keyspace::new(&server.space, parcel.now);
    (conn.database, conn.version) = (parcel.database, parcel.version);
    let mine: Vec<(usize, Errand)> = parcel.mine(me).collect();
    for batch in mine.chunks(BATCH) {
        let pin = Pin::new();
        batch.iter().for_each(|(_, errand)| server.space.scout(errand.hash).prefetch(errand.hash, &pin));
        for (_, errand) in batch {
            server.space.scout(errand.hash).prefetch_entry(errand.hash, &pin);
        }
        for &(begin, Errand { end, hash, .. }) in batch {
            keys.known_hash = Some(hash);
            // What a command does to the connection it came from, it does not do here: none on one key does anything.
            let _ = server.one(conn, &parcel.bytes[begin..end], &mut keys, parcel.now, &mut out);
            keys.known_hash = None; // An error may have come before the key.
            match out.is_inline() {
                true => {
                    part.small.extend_from_slice(out.inline());
                    out.inline().clear();
                    part.replies.push(Reply::Small(part.small.len()));
                }
                false => part.replies.push(Reply::Large(mem::take(&mut out))),
            }
        }
    }
    part
}

impl Parcel {
    /// An owner's commands, and where each begins.
    fn mine(&self, me: usize) -> impl Iterator<Item = (usize, Errand)> {
        let begins = std::iter::once(0).chain(self.commands.iter().map(|errand| errand.end));
        begins.zip(self.commands.iter().copied()).filter(move |(_, errand)| errand.owner == me)
    }

    /// All replies, in the order of the commands.
    fn deliver(&self) {
        let mut answer = Outbox::default();
        let mut parts: Vec<_> = self.parts.iter().map(|part| mem::take(&mut *lock(part))).collect();
        let mut parts: Vec<_> = parts.iter_mut().map(|part| (&part.small, 0, part.replies.drain(..))).collect();
        for errand in &self.commands {
            let (small, at, replies) = &mut parts[errand.owner];
            match replies.next() {
                Some(Reply::Small(end)) => {
                    answer.inline().extend_from_slice(&small[*at..end]);
                    *at = end;
                }
                Some(Reply::Large(reply)) => answer.push_outbox(reply),
                None => return, // An owner has lost its way: the promise breaks, and the connection closes.
            }
        }
        if let Some(promise) = lock(&self.promise).take() {
            promise.fulfil(answer);
        }
    }
}

/// Nothing under these locks can be left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
