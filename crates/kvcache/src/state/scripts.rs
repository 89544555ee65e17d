//! Scripts: their texts, the state of Lua that each thread has, and the script that runs apart from all drivers.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::Sender,
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use proto::Promise;
use script::{Compiled, Digest, Engine, EngineError, Source, SourceError};
use store::Store;
use thiserror::Error;
use wire::resp::Version;

use super::{
    forwarding::{ForwardedRequest, Successor},
    transaction::Transaction,
};

/// Limit of the scripts that are kept.
const SCRIPTS_MAX: usize = 10_000;
/// Limit of their texts.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// Change of a Lua state's memory that is worth a word to all threads.
const COUNTED_BYTES: usize = 16 << 10;
/// Runs on the thread of scripts after which a script that has once taken long is tried on its client's thread again.
const LONG_RUNS: u8 = 64;

/// Scripts of one server.
pub(crate) struct Scripts<S: Store> {
    cache: RwLock<Cache>,
    /// Number of the set of scripts that threads may have compiled; another after each that is dropped.
    generation: AtomicU64,
    /// Bytes of each thread's Lua state.
    memory_max: usize,
    /// Time after which commands are refused instead of waiting.
    pub(crate) time_limit_ms: AtomicU64,
    /// Bytes of all Lua states.
    lua_bytes: Arc<AtomicUsize>,
    queue: OnceLock<Sender<ScriptMessage<S>>>,
    pub(crate) running: RunningScript,
}

/// Message for the thread of scripts.
pub(crate) enum ScriptMessage<S: Store> {
    Job(ScriptJob<S>),
    /// Work that needs all keys to itself; returns the process that has them from then on, if there is one.
    HandOver(Box<dyn FnOnce() -> Option<Successor> + Send>),
    Forward(ForwardedRequest, Promise),
    Stop,
}

/// Script, or transaction with scripts, for the thread of scripts.
#[derive(Debug)]
pub(crate) struct ScriptJob<S: Store> {
    /// Number of the command.
    pub(crate) number: usize,
    pub(crate) args: Vec<Box<[u8]>>,
    pub(crate) client: HandedOver<S>,
    pub(crate) promise: Promise,
    pub(crate) result: Arc<Mutex<Option<ClientChange>>>,
}

/// State of a client that a job takes along.
#[derive(Debug)]
pub(crate) struct HandedOver<S: Store> {
    pub(crate) database: u8,
    pub(crate) version: Version,
    pub(crate) is_no_touch: bool,
    pub(crate) transaction: Option<Box<Transaction<S>>>,
}

/// State of a client that a job may have changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientChange {
    pub(crate) database: u8,
    pub(crate) version: Version,
}

/// The job that is being run.
#[derive(Debug, Default)]
pub(crate) struct RunningScript {
    since: Mutex<Option<Instant>>,
    is_killed: AtomicBool,
    has_written: AtomicBool,
    /// True once the server ends.
    is_stopping: AtomicBool,
}

/// Scripts by their digests.
#[derive(Debug, Default)]
struct Cache {
    scripts: HashMap<Digest, Arc<CachedScript>>,
    /// Digests in the order in which they came.
    order: VecDeque<Digest>,
    text_bytes: usize,
}

/// One script.
#[derive(Debug)]
pub(crate) struct CachedScript {
    pub(crate) source: Source,
    /// Number of further runs on the thread of scripts.
    long_runs: AtomicU8,
    has_undeclared_keys: AtomicBool,
}

/// Failure to get a script ready.
#[derive(Debug, Error)]
pub(crate) enum ScriptError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("NOSCRIPT No matching script. Please use EVAL.")]
    Unknown,
}

/// Lua state of one thread, with what it has compiled.
struct LocalEngine {
    generation: u64,
    engine: Engine,
    known: LocalScripts,
    /// Bytes of this state that are counted in `total`.
    counted: usize,
    total: Arc<AtomicUsize>,
}

/// Scripts that a thread has compiled.
type LocalScripts = HashMap<Digest, LocalScript, foldhash::fast::RandomState>;

/// Script that a thread has compiled.
#[derive(Debug)]
pub(crate) struct LocalScript {
    pub(crate) script: Arc<CachedScript>,
    pub(crate) compiled: Compiled,
}

