//! Periodic work: expired keys are removed, a lowered memory limit is approached, rates are computed.

mod resident;

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use store::{Cache, Moment, Pin, Store};

use self::resident::Resident;
use crate::state::{Pause, Rates, ServerState, Space};

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(100);
/// Limit of the time that one tick spends on removing keys, without the breaks.
const BUDGET: Duration = Duration::from_millis(25);
/// Break between two locks under which keys were removed, and between other pieces of work: it lets those run who wait for the
/// lock, or for this thread's CPU, where the kernel would let them wait for several milliseconds.
const BREAK: Duration = Duration::from_micros(50);
/// Limit of the time that it spends on the search for expired keys while there are few.
const SEARCH: Duration = Duration::from_millis(1);
/// Steps of a sweep under one lock; each visits a few keys.
const STEPS: usize = 16;
/// Keys that a sweep must remove under one lock to go on beyond [`SEARCH`].
const REMOVED_MIN: u64 = 4;
/// Keys removed under one lock after which it is let go, so that no command waits long.
const REMOVED_MAX: u64 = 500;
/// Pieces of memory that become huge pages in one tick: 2 MiB each, so that 80 MiB are through in a second. With a limit there
/// are fewer: each may take long on a busy machine, and the heap has to be looked at.
const HUGE_PAGES: usize = 4;
const HUGE_PAGES_LIMITED: usize = 1;
/// Time for which such a piece has been full: where sizes change, pages of it are often released soon.
const HUGE_PAGE_AGE: Duration = Duration::from_secs(2);

/// Thread that does the periodic work.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// Closed to end the thread.
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Maintenance {
    pub(crate) fn start<S: Store + 'static>(state: Arc<ServerState<S>>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let (mut rates, mut resident) = (Rates::default(), Resident::default());
            while stopped.recv_timeout(TICK / resident.looks()) == Err(RecvTimeoutError::Timeout) {
                match resident.is_look() {
                    true => resident.look(&state),
                    false => tick(&state, &mut rates, &mut resident),
                }
            }
        };
        let thread = thread::Builder::new().name("maintenance".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join(); // A panic there has been reported by the thread itself.
    }
}

fn tick<S: Store + 'static>(state: &ServerState<S>, rates: &mut Rates, resident: &mut Resident) {
    if state.scripts.running.elapsed().is_some_and(|time| time >= state.scripts.time_limit()) {
        state.clients.pause.become_busy();
    }
    // A script that takes long has all shards, and this thread is to see how long.
    let pause = &state.clients.pause;
    let Some(pin) = pause.keep_scripts_out() else { return };
    state.space.finish_unwatches();
    state.tracking.rest(&state.space);
    let bytes = state.space.bytes();
    state.gauges.memory_peak.fetch_max(bytes as u64, Relaxed);
    drop(pin);
    let now = Moment { unix_ms: unix_ms() };
    if state.settings.is_expiring_actively.load(Relaxed) {
        expire(&state.space, pause, now, BUDGET);
    }
    shrink(&state.space, pause, now, BUDGET);
    Pin::collect();
    resident.tick(state, bytes);
    unite_pages(if state.settings.memory_max().is_some() { HUGE_PAGES_LIMITED } else { HUGE_PAGES });
    state.settings.enforce_idle_timeout(&state.clients, now.unix_ms);
    let counts = state.info.connections.counts();
    let rate = rates.add(Instant::now(), [state.statistics.calls(), counts.bytes_in, counts.bytes_out]);
    state.gauges.ops_per_sec.store(rate[0], Relaxed);
    state.gauges.input_bytes_per_sec.store(rate[1], Relaxed);
    state.gauges.output_bytes_per_sec.store(rate[2], Relaxed);
}

