//! Load that the engine puts on a server.

use std::{net::IpAddr, sync::Arc, time::Duration};

use sys::affinity::Cpus;

use super::{
    kind::EngineKind,
    pace::{Limit, Pacing},
    pause::Pause,
    skew::Skew,
    steady,
    timetable::Timetable,
    tls::Tls,
    turns::Turns,
};
use crate::clock::{self, Nanos};

/// Load to put on a server.
#[derive(Clone, Debug)]
pub struct Load {
    pub connections: usize,
    /// Number of threads, at most one per connection.
    pub threads: usize,
    /// CPUs for the threads, round robin; empty leaves them where the scheduler puts them.
    pub pin: Cpus,
    /// Requests in flight on one connection.
    pub pipeline: usize,
    /// Requests that travel together: sent in one write, and followed by the next batch when all are answered.
    /// [`Self::pipeline`] is a multiple of it. In an open loop it is 1, since requests fall due one by one.
    pub batch: usize,
    pub reuse: Reuse,
    pub lifetime: Lifetime,
    pub pacing: Pacing,
    /// Open loop: connections that carry more than the others.
    pub skew: Option<Skew>,
    /// Open loop: the course that requests follow instead of one rate; [`Self::pacing`] then has the mean.
    pub timetable: Option<Arc<Timetable>>,
    pub limit: Limit,
    /// Closed loop only: each connection behaves like one requestor of the original client.
    pub requestor: Option<Requestor>,
    /// Connections are opened evenly over this time, and the rate of an open loop grows linearly from 0. It is a part
    /// of [`Self::warmup`], which is never shorter.
    pub ramp: Duration,
    pub warmup: Duration,
    /// Longest warm-up, in whole windows of 100 ms: it goes on until five of them show no trend.
    pub warmup_max: Option<Duration>,
    pub timeouts: Timeouts,
    /// Shortly before a request of the open loop falls due, the clock is watched instead of sleeping.
    pub spin: bool,
    /// Length of the intervals by which requests are also counted.
    pub timeline: Option<Duration>,
    pub engine: EngineKind,
    pub tls: Option<Tls>,
    /// TCP: the addresses that connections come from, in turn; empty leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// TCP: the first bytes go out with the SYN where the server has given a cookie for it.
    pub is_fast_open: bool,
    /// TCP: connections that the client closes are reset, and leave nothing behind in TIME_WAIT.
    pub is_linger_zero: bool,
    /// Size of the sample in the log of requests, if one is kept.
    pub request_log: Option<usize>,
    /// Closed loop only: the load runs in turns, [`Self::limit`] being the longest time for all of them.
    pub turns: Option<Arc<Turns>>,
    pub seed: u64,
}

impl Load {
    /// Returns the shortest time after which something is to happen on a connection that is silent.
    pub(super) fn shortest_limit(&self) -> Duration {
        let shortest = self.timeouts.shortest();
        self.lifetime.age.map_or(shortest, |age| age.min(shortest))
    }

    pub(super) fn longest_warm_up(&self) -> Nanos {
        let most = self.warmup_max.map(|most| steady::whole(clock::nanos(most.max(self.warmup))).max(steady::WIDTH));
        most.unwrap_or_else(|| clock::nanos(self.warmup))
    }

    /// One request on one connection, from which tests make theirs.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Self {
        let patience = Duration::from_secs(30);
        Self {
            connections: 1,
            threads: 1,
            pin: Cpus::default(),
            pipeline: 1,
            batch: 1,
            reuse: Reuse::Keep,
            lifetime: Lifetime::default(),
            pacing: Pacing::Closed,
            skew: None,
            timetable: None,
            limit: Limit::Requests(1),
            requestor: None,
            ramp: Duration::ZERO,
            warmup: Duration::ZERO,
            warmup_max: None,
            timeouts: Timeouts { connect: patience, first_byte: None, total: patience },
            spin: false,
            timeline: None,
            engine: EngineKind::Epoll,
            tls: None,
            sources: Vec::new(),
            is_fast_open: false,
            is_linger_zero: false,
            request_log: None,
            turns: None,
            seed: 1,
        }
    }
}

/// Times to wait for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit of a connection attempt, TLS included.
    pub connect: Duration,
    /// Limit of the first byte of a reply, from the sending of its request.
    pub first_byte: Option<Duration>,
    /// Limit of the last byte of it.
    pub total: Duration,
}

impl Timeouts {
    pub(super) fn shortest(self) -> Duration {
        self.connect.min(self.total).min(self.first_byte.unwrap_or(self.total))
    }
}

/// Use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It serves as many requests as the server will answer on it.
    Keep,
    /// It serves one batch. The client closes it after the last reply, if the server has not, and latency counts from
    /// the attempt to connect. In an open loop that is made when the request falls due.
    Once,
}

/// Limits after which the client closes a connection that is kept, and opens another: when its requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    pub requests: Option<u64>,
    /// Age at which no more requests are sent. It is looked at as deadlines are.
    pub age: Option<Duration>,
}

/// A person at the server: so many requests one after the other, with a pause behind each. A connection that fails
/// counts as one of the requests. [`Load::limit`] is the number of requests of all connections, and [`Load::pipeline`]
/// is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requestor {
    pub reps: u64,
    pub pause: Pause,
}
