//! memcached's text and meta protocols, as memcached 1.6.18 reads and writes them (its `protocol.txt`), and its [`binary`]
//! protocol.
//!
//! 1.6.18 truncates a number that does not fit its type. Here it is refused: a length that two readers understand
//! differently would let a value be taken for commands.

pub mod binary;
pub mod client;
mod error;
mod meta;
mod number;
mod parser;
pub mod reply;
mod request;
mod text;
mod words;

pub use error::{FatalError, Refusal};
pub use meta::{KeyBuffer, MetaFlags, MetaKey};
pub use number::{Expiry, unsigned as parse_unsigned};
pub use parser::{ITEM_OVERHEAD_BYTES, Limits, Parsed, RequestParser};
pub use request::{Direction, Keys, Request, ShutdownMode, StoreMode};
pub use words::Words;

/// Length of the longest key, as it stands in the line.
pub const KEY_BYTES_MAX: usize = 250;

#[cfg(test)]
mod tests;
