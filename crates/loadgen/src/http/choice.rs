//! Choice of the next request: each in turn, or those of an order once.

use std::sync::Arc;

/// Requests of one client, by their places.
#[derive(Debug)]
pub(super) struct RequestChoice {
    count: usize,
    pub(super) next: usize,
    order: Option<Order>,
}

/// Order of requests that is not their turn.
#[derive(Debug)]
struct Order {
    requests: Arc<[u32]>,
    /// Place of the next one, and the distance to the one after it.
    place: usize,
    step: usize,
}

impl RequestChoice {
    /// Makes the choice of `count` requests in turn, `first` being the one to begin with.
    pub(super) fn in_turn(count: usize, first: usize) -> Self {
        Self { count, next: first % count, order: None }
    }

    /// Has the requests of an order sent once, of which each thread has the places that are its own.
    pub(super) fn follow(&mut self, requests: Arc<[u32]>, thread: usize, threads: usize) {
        self.order = Some(Order { requests, place: thread, step: threads });
    }

    #[inline]
    pub(super) fn next(&mut self) -> usize {
        if let Some(chosen) = self.order.as_mut().and_then(Order::next) {
            return chosen;
        }
        let chosen = self.next;
        self.next = if chosen + 1 == self.count { 0 } else { chosen + 1 };
        chosen
    }

    /// Passes over a place of the order.
    pub(super) fn skip(&mut self) {
        if let Some(order) = &mut self.order {
            order.next();
        }
    }
}

impl Order {
    fn next(&mut self) -> Option<usize> {
        let next = self.requests.get(self.place).map(|request| *request as usize);
        self.place += self.step;
        next
    }
}
