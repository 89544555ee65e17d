//! Laws of loads in flight: one load for many misses, and nobody waits for ever.

use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::sync::model::{Model, OpenLock, explore};

fn id() -> FileId {
    FileId::new(b"ABCD1234").expect("is an id")
}

/// Server with a cache of one document, which counts replies.
struct TestServer<P: Primitives> {
    inflight: Arc<InflightLoads<usize, P>>,
    cache: P::Lock<Option<()>>,
    loads: AtomicUsize,
    replies: [AtomicUsize; 3],
}

impl<P: Primitives> TestServer<P> {
    fn new() -> Self {
        Self {
            inflight: Arc::new(InflightLoads::new()),
            cache: P::Lock::default(),
            loads: AtomicUsize::new(0),
            replies: Default::default(),
        }
    }

    fn reply(&self, client: usize) {
        self.replies[client].fetch_add(1, Ordering::Relaxed);
    }

    fn request(&self, client: usize) {
        let is_cached = || self.cache.with(|cached| cached.is_some());
        if is_cached() {
            return self.reply(client);
        }
        let Some(load) = self.inflight.join(&id(), || client) else { return };
        if !is_cached() {
            self.loads.fetch_add(1, Ordering::Relaxed);
            self.cache.with(|cached| *cached = Some(()));
        }
        load.complete().into_iter().for_each(|client| self.reply(client));
        self.reply(client);
    }

    /// Asks for what is in no cache, as a document that does not exist.
    fn request_uncached(&self, client: usize) {
        let Some(load) = self.inflight.join(&id(), || client) else { return };
        load.complete().into_iter().for_each(|client| self.reply(client));
        self.reply(client);
    }

    fn assert_settled(&self, requests: usize) {
        assert_eq!(self.loads.load(Ordering::Relaxed), 1, "loads of one document");
        for replies in &self.replies[..requests] {
            assert_eq!(replies.load(Ordering::Relaxed), 1, "every client gets one reply");
        }
        assert!(self.inflight.is_empty());
    }
}

fn request_at_once<P: Primitives>() {
    const REQUESTS: usize = 3;
    let server = Arc::new(TestServer::<P>::new());
    let ask = |client| {
        let server = Arc::clone(&server);
        loom::thread::spawn(move || server.request(client))
    };
    let others: Vec<_> = (1..REQUESTS).map(ask).collect();
    server.request(0);
    others.into_iter().for_each(|thread| thread.join().unwrap());
    server.assert_settled(REQUESTS);
}

#[test]
fn model_concurrent_misses_load_once_and_all_get_replies() {
    explore(3, request_at_once::<Model>);
}

/// The next load of the same document may begin as soon as the one before has ended.
#[test]
fn model_a_load_that_has_ended_takes_no_waiters_of_the_next() {
    explore(3, || {
        let server = Arc::new(TestServer::<Model>::new());
        let ask = |client| {
            let server = Arc::clone(&server);
            loom::thread::spawn(move || server.request_uncached(client))
        };
        let others = [ask(1), ask(2)];
        server.request_uncached(0);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        for replies in &server.replies {
            assert_eq!(replies.load(Ordering::Relaxed), 1, "every client gets one reply");
        }
    });
}

#[test]
#[should_panic(expected = "")]
fn model_finds_a_lock_that_does_not_lock() {
    explore(3, request_at_once::<OpenLock>);
}

#[test]
fn model_a_load_that_panics_keeps_nobody_waiting() {
    explore(3, || {
        let inflight = Arc::new(InflightLoads::<Arc<()>, Model>::new());
        let waiter = Arc::new(());
        let dropped = inflight.join(&id(), || Arc::clone(&waiter)).expect("is the first");
        let other = {
            let (inflight, waiter) = (Arc::clone(&inflight), Arc::clone(&waiter));
            loom::thread::spawn(move || inflight.join(&id(), || waiter).map(drop))
        };
        drop(dropped);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&waiter), 1, "a waiter was dropped with the load, or has loaded itself");
        assert!(inflight.join(&id(), || waiter).is_some(), "the next one loads");
    });
}

#[test]
fn many_threads_that_miss_at_once_load_once() {
    const THREADS: usize = 3;
    for _ in 0..200 {
        let (server, barrier) = (TestServer::<Real>::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for client in 0..THREADS {
                let (server, barrier) = (&server, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    server.request(client);
                });
            }
        });
        server.assert_settled(THREADS);
    }
}

#[test]
fn documents_do_not_wait_for_each_other() {
    let inflight = Arc::new(InflightLoads::<usize>::new());
    let ids: Vec<_> = (0..40).map(|number| FileId::new(format!("{number}").as_bytes()).expect("is an id")).collect();
    let loads: Vec<_> = ids.iter().filter_map(|id| inflight.join(id, || 0)).collect();
    assert_eq!((loads.len(), inflight.len()), (40, 40));
    for (number, id) in ids.iter().enumerate() {
        assert!(inflight.join(id, || number).is_none(), "it is in flight");
    }
    for (number, load) in loads.into_iter().enumerate() {
        assert_eq!(load.id(), &ids[number]);
        assert_eq!(load.complete(), [number]);
    }
    assert!(inflight.is_empty());
}