/// Makes huge pages of full pieces of memory.
fn unite_pages(pieces: usize) {
    for _ in 0..pieces {
        if !sys::memory::unite_advised(HUGE_PAGE_AGE) {
            break;
        }
        thread::sleep(BREAK);
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Removes expired keys: all of them, if there is time.
fn expire<S: Store>(space: &Space<S>, pause: &Pause, now: Moment, budget: Duration) {
    let mut spent = Duration::ZERO;
    for shard in 0..space.shards() {
        loop {
            let Some(pin) = pause.keep_scripts_out() else { return };
            let began = Instant::now();
            let (removed, is_round) = run_steps(&mut space.lock(shard), |cache| cache.expire_some(now));
            drop(pin);
            spent += began.elapsed();
            if is_round || spent > budget || removed < REMOVED_MIN && spent > SEARCH {
                break;
            }
            if removed >= REMOVED_MIN {
                thread::sleep(BREAK);
            }
        }
    }
}

/// Evicts keys that are over the memory limit.
fn shrink<S: Store>(space: &Space<S>, pause: &Pause, now: Moment, budget: Duration) {
    let mut spent = Duration::ZERO;
    for shard in 0..space.shards() {
        loop {
            let Some(pin) = pause.keep_scripts_out() else { return };
            let began = Instant::now();
            let (_, is_done) = run_steps(&mut space.lock(shard), |cache| cache.shrink_some(now));
            drop(pin);
            spent += began.elapsed();
            if is_done || spent > budget {
                break;
            }
            thread::sleep(BREAK);
        }
    }
}

/// Runs a few steps, fewer if they remove many keys. Returns the number of expired keys removed, and true if nothing more is
/// to be done.
fn run_steps<S: Store>(cache: &mut Cache<S>, mut step: impl FnMut(&mut Cache<S>) -> bool) -> (u64, bool) {
    let before = cache.counts.expired;
    let (mut removed, mut is_done) = (0, false);
    for _ in 0..STEPS {
        is_done = step(cache);
        removed = cache.counts.expired.saturating_sub(before);
        if is_done || removed >= REMOVED_MAX {
            break;
        }
    }
    (removed, is_done)
}

#[cfg(test)]
mod tests {
    use store::{Attributes, HashbrownStore, KeyHasher, PackedStore, PolicyKind, StoreOptions};

    use super::*;
    use crate::{codec::Codec, state::SpaceOptions};

    const KEYS: u64 = 20_000;

    fn space<S: Store>(shards: usize) -> Space<S> {
        let store = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| {}, release: |_| {} };
        let policy = PolicyKind::AllKeysRandom;
        Space::new(SpaceOptions {
            shards,
            policy,
            memory_max: None,
            codec: Codec::default(),
            store,
            seed: 2,
            is_use_tracked: false,
        })
    }

    /// Half of the keys expire at 1000.
    fn fill<S: Store>(space: &Space<S>) {
        let now = Moment { unix_ms: 1 };
        for number in 0..KEYS {
            let key = number.to_le_bytes();
            let hash = space.hash(&key);
            let attributes = Attributes { expires_at: if number % 2 == 0 { 1000 } else { 0 }, ..Attributes::default() };
            space.lock(space.shard_of(hash)).set(hash, &key, &[7; 100], attributes, now).unwrap();
        }
    }

    fn len(space: &Space<HashbrownStore>) -> u64 {
        let mut len = 0;
        space.for_each_shard(|cache| len += cache.len() as u64);
        len
    }

    #[test]
    fn keys_expire_without_being_read() {
        let space = space::<HashbrownStore>(3);
        fill(&space);
        expire(&space, &Pause::default(), Moment { unix_ms: 999 }, Duration::MAX);
        assert_eq!(len(&space), KEYS);
        // However little time there is, all go in the end.
        while len(&space) > KEYS / 2 {
            expire(&space, &Pause::default(), Moment { unix_ms: 1000 }, Duration::ZERO);
        }
        assert_eq!(space.counts().expired, KEYS / 2);
    }

    #[test]
    fn no_lock_is_held_while_many_keys_are_removed() {
        let space = space::<PackedStore>(1);
        fill(&space);
        let (removed, is_done) = run_steps(&mut space.lock(0), |cache| cache.expire_some(Moment { unix_ms: 1000 }));
        assert!((REMOVED_MAX..2 * REMOVED_MAX).contains(&removed) && !is_done, "{removed}");
    }

    #[test]
    fn a_lowered_limit_is_reached_without_a_write() {
        let space = space::<HashbrownStore>(3);
        fill(&space);
        let half = space.bytes() / 2;
        space.set_memory_max(Some(half));
        shrink(&space, &Pause::default(), Moment { unix_ms: 1 }, Duration::MAX);
        assert!(space.bytes() <= half && len(&space) > 0, "{} of {half}", space.bytes());
        assert_eq!(len(&space) + space.counts().evicted, KEYS);
    }
}
