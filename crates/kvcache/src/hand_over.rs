//! Hand-over of all keys to the process that succeeds this one, in memory.
//!
//! The new process asks for them when nothing else is missing for it to be ready, so that little time passes until it is.
//! From then on every command waits in the old one, without a thread that waits with it, while the keys, as a snapshot, go
//! through a pipe, and with them the scripts and what memcached clients share. Once the new process says that it is ready, the
//! keys are its own: the old one answers what waits, and what still comes on its connections, by forwarding it there. If it
//! never says so, the commands go on in the old process.

mod kept;

use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use proto::{NextWrite, Now, Outbox};
use service::HandOver;
use store::Store;
use sys::successor::{HandedDescriptor, Role};

use crate::{
    connection::Conn,
    exact_time,
    server::KvServer,
    state::{
        ForwardedRequest, Keyspace, ScriptMessage, ServerState, Successor, receive_entries, send_entries, send_reply,
    },
};

/// Byte by which a new process asks for the keys.
const ASK: u8 = b'K';
/// Time that a process has to notice that the one before it has ended.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);
/// Limit of the text of a script on its way.
const SCRIPT_BYTES_MAX: u32 = 512 << 20;

// --- the old process ----------------------------------------------------------------------------

/// Hand-over by the process that has the keys.
#[derive(Debug)]
pub(crate) struct KeyHandOver<S: Store> {
    server: Arc<KvServer<S>>,
    /// Tells the thread of scripts, which waits for it with all clients, if there is a successor.
    outcome: Option<mpsc::Sender<bool>>,
}

impl<S: Store + 'static> KeyHandOver<S> {
    pub(crate) fn new(server: Arc<KvServer<S>>) -> Self {
        Self { server, outcome: None }
    }
}

impl<S: Store + 'static> HandOver for KeyHandOver<S> {
    fn begin(&mut self) -> anyhow::Result<Vec<HandedDescriptor>> {
        let has_ended = self.server.predecessor.has_ended_within(PATIENCE);
        ensure!(has_ended, "the process before this one has not come to its end yet");
        let (theirs, to) = io::pipe()?;
        let (from, answers) = io::pipe()?;
        let (tell, outcome) = mpsc::channel();
        let server = Arc::clone(&self.server);
        let queue_work = move || wait_for_question(&server, Successor { to, from }, outcome);
        thread::Builder::new().name("hand-over".to_owned()).spawn(queue_work).context("no thread")?;
        self.outcome = Some(tell);
        Ok(vec![
            HandedDescriptor { descriptor: theirs.into(), role: Role::FromPredecessor },
            HandedDescriptor { descriptor: answers.into(), role: Role::ToPredecessor },
        ])
    }

    fn complete(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            let _ = outcome.send(true); // Fails where nobody has asked for the keys.
        }
    }

    fn cancel(&mut self) {
        self.outcome = None;
    }
}

/// Waits until the new process asks for the keys, and has the thread of scripts send them.
fn wait_for_question<S: Store + 'static>(
    server: &Arc<KvServer<S>>,
    mut successor: Successor,
    outcome: mpsc::Receiver<bool>,
) {
    let mut question = [0];
    if successor.from.read_exact(&mut question).is_err() || question != [ASK] {
        return; // It has ended.
    }
    let worker = Arc::clone(server);
    let work = move || {
        let began = Instant::now();
        let sent = worker.send_keys(&mut successor.to);
        let has_successor = outcome.recv() == Ok(true);
        match sent {
            Ok(keys) if has_successor => {
                tracing::info!("{keys} keys handed over; commands have waited for {:?}", began.elapsed());
                Some(successor)
            }
            Ok(_) => None,
            Err(error) => {
                tracing::error!("the keys cannot be handed over: {error}");
                None
            }
        }
    };
    server.state.scripts.send(ScriptMessage::HandOver(Box::new(work)));
}

