//! What the concurrent parts are built on.
//!
//! A trait instead of `cfg(loom)`, under which some of our dependencies would not build: the models are tests like any
//! other, of the very code that serves, instantiated on loom's primitives.

#[cfg(test)]
pub(crate) mod model;
mod real;

use std::sync::Arc;

pub use self::real::Real;

/// A set of primitives.
pub trait Primitives: Send + Sync + 'static {
    type Flag: Flag;
    type Count: Count;
    type Cell<T: Send + Sync + 'static>: Cell<T>;
    type Queue<T: Send + 'static>: Queue<T>;
    type Lock<T: Default + Send + 'static>: Lock<T>;
}

/// A bit that orders nothing else.
pub trait Flag: Default + Send + Sync {
    fn is_set(&self) -> bool;
    fn set(&self);
    /// Whether it was set.
    fn clear(&self) -> bool;
}

/// A number that orders nothing else.
pub trait Count: Default + Send + Sync {
    fn get(&self) -> usize;
    /// What it was before.
    fn add(&self, more: usize) -> usize;
    fn subtract(&self, less: usize);
}

/// A place for a shared value, read without waiting and replaced as a whole.
pub trait Cell<T: Send + Sync + 'static>: Send + Sync {
    fn new(value: Arc<T>) -> Self;
    /// Shows what is there now.
    fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R;
    fn load(&self) -> Arc<T>;
    /// Whether `current` was there, and now `next` is.
    fn replace(&self, current: &Arc<T>, next: Arc<T>) -> bool;
}

/// First in, first out.
pub trait Queue<T: Send + 'static>: Default + Send + Sync {
    fn push(&self, item: T);
    fn pop(&self) -> Option<T>;
    /// How long it is, or was a moment ago.
    fn places(&self) -> usize;
}

/// A mutex.
pub trait Lock<T: Default + Send + 'static>: Default + Send + Sync {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R;
}
