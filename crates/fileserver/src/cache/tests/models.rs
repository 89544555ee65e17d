//! The lock-free cache on loom's primitives: every interleaving of a few threads, up to a number of preemptions.
//!
//! The same models must fail on primitives that are broken in one way each, or they would prove nothing.

use loom::thread;

use super::*;
use crate::sync::{
    Primitives,
    model::{ForgetfulCell, Model, TornCounts, explore},
};

type Modelled<P> = LockFree<Hashbrown, Item, P>;

/// Switches away from a thread that could go on; most bugs need one.
const PREEMPTIONS: usize = 3;
/// In models of more steps: a third one multiplies the time by twenty and has found nothing.
const PREEMPTIONS_OF_MANY: usize = 2;
/// Numbers from here on are those of entries that come when all threads are done.
const NEW: u64 = 8;

fn item(version: u64) -> Item {
    Item::new(version, 0, 0)
}

/// State that a thread may see at any moment: entries in sight within the limit, reservations within one more for each
/// thread that inserts.
fn assert_bounded<P: Primitives>(cache: &Modelled<P>, limit: usize, inserting: usize) {
    assert!(cache.visible() <= limit, "more in sight than the limit");
    assert!(cache.used().entries <= limit + inserting, "more reserved than one for each thread beyond the limit");
}

/// After all threads: the counts are those of what is there, and everything that is there can be evicted.
fn assert_settled<P: Primitives>(cache: &Modelled<P>, limit: usize) {
    let each = Usage::of_entry(&id(1), &item(0));
    let (used, visible) = (cache.used(), cache.visible());
    assert_eq!((used.entries, used.bytes), (visible, visible * each.bytes), "reserved, against what is in sight");
    // Twice as many as there is room for, and one: each of those before may be spared once.
    for number in 0..=2 * limit as u64 {
        assert!(cache.insert(&id(NEW + number), item(NEW)), "there is nobody else to wait for");
    }
    assert!((0..NEW).all(|number| cache.get(&id(number)).is_none()), "somebody in sight was not in the queue");
    assert_eq!(cache.visible(), limit);
}

/// Runs each of `threads` in one, the first in this one, which is also the one that watches.
fn run<P: Primitives>(limit: usize, threads: &[fn(&Modelled<P>)]) {
    let cache = Arc::new(Modelled::<P>::new(entries(limit)));
    let spawn = |act: &fn(&Modelled<P>)| {
        let (act, cache) = (*act, Arc::clone(&cache));
        thread::spawn(move || act(&cache))
    };
    let [first, others @ ..] = threads else { return };
    let others: Vec<_> = others.iter().map(spawn).collect();
    first(&cache);
    assert_bounded(&cache, limit, threads.len());
    others.into_iter().for_each(|thread| thread.join().unwrap());
    assert_settled(&cache, limit);
}

/// Two newcomers, and room for one or for both.
fn compete<P: Primitives>() {
    for room in [1, 2] {
        explore(PREEMPTIONS, move || run::<P>(room, &[|cache| keep(cache, 1), |cache| keep(cache, 2)]));
    }
}

fn keep<P: Primitives>(cache: &Modelled<P>, number: u64) {
    cache.insert(&id(number), item(number));
    assert!(cache.get(&id(number)).is_none_or(|found| found.version == number));
}

#[test]
fn model_two_threads_compete_for_room() {
    compete::<Model>();
}

#[test]
fn model_two_threads_insert_for_one_id() {
    let insert = |cache: &Modelled<Model>| assert!(cache.insert(&id(1), item(1)), "there is room for both");
    explore(PREEMPTIONS, move || run(2, &[insert, insert]));
}

#[test]
fn model_an_entry_is_replaced_removed_and_evicted_at_once() {
    explore(PREEMPTIONS_OF_MANY, || {
        run::<Model>(
            1,
            &[
                |cache| keep(cache, 1),
                |cache| {
                    cache.remove_if(&id(1), |_| true);
                },
                |cache| {
                    cache.insert(&id(1), item(1));
                },
            ],
        );
    });
}

#[test]
fn model_a_reader_never_sees_an_older_version_after_a_newer_one() {
    explore(PREEMPTIONS, || {
        run::<Model>(
            2,
            &[
                |cache| {
                    cache.insert(&id(1), item(1));
                    cache.insert(&id(1), item(2));
                    assert!(cache.get(&id(1)).is_none_or(|found| found.version == 2), "it is what was inserted last");
                },
                |cache| {
                    let [first, second] = [(); 2].map(|()| cache.get(&id(1)).map(|found| found.version));
                    assert!(second.is_none() || first <= second, "{first:?}, then {second:?}");
                },
            ],
        );
    });
}

#[test]
fn model_an_entry_in_use_is_evicted_whole_or_spared() {
    explore(PREEMPTIONS_OF_MANY, || {
        run::<Model>(
            1,
            &[
                |cache| {
                    keep(cache, 1);
                    keep(cache, 2);
                },
                |cache| {
                    let found = cache.get(&id(1)).map(|found| found.version);
                    assert!(found.is_none_or(|version| version == 1));
                    keep(cache, 4);
                },
            ],
        );
    });
}

#[test]
#[should_panic(expected = "")]
fn model_notices_a_cell_that_forgets_to_compare() {
    compete::<ForgetfulCell>();
}

#[test]
#[should_panic(expected = "")]
fn model_notices_counts_that_are_not_atomic() {
    compete::<TornCounts>();
}
