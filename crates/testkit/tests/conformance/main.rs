//! Laws of all drivers, checked on real processes through real sockets.
//!
//! One test is one law. It is checked on every driver, with one thread and with two; a failure names both.

mod bodies;
mod case;
mod confined;
mod crowds;
mod deferred;
mod kernel_tls;
mod lifecycle;
mod managed;
mod pipelining;
mod pipes;
mod pushes;
mod registered;
mod sent;
mod service;
mod shortage;
mod signals;
mod streaming;
mod timeouts;
mod tls;
mod upgrade;
