//! One load for many misses; nobody waits for ever.

use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::sync::model::{Model, OpenLock, explore};

fn id() -> FileId {
    FileId::new(b"ABCD1234").expect("is an id")
}

/// What a server does on a request, with a cache of one document, and who was told.
struct Desk<P: Primitives> {
    flights: Arc<Flights<usize, P>>,
    cache: P::Lock<Option<()>>,
    loads: AtomicUsize,
    told: [AtomicUsize; 3],
}

impl<P: Primitives> Desk<P> {
    fn new() -> Self {
        Self {
            flights: Arc::new(Flights::new()),
            cache: P::Lock::default(),
            loads: AtomicUsize::new(0),
            told: Default::default(),
        }
    }

    fn tell(&self, who: usize) {
        self.told[who].fetch_add(1, Ordering::Relaxed);
    }

    fn request(&self, who: usize) {
        let is_cached = || self.cache.with(|cached| cached.is_some());
        if is_cached() {
            return self.tell(who);
        }
        let Some(flight) = self.flights.join(&id(), || who) else { return };
        if !is_cached() {
            self.loads.fetch_add(1, Ordering::Relaxed);
            self.cache.with(|cached| *cached = Some(()));
        }
        flight.land().into_iter().for_each(|who| self.tell(who));
        self.tell(who);
    }

    fn assert_settled(&self, requests: usize) {
        assert_eq!(self.loads.load(Ordering::Relaxed), 1, "loads of one document");
        for told in &self.told[..requests] {
            assert_eq!(told.load(Ordering::Relaxed), 1, "everybody is told, once");
        }
        assert!(self.flights.is_empty());
    }
}

fn request_at_once<P: Primitives>() {
    const REQUESTS: usize = 3;
    let desk = Arc::new(Desk::<P>::new());
    let ask = |who| {
        let desk = Arc::clone(&desk);
        loom::thread::spawn(move || desk.request(who))
    };
    let others: Vec<_> = (1..REQUESTS).map(ask).collect();
    desk.request(0);
    others.into_iter().for_each(|thread| thread.join().unwrap());
    desk.assert_settled(REQUESTS);
}

#[test]
fn model_concurrent_misses_load_once_and_everybody_is_told() {
    explore(3, request_at_once::<Model>);
}

#[test]
#[should_panic(expected = "")]
fn model_notices_a_lock_that_does_not_lock() {
    explore(3, request_at_once::<OpenLock>);
}

#[test]
fn model_a_flight_that_crashes_keeps_nobody_waiting() {
    explore(3, || {
        let flights = Arc::new(Flights::<Arc<()>, Model>::new());
        let waiter = Arc::new(());
        let crashing = flights.join(&id(), || Arc::clone(&waiter)).expect("is the first");
        let other = {
            let (flights, waiter) = (Arc::clone(&flights), Arc::clone(&waiter));
            loom::thread::spawn(move || flights.join(&id(), || waiter).map(drop))
        };
        drop(crashing);
        other.join().unwrap();
        assert_eq!(Arc::strong_count(&waiter), 1, "a waiter was dropped with the flight, or has flown itself");
        assert!(flights.join(&id(), || waiter).is_some(), "the next one loads");
    });
}

#[test]
fn many_threads_that_miss_at_once_load_once() {
    const THREADS: usize = 3;
    for _ in 0..200 {
        let (desk, barrier) = (Desk::<Real>::new(), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for who in 0..THREADS {
                let (desk, barrier) = (&desk, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    desk.request(who);
                });
            }
        });
        desk.assert_settled(THREADS);
    }
}

#[test]
fn documents_do_not_wait_for_each_other() {
    let flights = Arc::new(Flights::<usize>::new());
    let ids: Vec<_> = (0..40).map(|number| FileId::new(format!("{number}").as_bytes()).expect("is an id")).collect();
    let aloft: Vec<_> = ids.iter().filter_map(|id| flights.join(id, || 0)).collect();
    assert_eq!((aloft.len(), flights.len()), (40, 40));
    for (number, id) in ids.iter().enumerate() {
        assert!(flights.join(id, || number).is_none(), "it is under way");
    }
    for (number, flight) in aloft.into_iter().enumerate() {
        assert_eq!(flight.id(), &ids[number]);
        assert_eq!(flight.land(), [number]);
    }
    assert!(flights.is_empty());
}
