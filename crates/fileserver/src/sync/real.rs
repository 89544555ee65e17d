//! Primitives of the server.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use arc_swap::ArcSwap;
use crossbeam_queue::SegQueue;
use parking_lot::Mutex;

use super::{Cell, Count, Flag, Lock, Primitives, Queue};

/// Cell of arc-swap, queue of crossbeam, mutex of parking_lot, and the standard library's atomics.
#[derive(Clone, Copy, Debug)]
pub struct Real;

impl Primitives for Real {
    type Flag = AtomicBool;
    type Count = AtomicUsize;
    type Cell<T: Send + Sync + 'static> = ArcSwap<T>;
    type Queue<T: Send + 'static> = SegQueue<T>;
    type Lock<T: Default + Send + 'static> = Mutex<T>;
}

impl Flag for AtomicBool {
    #[inline]
    fn is_set(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self) {
        self.store(true, Ordering::Relaxed);
    }

    fn clear(&self) -> bool {
        self.swap(false, Ordering::Relaxed)
    }
}

impl Count for AtomicUsize {
    fn get(&self) -> usize {
        self.load(Ordering::Relaxed)
    }

    fn add(&self, more: usize) -> usize {
        self.fetch_add(more, Ordering::Relaxed)
    }

    fn subtract(&self, less: usize) {
        self.fetch_sub(less, Ordering::Relaxed);
    }
}

impl<T: Send + Sync + 'static> Cell<T> for ArcSwap<T> {
    fn new(value: Arc<T>) -> Self {
        Self::new(value)
    }

    #[inline]
    fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R {
        act(&self.load())
    }

    fn load(&self) -> Arc<T> {
        self.load_full()
    }

    fn replace(&self, current: &Arc<T>, next: Arc<T>) -> bool {
        let before = self.compare_and_swap(current, next);
        Arc::ptr_eq(&before, current)
    }
}

impl<T: Send + 'static> Queue<T> for SegQueue<T> {
    fn push(&self, item: T) {
        self.push(item);
    }

    fn pop(&self) -> Option<T> {
        self.pop()
    }

    fn approximate_len(&self) -> usize {
        self.len()
    }
}

impl<T: Default + Send + 'static> Lock<T> for Mutex<T> {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.lock())
    }
}
