//! Representations that are being made, and the requests that wait for them.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use proto::{Outbox, Promise};
use wire::http1::coding::Coding;

use crate::workers::Workers;

/// Number of requests that wait for one representation; others get what there is.
const WAITING_MAX: usize = 1024;

/// Representations that are being made, or whatever else requests wait for: each by one worker, however many requests want
/// it.
#[derive(Clone, Debug)]
pub struct Preparations<K = RepresentationKey>(Arc<Mutex<HashMap<K, Vec<Promise>>>>);

/// Normal path and coding.
pub type RepresentationKey = (Vec<u8>, Coding);

impl<K> Default for Preparations<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl Preparations {
    /// Has `make` run by a worker, unless it runs already for this path and coding. A promise that `defer` makes is
    /// fulfilled afterwards with nothing, so that the request is read again. Returns false where there is no room to wait;
    /// then `defer` has not been called.
    pub fn prepare(
        &self,
        path: &[u8],
        coding: Coding,
        defer: impl FnOnce() -> Promise,
        make: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.prepare_on(Workers::shared(), (path.to_vec(), coding), defer, make)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Preparations<K> {
    /// Does the same with these workers, for any key.
    pub(crate) fn prepare_on(
        &self,
        workers: &Workers,
        key: K,
        defer: impl FnOnce() -> Promise,
        make: impl FnOnce() + Send + 'static,
    ) -> bool {
        let mut running = self.0.lock();
        if let Some(waiting) = running.get_mut(&key) {
            let has_room = waiting.len() < WAITING_MAX;
            if has_room {
                waiting.push(defer());
            }
            return has_room;
        }
        // Its end is noted however it comes, also for a job that is never queued.
        let ended = Ended { preparations: Self(Arc::clone(&self.0)), key: key.clone() };
        running.insert(key.clone(), Vec::new());
        let job = move || {
            let _ended = ended;
            make();
        };
        drop(running);
        if workers.submit(job).is_err() {
            return false;
        }
        let promise = defer();
        match self.0.lock().get_mut(&key) {
            Some(waiting) => waiting.push(promise),
            // It has been quick.
            None => promise.fulfil(Outbox::default()),
        }
        true
    }

    /// Number of representations that are being made.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Lets the waiting requests go on when it is dropped.
struct Ended<K: Eq + Hash> {
    preparations: Preparations<K>,
    key: K,
}

impl<K: Eq + Hash> Drop for Ended<K> {
    fn drop(&mut self) {
        let waiting = self.preparations.0.lock().remove(&self.key);
        waiting.into_iter().flatten().for_each(|promise| promise.fulfil(Outbox::default()));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        task::Waker,
        thread,
    };

    use super::*;

    fn wait(out: &mut Outbox) {
        while out.poll_reply(Waker::noop()).is_pending() {
            thread::yield_now();
        }
        assert!(out.is_idle() && !out.is_broken(), "nothing is sent, and the connection goes on");
    }

    #[test]
    fn a_representation_is_made_once_for_all_who_wait() {
        let (preparations, made) = (Preparations::default(), Arc::new(AtomicUsize::new(0)));
        let barrier = Arc::new(Barrier::new(2));
        let mut waiting: Vec<Outbox> = (0..WAITING_MAX).map(|_| Outbox::default()).collect();
        let mut ask = |out: &mut Outbox| {
            let (made, barrier) = (Arc::clone(&made), Arc::clone(&barrier));
            let make = move || {
                made.fetch_add(1, Ordering::Relaxed);
                barrier.wait();
            };
            preparations.prepare(b"/a", Coding::Gzip, || out.defer(), make)
        };
        assert!(waiting.iter_mut().all(&mut ask));
        let mut late = Outbox::default();
        assert!(!ask(&mut late) && late.is_idle(), "no room to wait");
        barrier.wait();
        waiting.iter_mut().for_each(wait);
        assert_eq!((made.load(Ordering::Relaxed), preparations.is_empty()), (1, true));
    }

    #[test]
    fn a_job_that_panics_lets_its_requests_go_on() {
        let (preparations, mut out) = (Preparations::default(), Outbox::default());
        assert!(preparations.prepare(b"/a", Coding::Gzip, || out.defer(), || panic!("as intended")));
        wait(&mut out);
        assert!(preparations.is_empty());
    }
}
