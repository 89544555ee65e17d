//! The protocol of mq-server: a message that names a file and a FIFO, and the file's bytes in that FIFO.
//!
//! The original (`docs/originals.md`) could not tell a client that its file could not be sent. Here a header does: in
//! front of the bytes, or in a FIFO of its own that a third field names. `docs/protocols/mserve.md` shows every byte.

mod header;
mod request;
mod status;

pub use header::{HEADER_BYTES, Header, HeaderError};
pub use request::{NAME_BYTES_MAX, PATH_BYTES_MAX, Request, RequestError};
pub use status::Status;

#[cfg(test)]
mod tests;
