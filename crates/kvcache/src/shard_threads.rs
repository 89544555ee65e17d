//! `--store partitioned`: shared nothing. Each shard is owned by one thread; commands on one key are routed to its thread
//! and come back as deferred replies.
//!
//! The commands that a connection has sent in one go are handed over as one [`CommandBatch`]: every thread that has a
//! part in it runs its own commands, in order, and the last one to finish puts the replies together. So commands of one
//! connection on keys of one thread keep their order, as do all replies; commands on keys of two threads run at the same
//! time. A command that is not on exactly one key waits until everything before it has been answered, and then stops all
//! threads by taking their locks, which otherwise no other thread asks for.

use std::{
    io, mem,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use proto::{BatchEntry, Flow, Now, Outbox, Promise, Step};
use store::{Pin, Scout as _, Store};
use wire::resp::{self, FastRequest, Version};

use crate::{
    command_table::{self, Keys, TABLE},
    connection::{Conn, Dialect},
    protocol::resp::{ParsedCommand, parse_next},
    state::{Keyspace, ServerState, stored_key},
};

/// Commands of one batch; more than fill an outbox's high-water mark are left for the next.
const BATCH_MAX: usize = 512;
/// Commands whose memory is prefetched together.
const PREFETCH_GROUP: usize = 16;

/// Threads that own the shards.
#[derive(Debug)]
pub(crate) struct ShardThreads {
    /// Queue of each thread; `None` ends it.
    queues: Vec<Sender<Option<Arc<CommandBatch>>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Commands on single keys, all from one connection.
#[derive(Debug)]
struct CommandBatch {
    bytes: Box<[u8]>,
    commands: Vec<RoutedCommand>,
    database: u8,
    version: Version,
    now: Now,
    /// Replies of each thread.
    parts: Vec<Mutex<Replies>>,
    /// Number of threads that have not finished.
    unfinished: AtomicUsize,
    promise: Mutex<Option<Promise>>,
}

/// One command of a batch.
#[derive(Clone, Copy, Debug)]
struct RoutedCommand {
    /// End of the command in the bytes; it begins where the one before it ends.
    end: usize,
    /// Number of the thread that runs it.
    thread: usize,
    hash: u64,
}

/// Replies of one thread, in the order of its commands.
#[derive(Debug, Default)]
struct Replies {
    small: Vec<u8>,
    replies: Vec<ReplyPart>,
}

#[derive(Debug)]
enum ReplyPart {
    /// End of the reply in `small`.
    Small(usize),
    /// A reply that shares a value with the store.
    Large(Outbox),
}

impl ShardThreads {
    /// Starts one thread for every shard.
    pub(crate) fn start<S: Store + 'static>(state: &Arc<ServerState<S>>) -> io::Result<Self> {
        let shards = state.space.shards();
        let (mut queues, mut threads) = (Vec::with_capacity(shards), Vec::with_capacity(shards));
        for shard in 0..shards {
            let (sender, queue) = mpsc::channel();
            let state = Arc::clone(state);
            let name = format!("shard-{shard}");
            threads.push(thread::Builder::new().name(name).spawn(move || run_thread(&state, shard, &queue))?);
            queues.push(sender);
        }
        Ok(Self { queues, threads: Mutex::new(threads) })
    }

    /// Answers one batch of connections; see [`proto::Protocol::on_ready`].
    pub(crate) fn run_batch<S: Store + 'static>(
        &self,
        state: &ServerState<S>,
        batch: &mut [BatchEntry<'_, Conn<S>>],
        now: Now,
    ) {
        // Held before it is read who may run commands; see `Pin::synchronize`.
        let _pin = Pin::new();
        let mut keys = Keyspace::new(&state.space, now);
        for entry in batch {
            entry.step = self.read_input(state, entry, &mut keys, now);
            // The threads need the locks that a command may have taken.
            keys.unlock();
            entry.conn.after_input(entry.input, &mut entry.step, entry.out, now);
            entry.conn.count_buffers(entry.out);
        }
    }

    /// Routes or answers the requests of one connection.
    fn read_input<S: Store + 'static>(
        &self,
        state: &ServerState<S>,
        entry: &mut BatchEntry<'_, Conn<S>>,
        keys: &mut Keyspace<'_, S>,
        now: Now,
    ) -> Step {
        let (input, mut step) = (entry.input, Step::open(0));
        while step.flow == Flow::Open && step.consumed < input.len() && !entry.out.is_full() {
            let begin = step.consumed;
            let (commands, end) = route(state, entry.conn, &input[begin..]);
            if !commands.is_empty() {
                self.send(entry, commands, begin..begin + end, now);
                step.consumed += end;
                continue;
            }
            // Anything else sees the effects of all commands before it.
            if entry.out.has_pending_replies() {
                break;
            }
            let answered = entry.conn.handle_request(state, &input[begin..], keys, now, entry.out);
            keys.unlock();
            step = Step { consumed: begin + answered.consumed, ..answered };
            if answered.consumed == 0 {
                break;
            }
        }
        step
    }

    /// Sends commands, which are these bytes of the connection's input, to their threads.
    fn send<S: Store>(
        &self,
        entry: &mut BatchEntry<'_, Conn<S>>,
        commands: Vec<RoutedCommand>,
        bytes: Range<usize>,
        now: Now,
    ) {
        let mut is_needed = vec![false; self.queues.len()];
        commands.iter().for_each(|command| is_needed[command.thread] = true);
        let batch = Arc::new(CommandBatch {
            bytes: entry.input[bytes].into(),
            commands,
            database: entry.conn.client.database,
            version: entry.conn.client.version,
            now,
            parts: self.queues.iter().map(|_| Mutex::default()).collect(),
            unfinished: AtomicUsize::new(is_needed.iter().filter(|&&is_needed| is_needed).count()),
            promise: Mutex::new(Some(entry.out.defer())),
        });
        for (queue, _) in self.queues.iter().zip(is_needed).filter(|(_, is_needed)| *is_needed) {
            // A thread that has ended drops the batch, and with it the promise: the connection closes.
            let _ = queue.send(Some(Arc::clone(&batch)));
        }
    }

    /// Waits until everything that is under way has been run.
    pub(crate) fn finish(&self) {
        let batch = Arc::new(CommandBatch {
            bytes: Box::default(),
            commands: Vec::new(),
            database: 0,
            version: Version::Resp2,
            now: Now { instant: Instant::now(), unix: Duration::ZERO },
            parts: self.queues.iter().map(|_| Mutex::default()).collect(),
            unfinished: AtomicUsize::new(self.queues.len()),
            promise: Mutex::default(),
        });
        let count = self.queues.iter().filter(|queue| queue.send(Some(Arc::clone(&batch))).is_ok()).count();
        let ended = self.queues.len() - count;
        while batch.unfinished.load(Ordering::Acquire) > ended {
            thread::yield_now();
        }
    }

    /// Ends the threads, once they have run everything that is under way.
    pub(crate) fn stop(&self) {
        for queue in &self.queues {
            let _ = queue.send(None); // Fails for a thread that has ended.
        }
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join(); // A panic there has been reported by the thread itself.
        }
    }
}

