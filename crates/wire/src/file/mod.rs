//! The two protocols of fileserver: an id in, the bytes of a document out.
//!
//! [`Original`] is the protocol of the original server (`docs/originals.md`): eight characters, then the bytes and the
//! end of the connection.
//! [`Framed`] has lengths and a status, so that a connection lasts and a reply can be told from another.
//! `docs/protocols/file.md` shows every byte.

pub mod client;
mod framed;
mod id;
mod original;
mod status;

pub use framed::{Framed, HEAD_BYTES};
pub use id::{FileId, ID_BYTES_MAX, ORIGINAL_ID_BYTES};
pub use original::{MISSING_REPLY, Original};
pub use status::Status;

/// One of the two protocols, as a server reads and writes it.
pub trait Dialect: Send + Sync + 'static {
    /// Name on a command line.
    const NAME: &'static str;
    /// True if a connection serves more than one request.
    const IS_PERSISTENT: bool;
    /// True if replies have a status. Without one a client can only guess, and nothing may follow a body.
    const HAS_STATUS: bool;

    /// Reads the request at the start of `input`. When it is incomplete, `input` must be offered again from the same
    /// byte with more behind it; there is no state, since a request is short.
    fn request(input: &[u8]) -> Request;

    /// Appends the head of a body of `body_bytes` bytes, or a whole reply without a body. The length must be 0 unless
    /// the status is [`Status::Found`].
    fn head(status: Status, body_bytes: u64, out: &mut Vec<u8>);

    /// Returns the reply to a connection that is turned away before it has sent a request.
    fn refusal() -> &'static [u8];
}

/// Result of [`Dialect::request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The request needs at least `need` more bytes. It may turn out to be malformed before it is complete.
    Incomplete { need: usize },
    /// The request is answered with [`Status::Malformed`]. If that is `fatal`, the start of the next request is
    /// unknown, and the connection closes after the reply.
    Malformed { consumed: usize, fatal: bool },
    /// A request of `consumed` bytes for the document of this id.
    Get { id: FileId, consumed: usize },
}

#[cfg(test)]
mod tests;
