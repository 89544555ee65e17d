//! Limits that are kept by reservation: a part of a budget is reserved, and given back by dropping the reservation.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Limited amount in units of its own: bytes, descriptors.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    used: AtomicU64,
}

/// A part of a budget.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    amount: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Account { limit, used: AtomicU64::new(0) }))
    }

    /// `None` when there is not so much left.
    pub fn reserve(&self, amount: u64) -> Option<Reservation> {
        let more = |used: u64| used.checked_add(amount).filter(|&used| used <= self.0.limit);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Reservation { account: Arc::clone(&self.0), amount })
    }

    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> u64 {
        self.0.limit
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The amount used is the sum of all reservations, and never more than the limit.
        #[test]
        fn the_books_agree(limit in 0..50_u64, ops in proptest::collection::vec((any::<bool>(), 0..20_u64), 0..60)) {
            let budget = Budget::new(limit);
            let mut held: Vec<(u64, Reservation)> = Vec::new();
            for (take, amount) in ops {
                let sum: u64 = held.iter().map(|(amount, _)| amount).sum();
                prop_assert_eq!(budget.used(), sum);
                match budget.reserve(amount) {
                    Some(reservation) if take => held.push((amount, reservation)),
                    Some(_) => drop(held.pop()),
                    None => prop_assert!(sum + amount > limit),
                }
            }
            drop(held);
            prop_assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn threads_together_do_not_pass_the_limit() {
        let budget = Budget::new(100);
        let granted: usize = std::thread::scope(|scope| {
            let grab = || (0..60).filter_map(|_| budget.reserve(1)).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(grab)).collect();
            let held: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            held.iter().map(Vec::len).sum()
        });
        assert_eq!((granted, budget.used()), (100, 0));
    }
}
