//! Limit of the rate of requests of each client.
//!
//! The algorithm is the generic cell rate algorithm: one time for each client says when all of its requests would be done if
//! they were served at the rate, and a request is refused where that is too far away. The table is bounded: clients that have
//! asked for nothing the longest are forgotten first, some thousands at once.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    mem,
    num::NonZeroU32,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use parking_lot::Mutex;
use proto::{ClientKey, Now};

/// Parts of the table that are locked apart.
const SHARDS: usize = 16;
/// Clients of one generation in one shard. There are two generations: those that have asked lately, and those before them.
const GENERATION_MAX: usize = 4096;
/// Interval at which refusals are logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Flags about the rate of requests.
#[derive(Clone, Debug, Args)]
pub struct RateArgs {
    /// Requests of one client above this rate, such as 100/s, 600/min or 1000/h, are answered with 429; a client is an IPv4
    /// address or an IPv6 network (/64) [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub max_requests_per_client: Option<RequestRate>,

    /// Requests that a client may send at once before the rate counts [default: as many as the rate names]
    #[arg(long, value_name = "N", requires = "max_requests_per_client")]
    pub request_burst_per_client: Option<NonZeroU32>,
}

impl RateArgs {
    /// Checks flags that are right each for itself: a configuration file may name one without the other.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (self.max_requests_per_client, self.request_burst_per_client) {
            (None, Some(_)) => Err("--request-burst-per-client needs --max-requests-per-client".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the limit, if there is one.
    pub fn limiter(&self) -> Option<RateLimiter> {
        let rate = self.max_requests_per_client?;
        Some(RateLimiter::new(rate, self.request_burst_per_client.unwrap_or(rate.requests)))
    }
}

/// Number of requests in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    requests: NonZeroU32,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

const UNITS: [(&str, Unit); 3] = [("s", Unit::Second), ("min", Unit::Minute), ("h", Unit::Hour)];

impl Unit {
    fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
        })
    }
}

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (requests, unit) = text.split_once('/').unwrap_or((text, "s"));
        let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit)| *unit);
        match (requests.parse(), unit) {
            (Ok(requests), Some(unit)) => Ok(Self { requests, unit }),
            _ => Err(format!("{text:?} is no rate like 100/s, 600/min or 1000/h")),
        }
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = UNITS[self.unit as usize];
        write!(f, "{}/{name}", self.requests)
    }
}

