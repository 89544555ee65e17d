//! The contract between a protocol, which decides, and a driver, which moves bytes.
//!
//! This crate never performs a system call, reads a clock or spawns anything: time and bytes are arguments. A
//! [`Protocol`] turns input into queued output, a [`Session`] holds one connection's buffers and all of its policy
//! (back-pressure, limits, deadlines, half-close), an [`Outbox`] is the ordered output that drivers write. Everything
//! here can be driven from a unit test, one byte at a time.

#![forbid(unsafe_code)]

mod admission;
mod alarm;
mod batch;
mod buffer_pool;
mod clients;
mod deferred;
mod inbox;
mod kernel_tls;
mod limits;
mod outbox;
mod peer;
mod pipe;
mod protocol;
mod proxy;
mod push;
mod segment;
mod session;
mod stall;

pub use admission::{Admission, Network};
pub use alarm::Alarm;
pub use batch::{BatchInput, run_batch};
pub use buffer_pool::BufferPool;
pub use clients::{ClientConnections, ClientKey, ClientPermit, TooMany};
pub use deferred::{Broken, DeferredReply, Promise};
pub use kernel_tls::{KernelTls, KernelTlsKeys, KernelTlsState};
pub use limits::Limits;
pub use outbox::{NextWrite, Outbox, Readable, Taken};
pub use peer::{Lookup, Peer, PeerAddress};
pub use pipe::{CachedPipe, MappedFile, MappedRegion, Pages, Pipe, PipeRegion, PipeSource, ScratchPipe};
pub use protocol::{BatchEntry, Flow, Now, Protocol, Secured, Step};
pub use proxy::{ProxyAddresses, ProxyError};
pub use push::{Closed, Pusher};
pub use segment::{FileRegion, Segment};
pub use session::{RETIRE_AFTER, Session};
pub use stall::Uptake;
