//! The two protocols of fileserver: an id in, the bytes of a document out.
//!
//! [`Original`] is the one of the first design: eight characters, then the bytes and the end of the connection.
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

/// One of the protocols, as a server reads and writes it.
pub trait Dialect: Send + Sync + 'static {
    /// What it is called on a command line.
    const NAME: &'static str;
    /// A connection serves more than one request.
    const IS_PERSISTENT: bool;
    /// Replies say what became of the request. Without that a client can only guess, and nothing may follow a body.
    const HAS_STATUS: bool;

    /// Reads the request at the start of `input`. When it is incomplete, `input` must be offered again from the same
    /// byte with more behind it; there is no state, since a request is short.
    fn request(input: &[u8]) -> Request;

    /// Appends what stands in front of a body of `body_bytes` bytes, or all of a reply without one. The length of
    /// anything but [`Status::Found`] must be 0.
    fn head(status: Status, body_bytes: u64, out: &mut Vec<u8>);

    /// What a connection is told that is turned away before it has asked for anything.
    fn refusal() -> &'static [u8];
}

/// What [`Dialect::request`] found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Request {
    /// `need` more bytes complete it, or at least its shortest form; that it is malformed may show before.
    Incomplete { need: usize },
    /// It asks for nothing that can exist, and is answered with [`Status::Malformed`]. When that is `fatal` nobody
    /// knows where the next request starts, and the connection closes behind the reply.
    Malformed { consumed: usize, fatal: bool },
    /// `consumed` bytes ask for the document of this id.
    Get { id: FileId, consumed: usize },
}

#[cfg(test)]
mod tests;