/// Finds the commands on one key that `input` begins with. Returns them and their length.
fn route<S: Store + 'static>(state: &ServerState<S>, conn: &mut Conn<S>, input: &[u8]) -> (Vec<RoutedCommand>, usize) {
    let (mut commands, mut end) = (Vec::new(), 0);
    let can_be_routed = conn.can_be_routed(state);
    while can_be_routed && end < input.len() && commands.len() < BATCH_MAX {
        let rest = &input[end..];
        let fast = if end > 0 || !conn.is_mid_request() { fast_path(rest) } else { None };
        let Some((key, len)) = fast.or_else(|| any_command(state, conn, rest)) else { break };
        if state.info.slot_map.as_ref().is_some_and(|map| !map.has_key(key)) {
            break; // It is refused where it came in.
        }
        let hash = state.space.hash(&stored_key(conn.client.database, key));
        end += len;
        commands.push(RoutedCommand { end, thread: state.space.shard_of(hash), hash });
    }
    (commands, end)
}

/// Returns the key and the length of a GET or SET in its usual form.
#[inline]
fn fast_path(input: &[u8]) -> Option<(&[u8], usize)> {
    resp::parse_fast(input).map(|(command, len)| match command {
        FastRequest::Get { key } | FastRequest::Set { key, .. } => (key, len),
    })
}

