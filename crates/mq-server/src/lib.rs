//! Files by message queue and FIFO: a message names a file beneath the root and a FIFO in one directory, and the bytes of
//! the file arrive in that FIFO.
//!
//! No client can hold a thread, keep another client waiting, or make the server write to anything but a FIFO of that
//! directory. A request is a job, which never waits but says what for. A way to dispatch chooses the thread that runs it, a
//! way to copy moves the bytes, and every pair of the two works.
//!
//! From the bottom up: a `Job` uses a `JobContext`, and no more of the server than that. A `WaitSet` holds the jobs that
//! wait. An [`Engine`] owns the context, the queue and the wait set, and knows no threads. [`dispatch`] brings the threads.

#![forbid(unsafe_code)]

mod args;
mod clock;
mod context;
pub mod copy;
mod directories;
pub mod dispatch;
mod engine;
mod job;
mod metrics;
mod outcome;
mod pipe;
mod queue;
mod server;
mod statistics;
mod wait_set;

pub use args::MqArgs;
pub use context::Options;
pub use directories::Directories;
pub use engine::Engine;
pub use outcome::Outcome;
pub use queue::{AcquireError, Origin, OwnedQueue};
pub use server::serve;
