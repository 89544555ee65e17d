//! The Redis serialization protocol, RESP2 and RESP3 (redis.io/docs/latest/develop/reference/protocol-spec), as Redis 7.0
//! reads and writes it.
//!
//! A server tries [`parse_fast`] first, and gives all that it does not recognise to a [`RequestParser`].

pub mod client;
mod error;
mod fast;
mod inline;
pub mod reply;
mod request;

pub use error::ProtocolError;
pub use fast::{FAST_BYTES_MAX, FastRequest, parse_fast};
pub use reply::Version;
pub use request::{Args, Parsed, RequestLimits, RequestParser};

#[cfg(test)]
mod tests;