/// Returns the key and the length of any command on one key.
fn any_command<'i, S: Store + 'static>(
    state: &ServerState<S>,
    conn: &mut Conn<S>,
    input: &'i [u8],
) -> Option<(&'i [u8], usize)> {
    let limits = state.limits_for(conn.client.is_authenticated);
    let Dialect::Resp(parser) = &mut conn.dialect else { return None };
    let ParsedCommand::Request(args, len) = parse_next(parser, limits, input) else { return None };
    let command = &TABLE[command_table::find(args[0])?];
    let is_on_one_key =
        command.keys == Keys(1, 1, 1) && command.key_count_at().is_none() && command.has_arity(args.len());
    is_on_one_key.then(|| (args[1], len))
}

// --- one thread -------------------------------------------------------------------------------

/// Runs the thread that owns shard `number`.
fn run_thread<S: Store + 'static>(state: &ServerState<S>, number: usize, queue: &Receiver<Option<Arc<CommandBatch>>>) {
    let mut conn = Conn::detached(state);
    while let Ok(Some(batch)) = queue.recv() {
        let replies = run_commands(state, number, &batch, &mut conn);
        *batch.parts[number].lock() = replies;
        if batch.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            batch.deliver();
        }
    }
}

/// Runs the commands of a batch that belong to one thread.
fn run_commands<S: Store + 'static>(
    state: &ServerState<S>,
    thread: usize,
    batch: &CommandBatch,
    conn: &mut Conn<S>,
) -> Replies {
    let (mut replies, mut out) = (Replies::default(), Outbox::default());
    let mut keys = Keyspace::new(&state.space, batch.now);
    (conn.client.database, conn.client.version) = (batch.database, batch.version);
    let commands: Vec<(usize, RoutedCommand)> = batch.commands_of(thread).collect();
    for group in commands.chunks(PREFETCH_GROUP) {
        let pin = Pin::new();
        group.iter().for_each(|(_, command)| state.space.scout(command.hash).prefetch(command.hash, &pin));
        for (_, command) in group {
            state.space.scout(command.hash).prefetch_entry(command.hash, &pin);
        }
        for &(begin, RoutedCommand { end, hash, .. }) in group {
            keys.known_hash = Some(hash);
            // The step is that of a detached connection: no command on one key changes its own connection.
            let _ = conn.handle_request(state, &batch.bytes[begin..end], &mut keys, batch.now, &mut out);
            keys.known_hash = None; // An error may have come before the key.
            match out.is_inline() {
                true => {
                    replies.small.extend_from_slice(out.inline());
                    out.inline().clear();
                    replies.replies.push(ReplyPart::Small(replies.small.len()));
                }
                false => replies.replies.push(ReplyPart::Large(mem::take(&mut out))),
            }
        }
    }
    replies
}

impl CommandBatch {
    /// Returns the commands of one thread, each with the position where it begins.
    fn commands_of(&self, thread: usize) -> impl Iterator<Item = (usize, RoutedCommand)> {
        let begins = std::iter::once(0).chain(self.commands.iter().map(|command| command.end));
        begins.zip(self.commands.iter().copied()).filter(move |(_, command)| command.thread == thread)
    }

    /// Puts all replies together, in the order of the commands, and fulfils the promise.
    fn deliver(&self) {
        let mut answer = Outbox::default();
        let mut parts: Vec<_> = self.parts.iter().map(|part| mem::take(&mut *part.lock())).collect();
        let mut parts: Vec<_> = parts.iter_mut().map(|part| (&part.small, 0, part.replies.drain(..))).collect();
        for command in &self.commands {
            let (small, at, replies) = &mut parts[command.thread];
            match replies.next() {
                Some(ReplyPart::Small(end)) => {
                    answer.inline().extend_from_slice(&small[*at..end]);
                    *at = end;
                }
                Some(ReplyPart::Large(reply)) => answer.push_outbox(reply),
                None => return, // A reply is missing: the promise is dropped, and the connection closes.
            }
        }
        if let Some(promise) = self.promise.lock().take() {
            promise.fulfil(answer);
        }
    }
}
