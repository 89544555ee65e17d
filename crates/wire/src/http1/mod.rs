//! HTTP/1.0 and HTTP/1.1 message heads and framing (RFC 9110, RFC 9112): usual requests in one pass, the rest on
//! `httparse` and stricter than it.

mod authority;
pub(crate) mod byte_set;
pub mod chunked;
pub mod client;
pub mod coding;
pub mod conditional;
pub mod date;
mod fields;
pub mod range;
pub mod request;
pub mod response;
mod scan;
mod target;
mod usual;

pub use authority::target_authority;
pub(crate) use byte_set::is_token_byte;
pub use request::{Body, HeadLimits, HeadParser, Method, Refusal, Request, Version, empty_lines_len};
pub use response::{Connection, Part, PreparedResponse, Status};
pub use target::Target;
