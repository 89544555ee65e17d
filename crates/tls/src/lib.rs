//! TLS as a layer between a session and a protocol, without a socket.
//!
//! [`Tls<P>`] is a [`proto::Protocol`] around the sessions of another, `P`: a driver moves ciphertext and knows nothing of
//! it, and `P` answers plaintext and knows nothing of it either. rustls speaks the protocol; this crate decides how large
//! records are, where their bytes come from, and how the end of a connection is said. It knows no driver and no HTTP.
//!
//! rustls is used by its unbuffered interface: a connection that is quiet holds its keys and no buffer of rustls's (1,000
//! of them, TLS 1.3 on the driver `epoll`: 4.6 KB of resident memory each, where one without TLS took 0.5). Its
//! provider is aws-lc-rs, which builds with Rust and a C compiler alone on Linux (no cmake, no bindgen) and was the faster
//! one: beside ring on one core, the same data, it did 1.4 times as many full handshakes of TLS 1.2 (P-256, X25519;
//! 6,400 beside 4,400 for each CPU second), as many of TLS 1.3 (4,600 beside 4,500), and encrypted 1.4 to 1.6 times as
//! many bytes in records of 16 KiB with AES-128-GCM (4.8 GB/s beside 3.0 to 3.4), in the median of four runs.

#![forbid(unsafe_code)]

mod config;
mod connection;
mod engine;
mod files;
mod identity;
mod input;
mod kernel;
mod layer;
mod mixed;
mod output;
mod records;
mod scratch;
mod statistics;

pub use config::{Config, ConfigError, KeyPair, Settings};
pub use connection::Connection;
pub use identity::IdentityError;
pub use layer::Tls;
pub use mixed::{EitherConnection, PlainAndTls};
pub use records::HELD_BYTES_MIN;
pub use statistics::{Counts, Handshakes, Statistics};
