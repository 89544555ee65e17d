//! No item is lost and no thread waits for ever, in every interleaving; and the models find a queue that breaks this.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use loom::sync::{Condvar, Mutex};

use super::{HandoffQueue, LockMonitor, Monitor, State};

struct LoomMonitor<T> {
    guarded: Mutex<T>,
    changed: Condvar,
}

impl<T: Send> Monitor<T> for LoomMonitor<T> {
    fn new(guarded: T) -> Self {
        Self { guarded: Mutex::new(guarded), changed: Condvar::new() }
    }

    fn wait_until<R>(&self, mut attempt: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut guarded = self.guarded.lock().unwrap();
        loop {
            if let Some(result) = attempt(&mut guarded) {
                drop(guarded);
                self.changed.notify_all();
                return result;
            }
            guarded = self.changed.wait(guarded).unwrap();
        }
    }
}

/// Monitor of the original's pool 1: a worker that finds nothing releases the lock and only then waits for a signal, which
/// may have come in between.
struct LostWakeupMonitor<T>(LoomMonitor<T>);

impl<T: Send> Monitor<T> for LostWakeupMonitor<T> {
    fn new(guarded: T) -> Self {
        Self(LoomMonitor::new(guarded))
    }

    fn wait_until<R>(&self, mut attempt: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            let result = attempt(&mut self.0.guarded.lock().unwrap());
            if let Some(result) = result {
                self.0.changed.notify_all();
                return result;
            }
            drop(self.0.changed.wait(self.0.guarded.lock().unwrap()).unwrap());
        }
    }
}

fn explore(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// One thread pushes more than there is room for, two serve: all items are served, once.
fn every_item_is_served_once<M: Monitor<State<usize>> + 'static>() {
    const ITEMS: usize = 3;
    let queue = Arc::new(HandoffQueue::<usize, M>::on_monitor(1));
    let serve = |share: usize| {
        let queue = Arc::clone(&queue);
        loom::thread::spawn(move || (0..share).filter_map(|_| queue.pop()).sum::<usize>())
    };
    let (first, second) = (serve(1), serve(2));
    (1..=ITEMS).for_each(|item| queue.push(item).unwrap());
    assert_eq!(first.join().unwrap() + second.join().unwrap(), 6);
    assert!(queue.take_all().is_empty());
}

/// A close ends every wait, and items that were not served are still there.
fn a_close_loses_no_item<M: Monitor<State<usize>> + 'static>() {
    let queue = Arc::new(HandoffQueue::<usize, M>::on_monitor(1));
    let worker = Arc::clone(&queue);
    let worker = loom::thread::spawn(move || std::iter::from_fn(|| worker.pop()).sum::<usize>());
    let closer = Arc::clone(&queue);
    let closer = loom::thread::spawn(move || closer.close());
    let refused: usize = (1..=2).filter_map(|item| queue.push(item).err()).sum();
    closer.join().unwrap();
    let served = worker.join().unwrap();
    assert_eq!(served + refused + queue.take_all().into_iter().sum::<usize>(), 3);
}

#[test]
fn model_every_item_is_served_once() {
    explore(every_item_is_served_once::<LoomMonitor<State<usize>>>);
}

#[test]
fn model_a_close_loses_no_item() {
    explore(a_close_loses_no_item::<LoomMonitor<State<usize>>>);
}

#[test]
fn model_finds_the_lost_wake_up_of_the_original() {
    for model in [
        every_item_is_served_once::<LostWakeupMonitor<State<usize>>>,
        a_close_loses_no_item::<LostWakeupMonitor<State<usize>>>,
    ] {
        assert!(catch_unwind(AssertUnwindSafe(|| explore(model))).is_err());
    }
}

/// With real threads, and many more items than the queue holds.
#[test]
fn no_item_is_lost_between_threads() {
    let queue = HandoffQueue::<usize, LockMonitor<State<usize>>>::new(4);
    let (queue, served) = (&queue, &std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| std::iter::from_fn(|| queue.pop()).for_each(|item| served.lock().unwrap().push(item)))
            })
            .collect();
        (0..1_000).for_each(|item| queue.push(item).unwrap());
        while served.lock().unwrap().len() < 1_000 {
            std::thread::yield_now();
        }
        queue.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let mut served = served.lock().unwrap().clone();
    served.sort_unstable();
    assert!(served.into_iter().eq(0..1_000));
    assert_eq!(queue.push(1), Err(1));
}
