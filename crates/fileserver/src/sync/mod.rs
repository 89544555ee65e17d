//! Primitives that the concurrent parts are built on.
//!
//! A trait instead of `cfg(loom)`, under which some of our dependencies would not build: the models are tests like any
//! other, of the very code that serves, instantiated on loom's primitives.

#[cfg(test)]
pub(crate) mod model;
mod real;

use std::sync::Arc;

pub use self::real::Real;

/// Set of primitives.
pub trait Primitives: Send + Sync + 'static {
    type Flag: Flag;
    type Count: Count;
    type Cell<T: Send + Sync + 'static>: Cell<T>;
    type Queue<T: Send + 'static>: Queue<T>;
    type Lock<T: Default + Send + 'static>: Lock<T>;
}

/// Bit that orders nothing else.
pub trait Flag: Default + Send + Sync {
    fn is_set(&self) -> bool;
    fn set(&self);
    /// Clears the bit. Returns true if it was set.
    fn clear(&self) -> bool;
}

/// Number that orders nothing else.
pub trait Count: Default + Send + Sync {
    fn get(&self) -> usize;
    /// Adds to the number. Returns what it was before.
    fn add(&self, more: usize) -> usize;
    fn subtract(&self, less: usize);
}

/// Cell for a shared value, which is read without waiting and replaced as a whole.
pub trait Cell<T: Send + Sync + 'static>: Send + Sync {
    fn new(value: Arc<T>) -> Self;
    /// Calls `act` with the current value.
    fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R;
    fn load(&self) -> Arc<T>;
    /// Replaces `current` by `next`. Returns false if the value is another one by now.
    fn replace(&self, current: &Arc<T>, next: Arc<T>) -> bool;
}

/// Queue, first in, first out.
pub trait Queue<T: Send + 'static>: Default + Send + Sync {
    fn push(&self, item: T);
    fn pop(&self) -> Option<T>;
    /// Length, now or a moment ago.
    fn approximate_len(&self) -> usize;
}

/// Mutex.
pub trait Lock<T: Default + Send + 'static>: Default + Send + Sync {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R;
}
