//! Periodic work: expired keys are removed, a lowered memory limit is approached, rates are computed.

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
/// Pieces of memory that become huge pages in one tick: 2 MiB each, so that 80 MiB are through in a second.
const HUGE_PAGES: usize = 4;
/// Least memory whose loss makes the heap give back what is free: a share of what there was, and never less than so many
/// bytes.
const FREED_SHARE: usize = 16;
const FREED_BYTES_MIN: usize = 1 << 20;
/// Memory beyond what is in use at which a limited server's heap gives back what is free: a share of what is in use, and never
/// less than so many bytes.
const EXCESS_SHARE: usize = 64;
const EXCESS_BYTES_MIN: usize = 4 << 20;
/// Ticks after which memory is taken to fall no further: what readers without a lock may look at is freed later.
const STABLE_TICKS: u32 = 5;

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
            let (mut rates, mut heap) = (Rates::default(), Heap::default());
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                tick(&state, &mut rates, &mut heap);
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

fn tick<S: Store + 'static>(state: &ServerState<S>, rates: &mut Rates, heap: &mut Heap) {
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
    unite_pages();
    let in_use = bytes + state.clients.memory.bytes();
    let is_limited = state.settings.memory_max().is_some();
    let resident = if is_limited { sys::memory::resident().ok() } else { None };
    let has_excess = resident.is_some_and(|resident| heap.has_excess(in_use, resident));
    if heap.should_trim(in_use) || has_excess {
        sys::memory::trim_heap();
    }
    state.settings.enforce_idle_timeout(&state.clients, now.unix_ms);
    let counts = state.info.connections.counts();
    let rate = rates.add(Instant::now(), [state.statistics.calls(), counts.bytes_in, counts.bytes_out]);
    state.gauges.ops_per_sec.store(rate[0], Relaxed);
    state.gauges.input_bytes_per_sec.store(rate[1], Relaxed);
    state.gauges.output_bytes_per_sec.store(rate[2], Relaxed);
}

/// Makes huge pages of full pieces of memory. The kernel copies each without a pause.
fn unite_pages() {
    for _ in 0..HUGE_PAGES {
        if !sys::memory::unite_advised() {
            break;
        }
        thread::sleep(BREAK);
    }
}

/// Memory in use, as seen from tick to tick.
#[derive(Debug, Default)]
struct Heap {
    highest: usize,
    last: usize,
    /// Ticks since it has last fallen.
    stable_ticks: u32,
    /// Least resident bytes beside those in use, since the heap was last trimmed: the program itself and what no trimming
    /// gives back. `None`: it has just been trimmed.
    excess_min: Option<usize>,
}

impl Heap {
    /// Notes the bytes in use. Returns true if many have been freed and it seems that no more will be for now: the
    /// allocator keeps them until it is told.
    fn should_trim(&mut self, bytes: usize) -> bool {
        self.stable_ticks = if bytes < self.last { 0 } else { self.stable_ticks.saturating_add(1) };
        self.last = bytes;
        self.highest = self.highest.max(bytes);
        let freed = self.highest - bytes;
        let should_trim = self.stable_ticks >= STABLE_TICKS && freed >= FREED_BYTES_MIN.max(self.highest / FREED_SHARE);
        if should_trim {
            self.highest = bytes;
        }
        should_trim
    }

    /// Returns true if the heap seems to hold much that is free, as where large values have made way for small ones: those lie
    /// elsewhere, and what is in use does not fall.
    fn has_excess(&mut self, in_use: usize, resident: u64) -> bool {
        let excess = usize::try_from(resident).unwrap_or(usize::MAX).saturating_sub(in_use);
        let least = self.excess_min.map_or(excess, |least| least.min(excess));
        let has_excess = excess - least >= EXCESS_BYTES_MIN.max(in_use / EXCESS_SHARE);
        self.excess_min = (!has_excess).then_some(least);
        has_excess
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
    fn the_heap_is_trimmed_once_much_has_been_freed() {
        const MIB: usize = 1 << 20;
        let mut heap = Heap::default();
        let mut trims = |sizes: &[usize]| sizes.iter().map(|mib| heap.should_trim(mib * MIB)).collect::<Vec<_>>();
        assert_eq!(trims(&[0, 10, 100, 100, 95, 95, 94]), [false; 7], "little is freed");
        assert_eq!(trims(&[90, 80, 80, 80, 80, 80]), [false; 6], "it may fall further");
        assert_eq!(trims(&[80, 80, 79, 79, 79, 79, 79, 79]), [true, false, false, false, false, false, false, false]);
        assert_eq!(trims(&[0, 0, 0, 0, 0, 0, 0]), [false, false, false, false, false, true, false]);
    }

    #[test]
    fn the_heap_is_trimmed_where_more_is_resident_than_in_use() {
        const MIB: usize = 1 << 20;
        let mut heap = Heap::default();
        let mut trims = |in_use: usize, resident: u64| heap.has_excess(in_use * MIB, resident * MIB as u64);
        assert!(!trims(0, 20), "the program");
        assert!(!trims(100, 120) && !trims(100, 123));
        assert!(trims(100, 124));
        assert!(!trims(100, 123), "that much is not free");
        assert!(!trims(100, 126) && trims(100, 127));
        assert!(!trims(1000, 1010) && !trims(1000, 1025), "a larger server may have more");
        assert!(trims(1000, 1026));
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
