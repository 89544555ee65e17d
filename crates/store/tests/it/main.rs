//! The laws of every store, every policy and every cache.

mod entries;
mod eviction;
mod hit_ratio;
mod laws;
mod memory;
mod model;
mod traces;

use store::{Cache, KeyHasher, Moment, PolicyKind, Store, StoreOptions};

/// Declares the tests of all stores.
macro_rules! for_each_store {
    ($($name:ident: $store:ty,)+) => { $(mod $name {
        use store::PolicyKind;

        #[test]
        fn a_cache_behaves_like_a_map_with_expiry() {
            crate::model::check::<$store>();
        }

        #[test]
        fn a_scan_visits_every_entry_that_stays() {
            crate::laws::scan_shows_what_stays::<$store>();
        }

        #[test]
        fn a_sweep_finds_every_entry_that_expires() {
            crate::laws::sweep_finds_what_expires::<$store>();
        }

        #[test]
        fn no_entry_outlives_its_time_however_late_a_sweep_is() {
            crate::laws::no_entry_outlives_its_time::<$store>();
        }

        #[test]
        fn samples_are_more_or_less_even() {
            crate::laws::samples_are_even::<$store>();
        }

        #[test]
        fn words_and_handles_belong_to_blocks() {
            crate::laws::words_belong_to_blocks::<$store>();
        }

        #[test]
        fn compaction_reports_every_new_handle() {
            crate::laws::compaction_tells_every_new_handle::<$store>();
        }

        #[test]
        fn the_limit_holds_under_every_policy() {
            let policies = <PolicyKind as clap::ValueEnum>::value_variants();
            policies.iter().for_each(|&policy| crate::eviction::the_limit_holds::<$store>(policy));
        }

        #[test]
        fn volatile_policies_keep_entries_that_do_not_expire() {
            crate::eviction::volatile_policies_spare_what_does_not_expire::<$store>();
        }

        #[test]
        fn a_full_cache_refuses_without_losing_anything() {
            crate::eviction::a_full_cache_refuses_without_losing_anything::<$store>();
        }

        #[test]
        fn policies_change_at_run_time() {
            crate::eviction::policies_change_at_run_time::<$store>();
        }

        #[test]
        fn a_lowered_limit_is_reached() {
            crate::eviction::a_lowered_limit_is_reached::<$store>();
        }

        #[test]
        fn uses_are_noted_for_whoever_asks() {
            crate::eviction::uses_are_noted_for_whoever_asks::<$store>();
        }

        #[test]
        fn queues_stay_short_under_churn() {
            crate::eviction::queues_stay_short::<$store>();
        }

        #[test]
        fn entries_of_other_sizes_get_the_memory() {
            crate::eviction::other_sizes_get_the_memory::<$store>();
        }
    })+ };
}

for_each_store! {
    std_store: store::StdStore,
    hashbrown_store: store::HashbrownStore,
    packed_store: store::PackedStore,
}

fn options() -> StoreOptions {
    StoreOptions {
        hasher: KeyHasher::with_seed(1),
        advise: |_| (),

        release: |memory| memory.fill(std::mem::MaybeUninit::new(0)),
    }
}

fn cache<S: Store>(policy: PolicyKind, limit: Option<usize>) -> Cache<S> {
    Cache::new(options(), policy, limit, 1)
}

const NOW: Moment = Moment { unix_ms: 1_700_000_000_000 };
