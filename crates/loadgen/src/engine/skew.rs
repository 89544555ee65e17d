//! Uneven loads of an open loop: some of the connections carry most of the requests.

use std::collections::VecDeque;

use fastrand::Rng;

/// Share of the connections, and the share of the requests that it carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skew {
    pub connections: f64,
    pub requests: f64,
}

/// Connections of one thread that take another request, in the order in which they came free.
#[derive(Debug)]
pub(super) struct WithRoom {
    uneven: Option<Uneven>,
    rest: VecDeque<usize>,
    /// Those that carry more.
    busy: VecDeque<usize>,
}

#[derive(Debug)]
struct Uneven {
    /// Share of the requests of the busy connections, which are the slots below a number.
    requests: f64,
    busy: usize,
    rng: Rng,
}

impl WithRoom {
    /// Has none yet of the `connections` of a thread.
    pub(super) fn new(connections: usize, skew: Option<Skew>, seed: u64, thread: usize) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a number of connections"
        )]
        let uneven = |skew: Skew| Uneven {
            requests: skew.requests,
            busy: ((connections as f64 * skew.connections).round() as usize).max(1),
            rng: Rng::with_seed(seed.rotate_left(32) ^ thread as u64),
        };
        Self { uneven: skew.map(uneven), rest: VecDeque::with_capacity(connections), busy: VecDeque::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, slot: usize) {
        match &self.uneven {
            Some(uneven) if slot < uneven.busy => self.busy.push_back(slot),
            _ => self.rest.push_back(slot),
        }
    }

    /// Takes the connection that the next request goes to. Where all of its kind are occupied it is one of the others, so
    /// that the whole load is offered.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        let Some(uneven) = &mut self.uneven else { return self.rest.pop_front() };
        if uneven.rng.f64() < uneven.requests {
            self.busy.pop_front().or_else(|| self.rest.pop_front())
        } else {
            self.rest.pop_front().or_else(|| self.busy.pop_front())
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.busy.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the requests of each connection, every one of which is answered at once.
    fn counts(connections: usize, skew: Option<Skew>, requests: usize) -> Vec<usize> {
        let mut with_room = WithRoom::new(connections, skew, 7, 0);
        (0..connections).for_each(|slot| with_room.push(slot));
        let mut counts = vec![0; connections];
        for _ in 0..requests {
            let slot = with_room.pop().unwrap();
            counts[slot] += 1;
            with_room.push(slot);
        }
        counts
    }

    #[test]
    fn a_tenth_of_the_connections_carries_nine_tenths_of_the_requests() {
        let counts = counts(50, Some(Skew { connections: 0.1, requests: 0.9 }), 100_000);
        let busy: usize = counts[..5].iter().sum();
        // Five deviations.
        assert!(busy.abs_diff(90_000) < 475, "{busy}");
        assert!(counts[..5].iter().all(|&count| count.abs_diff(busy / 5) <= 1), "in turn: {counts:?}");
        assert!(counts[5..].iter().all(|&count| count > 0));
    }

    #[test]
    fn without_a_skew_all_have_their_turn() {
        assert_eq!(counts(4, None, 40), [10; 4]);
    }

    #[test]
    fn what_is_free_is_taken_and_one_connection_is_busy_at_least() {
        let mut with_room = WithRoom::new(3, Some(Skew { connections: 0.1, requests: 1.0 }), 7, 0);
        (0..3).for_each(|slot| with_room.push(slot));
        let taken: Vec<_> = (0..4).map(|_| with_room.pop()).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), None]);
        assert!(with_room.is_empty());
    }
}