thread_local! {
    static ENGINE: RefCell<Option<LocalEngine>> = const { RefCell::new(None) };
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        self.total.fetch_sub(self.counted, Relaxed);
    }
}

impl LocalEngine {
    fn new(generation: u64, memory_max: usize, total: &Arc<AtomicUsize>) -> Result<Self, EngineError> {
        let engine = Engine::new(memory_max, fastrand::u32(..))?;
        Ok(Self { generation, engine, known: HashMap::default(), counted: 0, total: Arc::clone(total) })
    }

    fn count(&mut self) {
        let bytes = self.engine.memory_bytes();
        if bytes.abs_diff(self.counted) >= COUNTED_BYTES {
            // It wraps, and is right again when all threads have counted.
            self.total.fetch_add(bytes.wrapping_sub(self.counted), Relaxed);
            self.counted = bytes;
        }
    }
}

/// Returns a number that no set of scripts of any server in this process has had.
fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl<S: Store> Scripts<S> {
    pub(crate) fn new(memory_max: usize, time_limit: Duration) -> Self {
        Self {
            cache: RwLock::default(),
            generation: AtomicU64::new(next_generation()),
            memory_max,
            time_limit_ms: AtomicU64::new(u64::try_from(time_limit.as_millis()).unwrap_or(u64::MAX)),
            lua_bytes: Arc::default(),
            queue: OnceLock::new(),
            running: RunningScript::default(),
        }
    }

    /// Bytes of all Lua states.
    pub(crate) fn lua_bytes(&self) -> usize {
        self.lua_bytes.load(Relaxed)
    }

    /// Number of scripts, and the bytes of their texts.
    pub(crate) fn cached(&self) -> (usize, usize) {
        let cache = self.cache.read();
        (cache.scripts.len(), cache.text_bytes)
    }

    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.cache.read().scripts.contains_key(&digest)
    }

    /// Returns the texts of all scripts, oldest first.
    pub(crate) fn texts(&self) -> Vec<Box<[u8]>> {
        let cache = self.cache.read();
        let kept = cache.order.iter().filter_map(|digest| cache.scripts.get(digest));
        kept.map(|script| script.source.text.clone()).collect()
    }

    /// Keeps a script that another process has compiled.
    pub(crate) fn keep(&self, text: &[u8]) -> Result<(), ScriptError> {
        let script = Arc::new(CachedScript::new(Source::parse(text)?));
        self.cache.write().insert(Digest::of(text), &script);
        Ok(())
    }

    /// Forgets all scripts.
    pub(crate) fn flush(&self) {
        *self.cache.write() = Cache::default();
        self.generation.store(next_generation(), Relaxed);
    }

    /// Keeps a script that can be compiled. Returns its digest.
    pub(crate) fn load(&self, text: &[u8]) -> Result<Digest, ScriptError> {
        let digest = Digest::of(text);
        self.with_engine(digest, Some(text), |_, _| ())?;
        Ok(digest)
    }

    /// Runs something with this thread's engine, in which the script is compiled. Its text is needed if it is not cached.
    pub(crate) fn with_engine<T>(
        &self,
        digest: Digest,
        text: Option<&[u8]>,
        run: impl FnOnce(&Engine, &LocalScript) -> T,
    ) -> Result<T, ScriptError> {
        ENGINE.with_borrow_mut(|local| {
            let generation = self.generation.load(Relaxed);
            let local = match local {
                Some(local) if local.generation == generation => local,
                stale => stale.insert(LocalEngine::new(generation, self.memory_max, &self.lua_bytes)?),
            };
            let LocalEngine { engine, known, .. } = local;
            let script = match known.get(&digest) {
                Some(script) => script,
                None => self.compile(engine, known, digest, text)?,
            };
            let result = run(engine, script);
            local.count();
            Ok(result)
        })
    }

    /// Compiles a script for a thread, and keeps it if it is new.
    #[cold]
    fn compile<'l>(
        &self,
        engine: &Engine,
        known: &'l mut LocalScripts,
        digest: Digest,
        text: Option<&[u8]>,
    ) -> Result<&'l LocalScript, ScriptError> {
        let cached = self.cache.read().scripts.get(&digest).cloned();
        let script = match (cached, text) {
            (Some(script), _) => script,
            (None, Some(text)) => Arc::new(CachedScript::new(Source::parse(text)?)),
            (None, None) => return Err(ScriptError::Unknown),
        };
        if known.len() >= Engine::COMPILED_MAX {
            known.clear();
            engine.collect_garbage();
        }
        let compiled = engine.compile(digest, &script.source)?;
        if self.cache.write().insert(digest, &script) {
            self.generation.store(next_generation(), Relaxed);
        }
        Ok(known.entry(digest).insert_entry(LocalScript { script, compiled }).into_mut())
    }

    // --- the thread of scripts ------------------------------------------------------------------

    /// Takes over the queue of the thread of scripts. False if there is one.
    pub(crate) fn set_queue(&self, queue: Sender<ScriptMessage<S>>) -> bool {
        self.queue.set(queue).is_ok()
    }

    /// True if the thread of scripts has been started.
    pub(crate) fn has_thread(&self) -> bool {
        self.queue.get().is_some()
    }

    /// Sends a message to the thread of scripts. False if there is none.
    pub(crate) fn send(&self, message: ScriptMessage<S>) -> bool {
        self.queue.get().is_some_and(|queue| queue.send(message).is_ok())
    }

    /// Ends the thread of scripts, and whatever it runs.
    pub(crate) fn stop(&self) {
        self.running.is_stopping.store(true, Relaxed);
        self.send(ScriptMessage::Stop); // Fails for one that has ended.
    }

    /// Returns the time limit; without one it is for ever.
    pub(crate) fn time_limit(&self) -> Duration {
        match self.time_limit_ms.load(Relaxed) {
            0 => Duration::MAX,
            ms => Duration::from_millis(ms),
        }
    }

    /// Sets the time limit; 0: none.
    pub(crate) fn set_time_limit_ms(&self, ms: u64) {
        self.time_limit_ms.store(ms, Relaxed);
    }
}

