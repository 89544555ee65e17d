use std::fmt;

use super::reply;

/// Reason why the bytes of a peer are no request. The connection is closed after the error, since the start of the next
/// request is unknown.
///
/// `Display` is Redis 7.0's text behind `-ERR `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A number of arguments that is no number or is above [`super::RequestLimits::args_max`].
    InvalidMultibulkLength,
    /// A length that is no number, is negative or is above [`super::RequestLimits::bulk_bytes_max`].
    InvalidBulkLength,
    /// An argument that begins with this byte.
    ExpectedBulk(u8),
    TooBigInlineRequest,
    UnbalancedQuotes,
    TooBigMultibulkCount,
    TooBigBulkCount,
    UnauthenticatedMultibulkLength,
    UnauthenticatedBulkLength,
}

impl ProtocolError {
    /// Appends the whole error reply, with the bytes that Redis would send: a byte that is not ASCII stays itself, which
    /// a `Display` cannot do.
    pub fn write(self, out: &mut Vec<u8>) {
        if let Self::ExpectedBulk(byte) = self {
            let mut text = *b"ERR Protocol error: expected '$', got ' '";
            let last = text.len() - 2;
            text[last] = byte;
            reply::error(out, text);
        } else {
            reply::error(out, format!("ERR {self}"));
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidMultibulkLength => "Protocol error: invalid multibulk length",
            Self::InvalidBulkLength => "Protocol error: invalid bulk length",
            Self::ExpectedBulk(byte) => {
                let shown = if matches!(byte, b'\r' | b'\n') { ' ' } else { char::from(*byte) };
                return write!(f, "Protocol error: expected '$', got '{shown}'");
            }
            Self::TooBigInlineRequest => "Protocol error: too big inline request",
            Self::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
            Self::TooBigMultibulkCount => "Protocol error: too big mbulk count string",
            Self::TooBigBulkCount => "Protocol error: too big bulk count string",
            Self::UnauthenticatedMultibulkLength => "Protocol error: unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "Protocol error: unauthenticated bulk length",
        })
    }
}

impl std::error::Error for ProtocolError {}
