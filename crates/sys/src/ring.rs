//! io_uring(7), safe to use: whatever the kernel may touch is owned by the ring until the kernel is done with it.
//!
//! [`Ring`] is the one owner of a ring and of the memory that the kernel is told of. [`StreamRing`] makes byte
//! streams of it and [`SpliceRing`] chains of splices; a driver may put operations of its own on it.

mod owner;
mod provided;
mod refusal;
mod splice;
mod stream;

pub use owner::Ring;
pub use provided::{Filled, ProvidedBuffers};
pub use refusal::{Refusal, SETTING};
pub use splice::SpliceRing;
pub use stream::{Completion, Event, RequestId, StreamRing};
