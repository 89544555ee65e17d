//! The text protocol of poor-man-s-cache: requests and answers that end with the unit separator, 0x1F.
//!
//! `SET key value`, `GET key`, `DEL key`, `MULTI`, `EXEC` and `DISCARD`, in capitals. A key holds no blank, a value
//! anything but the separator.

pub mod client;
pub mod reply;
mod request;

pub use request::{Parsed, Refusal, Request, RequestLimits, RequestParser, TooLong};

/// Byte behind every request and every answer.
pub const SEPARATOR: u8 = 0x1f;

#[cfg(test)]
mod tests;