impl<S: Store> fmt::Debug for Scripts<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripts").field("cached", &self.cached()).finish_non_exhaustive()
    }
}

impl CachedScript {
    fn new(source: Source) -> Self {
        Self { source, long_runs: AtomicU8::new(0), has_undeclared_keys: AtomicBool::new(false) }
    }

    /// True if the script has asked for keys that it does not name.
    pub(crate) fn has_undeclared_keys(&self) -> bool {
        self.has_undeclared_keys.load(Relaxed)
    }

    pub(crate) fn set_undeclared_keys(&self) {
        self.has_undeclared_keys.store(true, Relaxed);
    }

    /// True if the script takes so long that it is not tried on its client's thread.
    pub(crate) fn is_long(&self) -> bool {
        let left = self.long_runs.load(Relaxed);
        if left > 0 {
            self.long_runs.store(left - 1, Relaxed);
        }
        left > 0
    }

    /// Notes that the script has taken long.
    pub(crate) fn set_long(&self) {
        self.long_runs.store(LONG_RUNS, Relaxed);
    }
}

impl Cache {
    /// Keeps a script; where there is no room, the oldest go. True if one has gone.
    fn insert(&mut self, digest: Digest, script: &Arc<CachedScript>) -> bool {
        if self.scripts.insert(digest, Arc::clone(script)).is_some() {
            return false;
        }
        self.order.push_back(digest);
        self.text_bytes += script.source.text.len();
        let mut has_dropped = false;
        while self.scripts.len() > SCRIPTS_MAX || self.text_bytes > TEXT_BYTES_MAX && self.scripts.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(oldest) = self.scripts.remove(&oldest) {
                self.text_bytes -= oldest.source.text.len();
                has_dropped = true;
            }
        }
        has_dropped
    }
}

impl RunningScript {
    pub(crate) fn begin(&self) {
        self.is_killed.store(false, Relaxed);
        self.has_written.store(false, Relaxed);
        *self.since.lock() = Some(Instant::now());
    }

    pub(crate) fn end(&self) {
        *self.since.lock() = None;
    }

    /// Returns how long it has run.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        self.since.lock().map(|since| since.elapsed())
    }

    pub(crate) fn note_write(&self) {
        self.has_written.store(true, Relaxed);
    }

    pub(crate) fn has_written(&self) -> bool {
        self.has_written.load(Relaxed)
    }

    /// Has the script end at the next opportunity.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }

    /// True if the script has to end.
    pub(crate) fn must_end(&self) -> bool {
        self.is_killed.load(Relaxed) || self.is_stopping.load(Relaxed)
    }
}