impl<S: Store + 'static> KvServer<S> {
    /// True once another process has the keys.
    pub(crate) fn has_handed_over(&self) -> bool {
        self.state.clients.pause.is_handed_over()
    }

    /// Writes everything that all connections share. No command must be running. Returns the number of keys.
    fn send_keys(&self, to: &mut impl Write) -> io::Result<u64> {
        self.finish_routed();
        let keys = send_entries(&self.state.space, &mut *to)?;
        let memcached = &self.state.memcached;
        to.write_all(&memcached.numbers.last().to_le_bytes())?;
        to.write_all(&memcached.flush.scheduled().to_le_bytes())?;
        let texts = self.state.scripts.texts();
        to.write_all(&(texts.len() as u64).to_le_bytes())?;
        for text in texts {
            to.write_all(&(text.len() as u64).to_le_bytes())?;
            to.write_all(&text)?;
        }
        Ok(keys)
    }

    /// Reads what [`KvServer::send_keys`] has written.
    fn receive_keys(&self, from: &mut impl Read) -> anyhow::Result<()> {
        let number_max = receive_entries(&self.state.space, &mut *from)?;
        self.state.memcached.numbers.skip(number_max);
        self.state.memcached.numbers.skip(read_number(from)?);
        self.state.memcached.flush.schedule(read_number(from)?);
        for _ in 0..read_number(from)? {
            let length = u32::try_from(read_number(from)?).ok().filter(|&length| length <= SCRIPT_BYTES_MAX);
            let mut text = vec![0; length.context("a script is too long")? as usize];
            from.read_exact(&mut text)?;
            // One that is none here is unknown, as after a restart.
            let _ = self.state.scripts.keep(&text);
        }
        Ok(())
    }
}

// --- the new process ----------------------------------------------------------------------------

/// Pipes from and to the process that still has the keys.
#[derive(Debug)]
pub(crate) struct Inheritance {
    from: PipeReader,
    to: PipeWriter,
}

impl Inheritance {
    /// Takes them from what this process has inherited.
    pub(crate) fn take(mut inherited: impl FnMut(Role) -> Option<OwnedFd>) -> Option<Self> {
        Some(Self { from: inherited(Role::FromPredecessor)?.into(), to: inherited(Role::ToPredecessor)?.into() })
    }
}

/// Thread that answers what the process before this one forwards, until that ends.
#[derive(Debug, Default)]
pub(crate) struct PredecessorThread(Mutex<Option<JoinHandle<()>>>);

impl PredecessorThread {
    /// True if it ends in this time: whoever has seen the process end may be faster than the thread.
    fn has_ended_within(&self, patience: Duration) -> bool {
        let began = Instant::now();
        loop {
            let has_ended = self.0.lock().as_ref().is_none_or(JoinHandle::is_finished);
            if has_ended || began.elapsed() > patience {
                return has_ended;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl<S: Store + 'static> KvServer<S> {
    /// Asks the process before this one for its keys, takes them, and answers what it forwards from then on.
    pub(crate) fn take_keys(&self, Inheritance { mut from, mut to }: Inheritance) -> anyhow::Result<()> {
        to.write_all(&[ASK])?;
        self.receive_keys(&mut from)?;
        let state = Arc::clone(&self.state);
        let thread = thread::Builder::new().name("predecessor".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = answer_forwarded(&state, &mut from, &mut to) {
                tracing::warn!("the process before this one is not answered any more: {error}");
            }
        })?;
        *self.predecessor.0.lock() = Some(thread);
        Ok(())
    }
}

fn read_number(from: &mut impl Read) -> io::Result<u64> {
    let mut number = [0; 8];
    from.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}

/// Answers requests until the other process ends.
fn answer_forwarded<S: Store + 'static>(
    state: &ServerState<S>,
    from: &mut PipeReader,
    to: &mut PipeWriter,
) -> io::Result<()> {
    while let Some(request) = ForwardedRequest::receive(from)? {
        let now = exact_time(Now { instant: Instant::now(), unix: Duration::ZERO });
        send_reply(to, &answer(state, &request, now))?;
    }
    Ok(())
}

fn answer<S: Store + 'static>(state: &ServerState<S>, request: &ForwardedRequest, now: Now) -> Vec<u8> {
    let (mut conn, mut keys) = (Conn::forwarded(state, request), Keyspace::new(&state.space, now));
    if request.locks_all {
        keys.pin_all();
    }
    let (mut out, mut reply, mut at) = (Outbox::default(), Vec::new(), 0);
    while at < request.bytes.len() {
        let step = conn.handle_request(state, &request.bytes[at..], &mut keys, now, &mut out);
        if at < request.begin {
            out = Outbox::default();
        } else {
            take_bytes(&mut out, &mut reply);
        }
        if step.consumed == 0 {
            break; // It has ended in an error.
        }
        at += step.consumed;
    }
    reply
}

/// Moves everything out of an outbox that is in memory.
fn take_bytes(out: &mut Outbox, bytes: &mut Vec<u8>) {
    while let Some(NextWrite::Memory(pieces, count)) = out.front() {
        let before = bytes.len();
        pieces[..count].iter().for_each(|piece| bytes.extend_from_slice(piece));
        out.advance(bytes.len() - before);
    }
}

#[cfg(test)]
mod tests;
