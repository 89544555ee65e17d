//! Loads of documents, their number, and the bounds of the cache.

use std::sync::Barrier;

use fileserver::{
    Combination,
    cache::{CacheLimits, CacheMapKind},
};
use layouts::LayoutKind;
use wire::file::Status;

use crate::common::{Collection, DATABASE, PLAIN, ROOMY, Setup, World, caches, contents, frame, replies, settle};

const THREADS: usize = 4;

fn keeping() -> impl Iterator<Item = Combination> {
    caches().filter(|choice| choice.cache_map != CacheMapKind::None)
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("DOC{number:05}")).collect()
}

fn collection(count: usize, size: impl Fn(usize) -> usize) -> Collection {
    let collection = Collection::empty(LayoutKind::Flat);
    for (number, id) in ids(count).iter().enumerate() {
        collection.write(id, &contents(id, size(number)));
    }
    settle();
    collection
}

/// A request for a document in flight waits for it, on any thread.
#[test]
fn concurrent_misses_load_a_document_once() {
    const COUNT: usize = 40;
    let collection = collection(COUNT, |number| number * 500);
    for source in [PLAIN, Setup { readers: 3, ..PLAIN }, DATABASE] {
        for choice in keeping() {
            let setup = Setup { choice, ..source };
            let world = World::new(&setup, &collection);
            let barrier = Barrier::new(THREADS);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for (number, id) in ids(COUNT).iter().enumerate() {
                            barrier.wait();
                            let (status, body) = world.get(id);
                            assert!(status == Status::Found && body == contents(id, number * 500), "{id}: {status:?}");
                        }
                    });
                }
            });
            let statistics = world.server.statistics();
            assert_eq!(statistics.loads, COUNT as u64, "{setup:?}: {statistics:?}");
            assert_eq!(statistics.requests(), (THREADS * COUNT) as u64);
            assert!(statistics.misses >= statistics.loads + statistics.coalesced, "{statistics:?}");
        }
    }
}

/// A document asked for several times in one go is loaded once, too, and every reply keeps its place.
#[test]
fn pipelined_misses_are_answered_in_order() {
    const COUNT: usize = 30;
    let collection = collection(COUNT, |number| number * 700);
    for source in [PLAIN, Setup { readers: 3, ..PLAIN }, DATABASE] {
        let world = World::new(&source, &collection);
        let ids = ids(COUNT);
        let asked: Vec<&str> = (0..200).map(|n| &*ids[n * 7 % COUNT]).collect();
        let got = world.get_all(&asked.iter().map(|id| id.as_bytes()).collect::<Vec<_>>());
        assert_eq!(got.len(), asked.len());
        for (n, (id, (status, body))) in asked.iter().zip(&got).enumerate() {
            assert!(
                *status == Status::Found && *body == contents(id, n * 7 % COUNT * 700),
                "reply {n}, {id}: {status:?}"
            );
        }
        assert_eq!(world.server.statistics().loads, COUNT as u64);
    }
}

/// Entries, bytes and descriptors: whichever is short, whatever is asked for in whatever order.
#[test]
fn a_cache_keeps_to_its_bounds() {
    const COUNT: usize = 60;
    // Every third is kept as a descriptor.
    let size = |number: usize| if number.is_multiple_of(3) { 20_000 } else { number * 100 };
    let collection = collection(COUNT, size);
    let short = [
        CacheLimits { entries: 7, ..ROOMY },
        CacheLimits { bytes: 30_000, ..ROOMY },
        CacheLimits { descriptors: 3, ..ROOMY },
        CacheLimits { descriptors: 0, ..ROOMY },
        CacheLimits { entries: 0, ..ROOMY },
    ];
    for limits in short {
        for choice in keeping() {
            let world = World::new(&Setup { choice, cache: limits, ..PLAIN }, &collection);
            let (ids, mut random) = (ids(COUNT), fastrand::Rng::with_seed(3));
            for _ in 0..150 {
                let number = random.usize(..COUNT);
                let (status, body) = world.get(&ids[number]);
                assert!(status == Status::Found && body == contents(&ids[number], size(number)));
                let (used, _) = world.server.cache();
                let holds = used.entries <= limits.entries
                    && used.bytes <= limits.bytes
                    && used.descriptors <= limits.descriptors;
                assert!(holds, "{used:?} of {limits:?} with {choice:?}");
            }
        }
    }
}

/// More loads than the queue of the readers holds: those beyond are answered at once, the others in the end, and then there
/// is room again. A writer that has locked the database holds up the only reader.
#[test]
fn a_full_queue_is_reported_as_unavailable() {
    const COUNT: usize = 2_000;
    /// Same as in `readers`.
    const QUEUE: usize = 1_024;
    let collection = collection(COUNT, |_| 10);
    let setup = Setup { readers: 1, cache: CacheLimits { entries: 10_000, ..ROOMY }, ..DATABASE };
    let world = World::new(&setup, &collection);
    let writer = rusqlite::Connection::open(collection.outside().join("documents.db")).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ids = ids(COUNT);
    // One request of each of many connections, before any reply is taken.
    let mut sessions: Vec<_> = ids.iter().map(|_| world.session()).collect();
    for (session, id) in sessions.iter_mut().zip(&ids) {
        session.feed(&world.server, &frame(id.as_bytes()), world.now);
    }
    // A load that waits in vain is one as well, and makes room for another.
    let tried = world.server.statistics().loads;
    let refused = (COUNT - QUEUE) as u64 - tried;
    assert!(tried < refused, "the queue did not fill: {tried} loads came to an end, or began");
    let unavailable = world.server.statistics().answers[3];
    assert!(unavailable >= refused - 1, "{unavailable} were refused, and there was no room for {refused}");

    writer.execute_batch("COMMIT").unwrap();
    let mut replies = sessions.iter_mut().map(|session| {
        let mut bytes = Vec::new();
        testkit::dialogue::flush(session, &mut bytes, usize::MAX);
        replies(&bytes).remove(0)
    });
    for (id, reply) in ids.iter().zip(&mut replies) {
        let expected = [(Status::Found, contents(id, 10)), (Status::Unavailable, Vec::new())];
        assert!(expected.contains(&reply), "{reply:?}");
    }
    let statistics = world.server.statistics();
    let [found, missing, malformed, unavailable, failed] = statistics.answers;
    assert_eq!((found + unavailable, missing, malformed, failed), (COUNT as u64, 0, 0, 0));
    assert!(found > 0 && unavailable >= refused - 1, "{statistics:?}");
    assert!(statistics.loads <= (COUNT as u64 - refused) + 1, "who was refused was loaded for: {statistics:?}");

    // Nothing is left of it.
    for id in &ids {
        assert_eq!(world.get(id), (Status::Found, contents(id, 10)));
    }
}
