//! Counters that threads add to without getting in each other's way.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Threads that have a stripe to themselves: the first ones, which are those that live as long as the server.
const OWNED: usize = 48;
/// Stripes that all later threads are dealt to in turn.
const SHARED: usize = 16;
/// Number of stripes.
pub(crate) const STRIPES: usize = OWNED + SHARED;

/// Two cache lines, since processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<const N: usize>([AtomicU64; N]);

/// `N` counters. Each thread adds to a stripe of its own; a reader sums up.
#[derive(Debug)]
pub struct Counters<const N: usize>(Box<[Stripe<N>]>);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The number of this thread, and with it of its stripe.
#[inline]
pub(crate) fn my_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            stripe.set(if number < OWNED { number } else { OWNED + number % SHARED });
        }
        stripe.get()
    })
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self((0..STRIPES).map(|_| Stripe([const { AtomicU64::new(0) }; N])).collect())
    }
}

impl<const N: usize> Counters<N> {
    #[inline]
    pub fn add(&self, amounts: &[u64; N]) {
        let stripe = my_stripe();
        for (counter, &amount) in self.0[stripe].0.iter().zip(amounts) {
            if amount == 0 {
                continue;
            }
            if stripe < OWNED {
                // Nobody else writes here, so the sum needs no locked instruction.
                counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
            } else {
                counter.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }

    /// Adds to one of them.
    #[inline]
    pub fn add_one(&self, index: usize, amount: u64) {
        let stripe = my_stripe();
        let counter = &self.0[stripe].0[index];
        if stripe < OWNED {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        } else {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// The sums; not one instant's, while others add.
    pub fn sum(&self) -> [u64; N] {
        let mut sums = [0; N];
        for stripe in &self.0 {
            for (sum, counter) in sums.iter_mut().zip(&stripe.0) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let counters = Counters::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * (OWNED + SHARED) {
                scope.spawn(|| {
                    (0..100).for_each(|n| counters.add(&[1, n]));
                    counters.add_one(0, 2);
                });
            }
        });
        assert_eq!(counters.sum(), [12_800 + 256, 128 * 4_950]);
    }
}