/// Limit of the rate of requests of each client.
pub struct RateLimiter {
    rate: RequestRate,
    /// Time that one request takes at the rate, in nanoseconds.
    interval_ns: u64,
    /// Time that a burst takes.
    burst_ns: u64,
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    started: OnceLock<Instant>,
    refused: AtomicU64,
    reported_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Shard {
    current: HashMap<ClientKey, Client>,
    previous: HashMap<ClientKey, Client>,
}

#[derive(Clone, Copy, Default)]
struct Client {
    /// Time at which all of its requests are done, in nanoseconds since the start.
    done_ns: u64,
    /// One has been refused, and the requests before it are not done yet.
    is_over: bool,
}

impl RateLimiter {
    /// Returns a limit that lets each client send `burst` requests at once.
    pub fn new(rate: RequestRate, burst: NonZeroU32) -> Self {
        let unit_ns = u64::try_from(rate.unit.duration().as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = (unit_ns / u64::from(rate.requests.get())).max(1);
        Self {
            rate,
            interval_ns,
            burst_ns: interval_ns.saturating_mul(u64::from(burst.get())),
            shards: Default::default(),
            hasher: RandomState::new(),
            started: OnceLock::new(),
            refused: AtomicU64::new(0),
            reported_at: Mutex::new(None),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// It is one too many. The client may send another after this time.
    pub(crate) fn admit(&self, key: ClientKey, now: Now) -> Result<(), Duration> {
        let since_start = now.instant.saturating_duration_since(*self.started.get_or_init(|| now.instant));
        let now_ns = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        let mut shard = self.shards[usize::try_from(self.hasher.hash_one(key)).unwrap_or_default() % SHARDS].lock();
        let client = shard.client(key);
        if client.done_ns <= now_ns {
            *client = Client { done_ns: now_ns, is_over: false };
        }
        let done_ns = client.done_ns.saturating_add(self.interval_ns);
        let excess_ns = (done_ns - now_ns).saturating_sub(self.burst_ns);
        if excess_ns == 0 {
            client.done_ns = done_ns;
            return Ok(());
        }
        let is_first = !mem::replace(&mut client.is_over, true);
        drop(shard);
        self.refused.fetch_add(1, Ordering::Relaxed);
        if is_first {
            self.report(key, now);
        }
        Err(Duration::from_nanos(excess_ns))
    }

    /// Number of requests that have been refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Says that a client asks too often: once until it has paused, and for one client in an interval.
    #[cold]
    fn report(&self, key: ClientKey, now: Now) {
        let mut reported_at = self.reported_at.lock();
        if reported_at.is_none_or(|at| now.instant.saturating_duration_since(at) > REPORT_INTERVAL) {
            *reported_at = Some(now.instant);
            drop(reported_at); // Whoever reads the log may be slow.
            tracing::warn!("requests are refused: {key} sends more than {}; see --max-requests-per-client", self.rate);
        }
    }
}

impl Shard {
    fn client(&mut self, key: ClientKey) -> &mut Client {
        let known = match self.current.get(&key) {
            Some(client) => *client,
            None => self.previous.remove(&key).unwrap_or_default(),
        };
        if self.current.len() >= GENERATION_MAX && !self.current.contains_key(&key) {
            self.previous = mem::take(&mut self.current);
        }
        self.current.entry(key).or_insert(known)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u32) -> ClientKey {
        IpAddr::from(Ipv4Addr::from_bits(number)).into()
    }

    fn limiter(rate: &str, burst: u32) -> RateLimiter {
        RateLimiter::new(rate.parse().unwrap(), burst.try_into().unwrap())
    }

    /// Returns a clock in milliseconds.
    fn clock() -> impl Fn(u64) -> Now {
        let start = Instant::now();
        move |ms| Now { instant: start + Duration::from_millis(ms), unix: Duration::ZERO }
    }

    #[test]
    fn a_client_may_send_a_burst_and_then_the_rate() {
        let (limiter, at) = (limiter("10/s", 3), clock());
        let admit = |ms| limiter.admit(client(1), at(ms));
        assert_eq!([admit(0), admit(0), admit(0)], [Ok(()); 3]);
        assert_eq!(admit(0), Err(Duration::from_millis(100)));
        assert_eq!(admit(40), Err(Duration::from_millis(60)), "what is refused does not count");
        assert_eq!((admit(100), admit(100)), (Ok(()), Err(Duration::from_millis(100))));
        assert_eq!([admit(5_000), admit(5_000), admit(5_000)], [Ok(()); 3], "a pause is no credit beyond the burst");
        assert!(admit(5_000).is_err());
        assert_eq!(limiter.admit(client(2), at(5_000)), Ok(()), "others are others");
        assert_eq!(limiter.refused(), 4);
    }

    #[test]
    fn rates_have_units() {
        for (text, shown, interval_ns) in [
            ("100/s", "100/s", 10_000_000),
            ("5", "5/s", 200_000_000),
            ("60/min", "60/min", 1_000_000_000),
            ("2/h", "2/h", 1_800_000_000_000),
        ] {
            let rate: RequestRate = text.parse().unwrap();
            assert_eq!((rate.to_string().as_str(), limiter(text, 1).interval_ns), (shown, interval_ns));
        }
        for bad in ["", "0/s", "1/day", "-1/s", "1.5/s", "/s", "fast"] {
            assert!(bad.parse::<RequestRate>().unwrap_err().contains("like 100/s"), "{bad}");
        }
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_are_forgotten() {
        let (limiter, at) = (limiter("1/h", 1), clock());
        assert!(limiter.admit(client(0), at(0)).is_ok() && limiter.admit(client(0), at(0)).is_err());
        for number in 1..200_000 {
            // Whoever goes on asking is not forgotten, however many others come.
            assert!(limiter.admit(client(0), at(0)).is_err(), "{number}");
            assert!(limiter.admit(client(number), at(0)).is_ok());
        }
        let clients = |shard: &Mutex<Shard>| {
            let shard = shard.lock();
            shard.current.len() + shard.previous.len()
        };
        let known: usize = limiter.shards.iter().map(clients).sum();
        assert!(known <= 2 * SHARDS * GENERATION_MAX, "{known}");
        assert!(limiter.admit(client(1), at(0)).is_ok(), "forgotten");
    }
}
