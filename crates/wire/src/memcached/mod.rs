//! memcached's text and meta protocols, as memcached 1.6.18 reads and writes them (its `protocol.txt`).
//!
//! Where 1.6.18 cuts a number that does not fit its type down to one that does, here it is refused: a length that two
//! readers understand differently would let a value be taken for commands.

pub mod client;
mod error;
mod meta;
mod number;
pub mod reply;
mod request;
mod text;

pub use error::{FatalError, Refusal};
pub use meta::{KeyBuffer, MetaFlags, MetaKey};
pub use number::{Expiry, unsigned as parse_unsigned};
pub use request::{Direction, Keys, Limits, Parsed, Request, RequestParser, ShutdownMode, StoreMode};
pub use text::Words;

/// The longest key, as it stands in the line.
pub const KEY_BYTES_MAX: usize = 250;

#[cfg(test)]
mod tests;
