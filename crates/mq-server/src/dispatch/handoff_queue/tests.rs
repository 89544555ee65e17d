//! Nothing is lost, nobody waits for ever: in every interleaving, and found out where it is not so.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use loom::sync::{Condvar, Mutex};

use super::{
    HandoffQueue, Line,
    monitor::{Monitor, StdMonitor},
};

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

/// The first design's pool 1: who finds nothing lets go of the lock and then waits for a signal, which may have come.
struct DeafMonitor<T>(LoomMonitor<T>);

impl<T: Send> Monitor<T> for DeafMonitor<T> {
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

/// One pushes more than there is room for, two serve; all that was pushed is served, once.
fn everything_is_served<M: Monitor<Line<usize>> + 'static>() {
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

/// A close ends those who wait, and what nobody has served is still there.
fn a_close_loses_nothing<M: Monitor<Line<usize>> + 'static>() {
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
fn model_everything_is_served() {
    explore(everything_is_served::<LoomMonitor<Line<usize>>>);
}

#[test]
fn model_a_close_loses_nothing() {
    explore(a_close_loses_nothing::<LoomMonitor<Line<usize>>>);
}

#[test]
fn model_notices_the_lost_wake_up_of_the_first_design() {
    for model in [everything_is_served::<DeafMonitor<Line<usize>>>, a_close_loses_nothing::<DeafMonitor<Line<usize>>>] {
        assert!(catch_unwind(AssertUnwindSafe(|| explore(model))).is_err());
    }
}

/// With real threads, many times over what is allowed to wait.
#[test]
fn nothing_is_lost_between_threads() {
    let queue = HandoffQueue::<usize, StdMonitor<Line<usize>>>::new(4);
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
