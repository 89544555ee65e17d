//! The thread of scripts: it runs scripts that take long, and transactions with scripts, while no driver waits for it.
//!
//! It also hands the keys to the process that succeeds this one, which needs the same quiet, and forwards requests to it from
//! then on.
//!
//! Commands of others wait meanwhile, as connections of CLIENT PAUSE do, without a thread that waits with them; after
//! `--script-time-limit` they are refused. Nobody waits for a lock that a script holds: before it takes them, all batches
//! that began without knowing of it have ended.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use proto::{Flow, Now, Outbox};
use store::{Pin, Store};

use super::call::Call;
use crate::{
    reply::Reply,
    state::{Client, ClientChange, Keyspace, ScriptJob, ScriptMessage, ServerState, Successor},
};

/// Time that scripts have in a row before others have their turn.
const TURN: Duration = Duration::from_millis(1);
/// Shortest turn of the others.
const REST_MIN: Duration = Duration::from_micros(20);

/// Starts the thread, unless there is one.
pub(crate) fn start<S: Store + 'static>(state: &Arc<ServerState<S>>) -> io::Result<Option<JoinHandle<()>>> {
    let (sender, queue) = mpsc::channel();
    if !state.scripts.set_queue(sender) {
        return Ok(None);
    }
    let state = Arc::clone(state);
    thread::Builder::new().name("scripts".to_owned()).spawn(move || run_thread(&state, &queue)).map(Some)
}

fn run_thread<S: Store + 'static>(state: &ServerState<S>, queue: &Receiver<ScriptMessage<S>>) {
    let (mut next, mut successor) = (None, None);
    while let Some(message) = next.take().or_else(|| queue.recv().ok()) {
        match (message, &mut successor) {
            (ScriptMessage::Job(job), None) => next = run_jobs(state, queue, job),
            (ScriptMessage::HandOver(work), None) => successor = hand_over(state, work),
            (ScriptMessage::Forward(request, promise), Some(successor)) => match successor.exchange(&request) {
                Ok(reply) => {
                    let mut answer = Outbox::default();
                    answer.inline().extend_from_slice(&reply);
                    promise.fulfil(answer);
                }
                // The promise is dropped, and the connection closes.
                Err(error) => tracing::error!("a request is lost: the new process does not answer: {error}"),
            },
            // No keys are left for the one, and nobody has them for the other.
            (ScriptMessage::Job(_) | ScriptMessage::HandOver(_), Some(_)) | (ScriptMessage::Forward(..), None) => {}
            (ScriptMessage::Stop, _) => break,
        }
        if state.scripts.running.is_stopping() {
            break;
        }
    }
}

/// Runs a job, and those behind it as long as the turn lasts. Returns a message that is no job.
fn run_jobs<S: Store + 'static>(
    state: &ServerState<S>,
    queue: &Receiver<ScriptMessage<S>>,
    first: ScriptJob<S>,
) -> Option<ScriptMessage<S>> {
    let began = Instant::now();
    state.clients.pause.begin_script();
    Pin::synchronize();
    let (mut next, mut other, mut last) = (Some(first), None, None);
    while let Some(job) = next.take() {
        last = Some(run_job(state, job));
        match if began.elapsed() < TURN { queue.try_recv().ok() } else { None } {
            Some(ScriptMessage::Job(job)) => next = Some(job),
            message => other = message,
        }
        if let Some((promise, answer)) = last.take_if(|_| next.is_some()) {
            promise.fulfil(answer);
        }
    }
    let has_waited = state.clients.pause.end_script();
    if let Some((promise, answer)) = last {
        promise.fulfil(answer);
    }
    if has_waited && !state.scripts.running.is_stopping() {
        thread::sleep(began.elapsed().clamp(REST_MIN, TURN));
    }
    other
}

/// Does work while all commands wait. Unless another process has the keys then, they go on.
fn hand_over<S: Store>(state: &ServerState<S>, work: impl FnOnce() -> Option<Successor>) -> Option<Successor> {
    state.clients.pause.begin_script();
    Pin::synchronize();
    let successor = work();
    if successor.is_some() {
        state.clients.pause.hand_over();
    } else {
        state.clients.pause.end_script();
    }
    successor
}

/// Runs one job. Returns its promise, and the answer.
fn run_job<S: Store + 'static>(state: &ServerState<S>, job: ScriptJob<S>) -> (proto::Promise, Outbox) {
    let ScriptJob { number, args, client: handed_over, promise, result } = job;
    let now = Now {
        instant: Instant::now(),
        unix: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
    };
    let mut client = Client::detached(state.clients.unlisted());
    (client.database, client.version) = (handed_over.database, handed_over.version);
    client.is_no_touch = handed_over.is_no_touch;
    client.set_transaction(handed_over.transaction);
    let mut keys = Keyspace::new(&state.space, now);
    (keys.database, keys.is_no_touch) = (client.database, client.is_no_touch);
    keys.pin_all();
    state.scripts.running.begin();
    let (mut out, args) = (Outbox::default(), args.iter().map(|arg| &**arg).collect::<Vec<_>>());
    let mut call = Call {
        state,
        client: &mut client,
        keys: &mut keys,
        args: &args,
        now,
        reply: Reply { out: &mut out, version: handed_over.version },
        flow: Flow::Open,
        is_handed_over: false,
    };
    if let Err(refusal) = call.run(number) {
        call.refuse(&refusal);
    }
    state.scripts.running.end();
    keys.unpin();
    *result.lock() = Some(ClientChange { database: client.database, version: client.version });
    (promise, out)
}
