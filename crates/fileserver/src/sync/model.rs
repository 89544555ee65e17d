//! Primitives under loom's control, and broken ones that the models must find.
//!
//! Atomics and locks are loom's own. The cell and the queue are linearizable stand-ins: the models check our use of them,
//! not arc-swap and crossbeam.

use std::{collections::VecDeque, sync::Arc};

use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::{Cell, Count, Flag, Lock, Primitives, Queue};

/// Explores the interleavings of `run` with up to `preemptions` switches away from a thread that could go on.
pub(crate) fn explore(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

pub(crate) struct Model;

impl Primitives for Model {
    type Flag = AtomicBool;
    type Count = AtomicUsize;
    type Cell<T: Send + Sync + 'static> = LockedCell<T>;
    type Queue<T: Send + 'static> = LockedQueue<T>;
    type Lock<T: Default + Send + 'static> = Mutex<T>;
}

impl Flag for AtomicBool {
    fn is_set(&self) -> bool {
        self.load(Ordering::Relaxed)
    }

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

pub(crate) struct LockedCell<T>(Mutex<Arc<T>>);

impl<T: Send + Sync + 'static> Cell<T> for LockedCell<T> {
    fn new(value: Arc<T>) -> Self {
        Self(Mutex::new(value))
    }

    fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R {
        // Not under the lock, or the cell could not change while it is shown.
        act(&self.load())
    }

    fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap())
    }

    fn replace(&self, current: &Arc<T>, next: Arc<T>) -> bool {
        let mut current_value = self.0.lock().unwrap();
        let is_current = Arc::ptr_eq(&current_value, current);
        if is_current {
            *current_value = next;
        }
        is_current
    }
}

pub(crate) struct LockedQueue<T>(Mutex<VecDeque<T>>);

impl<T> Default for LockedQueue<T> {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }
}

impl<T: Send + 'static> Queue<T> for LockedQueue<T> {
    fn push(&self, item: T) {
        self.0.lock().unwrap().push_back(item);
    }

    fn pop(&self) -> Option<T> {
        self.0.lock().unwrap().pop_front()
    }

    fn approximate_len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl<T: Default + Send + 'static> Lock<T> for Mutex<T> {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.lock().unwrap())
    }
}

/// Primitives with a cell that replaces without comparing.
pub(crate) struct ForgetfulCell;

impl Primitives for ForgetfulCell {
    type Flag = AtomicBool;
    type Count = AtomicUsize;
    type Cell<T: Send + Sync + 'static> = Overwritten<T>;
    type Queue<T: Send + 'static> = LockedQueue<T>;
    type Lock<T: Default + Send + 'static> = Mutex<T>;
}

pub(crate) struct Overwritten<T>(LockedCell<T>);

impl<T: Send + Sync + 'static> Cell<T> for Overwritten<T> {
    fn new(value: Arc<T>) -> Self {
        Self(LockedCell::new(value))
    }

    fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R {
        self.0.with(act)
    }

    fn load(&self) -> Arc<T> {
        self.0.load()
    }

    fn replace(&self, _: &Arc<T>, next: Arc<T>) -> bool {
        *self.0.0.lock().unwrap() = next;
        true
    }
}

/// Primitives with counts that are read and written in two steps.
pub(crate) struct TornCounts;

impl Primitives for TornCounts {
    type Flag = AtomicBool;
    type Count = Torn;
    type Cell<T: Send + Sync + 'static> = LockedCell<T>;
    type Queue<T: Send + 'static> = LockedQueue<T>;
    type Lock<T: Default + Send + 'static> = Mutex<T>;
}

#[derive(Default)]
pub(crate) struct Torn(AtomicUsize);

impl Count for Torn {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn add(&self, more: usize) -> usize {
        let before = self.0.load(Ordering::SeqCst);
        self.0.store(before + more, Ordering::SeqCst);
        before
    }

    fn subtract(&self, less: usize) {
        self.0.store(self.0.load(Ordering::SeqCst).wrapping_sub(less), Ordering::SeqCst);
    }
}

/// Primitives with a lock that is open while it is used.
pub(crate) struct OpenLock;

impl Primitives for OpenLock {
    type Flag = AtomicBool;
    type Count = AtomicUsize;
    type Cell<T: Send + Sync + 'static> = LockedCell<T>;
    type Queue<T: Send + 'static> = LockedQueue<T>;
    type Lock<T: Default + Send + 'static> = Open<T>;
}

#[derive(Default)]
pub(crate) struct Open<T>(Mutex<T>);

impl<T: Default + Send + 'static> Lock<T> for Open<T> {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut taken = std::mem::take(&mut *self.0.lock().unwrap());
        let result = act(&mut taken);
        *self.0.lock().unwrap() = taken;
        result
    }
}
