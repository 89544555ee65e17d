//! io_uring(7), safe to use.

mod splice;
mod stream;

pub use splice::SpliceRing;
pub use stream::{Completion, Event, Filled, StreamRing, Ticket};
