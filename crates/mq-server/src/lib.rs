//! Files by message queue and FIFO: a message names a file beneath the root and a FIFO beside others in one directory, and
//! the file's bytes arrive in the FIFO.
//!
//! No client can hold a thread, keep another one waiting, or make the server write anywhere but into a FIFO of that
//! directory. A request is a [`job`](Engine) that never waits but says what for; a way to dispatch decides which thread goes
//! on with it, a way to copy moves the bytes, and every pair of the two works.

#![forbid(unsafe_code)]

mod args;
mod clock;
pub mod copy;
mod directories;
pub mod dispatch;
mod engine;
mod job;
mod outcome;
mod pipe;
mod queue;
mod server;
mod statistics;
mod wait_set;

pub use args::MqArgs;
pub use directories::Places;
pub use engine::{Engine, Options};
pub use outcome::Outcome;
pub use queue::{AcquireError, Origin, OwnQueue};
pub use server::serve;
