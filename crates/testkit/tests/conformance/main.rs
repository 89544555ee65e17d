//! What every driver promises, asked of real processes through real sockets.
//!
//! One test is one law, put to every driver with one and with two threads. A failure names them.

mod bodies;
mod case;
mod crowds;
mod deferred;
mod lifecycle;
mod pipelining;
mod pipes;
mod registered;
mod service;
mod shortage;
mod signals;
mod timeouts;
