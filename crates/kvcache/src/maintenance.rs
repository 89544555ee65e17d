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
/// Pieces of memory that become huge pages in one tick: 2 MiB each, so that 80 MiB are through in a second. With a limit there
/// are fewer: each may take long on a busy machine, and the heap has to be looked at.
const HUGE_PAGES: usize = 4;
const HUGE_PAGES_LIMITED: usize = 1;
/// Time for which such a piece has been full: where sizes change, pages of it are often released soon.
const HUGE_PAGE_AGE: Duration = Duration::from_secs(2);
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
    let is_limited = state.settings.memory_max().is_some();
    let excess = || if is_limited { excess(state) } else { None };
    if heap.should_trim(bytes + state.clients.memory.bytes()) || excess().is_some_and(|excess| heap.has_excess(excess))
    {
        sys::memory::trim_heap();
        heap.floor = excess().map(|excess| excess.bytes);
    }
    unite_pages(if is_limited { HUGE_PAGES_LIMITED } else { HUGE_PAGES });
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

/// Resident bytes beside those in use.
#[derive(Clone, Copy, Debug)]
struct Excess {
    bytes: usize,
    in_use: usize,
}

/// Returns `None` where it is not known at present.
fn excess<S: Store>(state: &ServerState<S>) -> Option<Excess> {
    let _pin = state.clients.pause.keep_scripts_out()?;
    let resident = usize::try_from(sys::memory::resident().ok()?).ok()?;
    let in_use = state.space.bytes() + state.clients.memory.bytes();
    Some(Excess { bytes: resident.saturating_sub(in_use), in_use })
}

/// Memory in use, as seen from tick to tick.
#[derive(Debug, Default)]
struct Heap {
    highest: usize,
    last: usize,
    /// Ticks since it has last fallen.
    stable_ticks: u32,
    /// Least excess since the heap was last trimmed, and just afterwards: the program itself and what no trimming gives back.
    floor: Option<usize>,
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
    fn has_excess(&mut self, Excess { bytes, in_use }: Excess) -> bool {
        let floor = self.floor.map_or(bytes, |floor| floor.min(bytes));
        self.floor = Some(floor);
        bytes - floor >= EXCESS_BYTES_MIN.max(in_use / EXCESS_SHARE)
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
        let excess = |mib: usize, in_use: usize| Excess { bytes: mib * MIB, in_use: in_use * MIB };
        assert!(!heap.has_excess(excess(20, 0)), "the program");
        assert!(!heap.has_excess(excess(20, 100)) && !heap.has_excess(excess(23, 100)));
        assert!(heap.has_excess(excess(24, 100)) && heap.has_excess(excess(30, 100)), "until it has been trimmed");
        heap.floor = Some(23 * MIB);
        assert!(!heap.has_excess(excess(26, 100)), "23 MiB are not given back");
        assert!(heap.has_excess(excess(27, 100)));
        assert!(
            !heap.has_excess(excess(10, 1000)) && !heap.has_excess(excess(25, 1000)),
            "a larger server may have more"
        );
        assert!(heap.has_excess(excess(26, 1000)));
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
