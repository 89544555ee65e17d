//! What is done whether or not anybody asks for anything: keys that have expired go, a lowered memory limit is
//! approached, rates are reckoned.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use store::{Cache, Moment, Pin, Store};

use crate::{server::KvServer, space::Space};

/// How often.
const TICK: Duration = Duration::from_millis(100);
/// The most that one tick spends on keys that go.
const BUDGET: Duration = Duration::from_millis(25);
/// The most that it spends on looking for such keys while there are few.
const SEARCH: Duration = Duration::from_millis(1);
/// Steps of a sweep under one lock; each looks at a few keys.
const STEPS: usize = 16;
/// A sweep that removes at least so many keys under one lock finds enough to go on.
const MUCH: u64 = 4;
/// Ticks that rates are averaged over.
const SAMPLES: usize = 16;

/// Figures that change with time.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub ops_per_sec: AtomicU64,
    pub input_bytes_per_sec: AtomicU64,
    pub output_bytes_per_sec: AtomicU64,
    /// The most memory that entries and tables have taken, as seen once per tick.
    pub memory_peak: AtomicU64,
}

/// The thread that does it.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// Closed when it is to end.
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Maintenance {
    pub(crate) fn start<S: Store + 'static>(server: Arc<KvServer<S>>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut rates = Rates::default();
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                tick(&server, &mut rates);
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

fn tick<S: Store + 'static>(server: &KvServer<S>, rates: &mut Rates) {
    let now = Moment { unix_ms: unix_ms() };
    if server.settings.expires_actively.load(Relaxed) {
        expire(&server.space, now, BUDGET);
    }
    shrink(&server.space, now, BUDGET);
    Pin::collect();
    server.settings.enforce_idle_timeout(&server.clients, now.unix_ms);
    server.gauges.memory_peak.fetch_max(server.space.bytes() as u64, Relaxed);
    let counts = server.facts.connections.counts();
    let rate = rates.add(Instant::now(), [server.statistics.calls(), counts.bytes_in, counts.bytes_out]);
    server.gauges.ops_per_sec.store(rate[0], Relaxed);
    server.gauges.input_bytes_per_sec.store(rate[1], Relaxed);
    server.gauges.output_bytes_per_sec.store(rate[2], Relaxed);
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Removes what has expired: all of it, if there is time for that.
fn expire<S: Store>(space: &Space<S>, now: Moment, budget: Duration) {
    let began = Instant::now();
    for shard in 0..space.shards() {
        loop {
            let (removed, is_round) = work(&mut space.lock(shard), |cache| cache.expire_some(now));
            let spent = began.elapsed();
            if is_round || spent > budget || removed < MUCH && spent > SEARCH {
                break;
            }
        }
    }
}

/// Gives up what is over the limit.
fn shrink<S: Store>(space: &Space<S>, now: Moment, budget: Duration) {
    let began = Instant::now();
    for shard in 0..space.shards() {
        while !work(&mut space.lock(shard), |cache| cache.shrink_some(now)).1 && began.elapsed() <= budget {}
    }
}

/// A few steps: how many keys went, and whether there is nothing more to do.
fn work<S: Store>(cache: &mut Cache<S>, mut step: impl FnMut(&mut Cache<S>) -> bool) -> (u64, bool) {
    let before = cache.counts.expired;
    let is_done = (0..STEPS).any(|_| step(cache));
    (cache.counts.expired.saturating_sub(before), is_done)
}

/// Totals as they were, to see how fast they grow.
#[derive(Debug, Default)]
struct Rates(std::collections::VecDeque<(Instant, [u64; 3])>);

impl Rates {
    /// By how much each grows in a second.
    fn add(&mut self, now: Instant, totals: [u64; 3]) -> [u64; 3] {
        self.0.push_back((now, totals));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
        let Some((then, before)) = self.0.front() else { return [0; 3] };
        let seconds = now.saturating_duration_since(*then).as_secs_f64();
        // A total that has been reset shrinks.
        let rate = |of: usize| (totals[of].saturating_sub(before[of]) as f64 / seconds) as u64;
        if seconds > 0.0 { std::array::from_fn(rate) } else { [0; 3] }
    }
}

#[cfg(test)]
mod tests {
    use store::{Attributes, HashbrownStore, KeyHasher, PolicyKind, StoreOptions};

    use super::*;
    use crate::{Codec, SpaceOptions};

    const KEYS: u64 = 20_000;

    fn space(shards: usize) -> Space<HashbrownStore> {
        let store = StoreOptions { hasher: KeyHasher::with_seed(1), advise: |_| {}, release: |_| {} };
        let policy = PolicyKind::AllKeysRandom;
        Space::new(SpaceOptions { shards, policy, memory_max: None, codec: Codec::default(), store, seed: 2 })
    }

    /// Half of the keys expire at 1000.
    fn fill(space: &Space<HashbrownStore>) {
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
        space.each(|cache| len += cache.len() as u64);
        len
    }

    #[test]
    fn keys_that_nobody_touches_expire() {
        let space = space(3);
        fill(&space);
        expire(&space, Moment { unix_ms: 999 }, Duration::MAX);
        assert_eq!(len(&space), KEYS);
        // However little time there is, all go in the end.
        while len(&space) > KEYS / 2 {
            expire(&space, Moment { unix_ms: 1000 }, Duration::ZERO);
        }
        assert_eq!(space.counts().expired, KEYS / 2);
    }

    #[test]
    fn a_lowered_limit_is_reached_without_a_write() {
        let space = space(3);
        fill(&space);
        let half = space.bytes() / 2;
        space.set_memory_max(Some(half));
        shrink(&space, Moment { unix_ms: 1 }, Duration::MAX);
        assert!(space.bytes() <= half && len(&space) > 0, "{} of {half}", space.bytes());
        assert_eq!(len(&space) + space.counts().evicted, KEYS);
    }

    #[test]
    fn a_rate_is_reckoned_over_the_latest_ticks() {
        let (mut rates, begin) = (Rates::default(), Instant::now());
        let mut latest = [0; 3];
        for tick in 0..40_u64 {
            latest = rates.add(begin + Duration::from_secs(tick), [tick.saturating_sub(20) * 10, tick, 0]);
        }
        assert_eq!(latest, [10, 1, 0]);
        assert_eq!(rates.add(begin + Duration::from_secs(40), [0, 0, 0]), [0; 3], "after a reset");
    }
}
