//! What `stats` tells of commands.

use std::sync::atomic::{AtomicU64, Ordering};

/// A total since the start, or since `stats reset`.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add_to(&self, other: &Self, first: bool) {
        if first { self.add() } else { other.add() }
    }
}

macro_rules! counters {
    ($($name:ident)+) => {
        /// By memcached's names; [`Counters::each`] lists them in its order.
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)+
        }

        impl Counters {
            pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get()),)+].into_iter()
            }

            pub(super) fn reset(&self) {
                $(self.$name.0.store(0, Ordering::Relaxed);)+
            }
        }
    };
}

counters! {
    cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses delete_misses delete_hits incr_misses incr_hits
    decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory
}

impl Counters {
    pub(super) fn touched(&self, found: bool) {
        self.cmd_touch.add();
        self.touch_hits.add_to(&self.touch_misses, found);
    }

    pub(super) fn deleted(&self, found: bool) {
        self.delete_hits.add_to(&self.delete_misses, found);
    }

    pub(super) fn got(&self, found: bool) {
        self.cmd_get.add();
        self.get_hits.add_to(&self.get_misses, found);
    }

    pub(super) fn counted(&self, up: bool, found: bool) {
        match up {
            true => self.incr_hits.add_to(&self.incr_misses, found),
            false => self.decr_hits.add_to(&self.decr_misses, found),
        }
    }
}
