//! Backlog of an open loop: requests that are due and wait for a connection, or for a client to be free.

use std::collections::VecDeque;

use crate::clock::Nanos;

/// Requests of one schedule that have waited, as far as they matter for those behind them.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Departures, the earliest first. A request that leaves before the next falls due is no backlog for that.
    departures: VecDeque<Nanos>,
}

impl Backlog {
    /// Takes note that a request that fell due at `due` leaves `now`, or fails in place of leaving; requests come in
    /// the order of their schedule. Returns the number of requests that waited when it fell due, itself included; 0 if
    /// it found a connection.
    pub(crate) fn record_departure(&mut self, due: Nanos, has_waited: bool, now: Nanos) -> u64 {
        while self.departures.front().is_some_and(|&departure| departure <= due) {
            self.departures.pop_front();
        }
        if !has_waited {
            return 0;
        }
        self.departures.push_back(now);
        self.departures.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_sees_those_that_had_not_left_when_it_fell_due() {
        let mut backlog = Backlog::default();
        // Due every 10; nothing can leave between 15 and 52, and from then on one every 4.
        let departures = [(0, 0), (10, 10), (20, 52), (30, 56), (40, 60), (50, 64), (60, 68), (70, 72), (80, 80)];
        let seen: Vec<_> =
            departures.iter().map(|&(due, left)| backlog.record_departure(due, left > due, left)).collect();
        // At 60 two have left and one is leaving; the one of 50 is still there, as it is at 64, but not at 70.
        assert_eq!(seen, [0, 0, 1, 2, 3, 4, 2, 1, 0]);
    }

    /// The law by its definition, on random waits.
    #[test]
    fn the_backlog_counts_earlier_requests_that_leave_later() {
        let mut rng = fastrand::Rng::with_seed(5);
        let (mut backlog, mut requests, mut due, mut left) = (Backlog::default(), Vec::<(u64, u64)>::new(), 0, 0);
        for _ in 0..2_000 {
            due += rng.u64(0..20);
            left = due.max(left + rng.u64(0..20));
            let expected = requests.iter().filter(|(before, gone)| gone > before && *gone > due).count() as u64;
            let has_waited = left > due;
            let itself = u64::from(has_waited);
            assert_eq!(backlog.record_departure(due, has_waited, left), if has_waited { expected + itself } else { 0 });
            requests.push((due, left));
        }
    }
}
