//! Replies to commands, in the version of the protocol that the client has asked for.

use std::ops::Range;

use bytes::Bytes;
use proto::Outbox;
use wire::resp::{Version, reply};

use crate::reply::quote;
use crate::state::space::Value;

/// Where the reply to one command goes. Every command writes exactly one.
#[derive(Debug)]
pub(crate) struct Reply<'o> {
    pub(crate) out: &'o mut Outbox,
    pub(crate) version: Version,
}

impl Reply<'_> {
    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        reply::simple(self.out.inline(), text.as_bytes());
    }

    /// With its class in front, like `ERR syntax error`; see [`quote`] for what a client has sent.
    pub(crate) fn error(&mut self, text: &str) {
        reply::error(self.out.inline(), quote::unquote(text));
    }

    pub(crate) fn integer(&mut self, value: i64) {
        reply::integer(self.out.inline(), value);
    }

    pub(crate) fn count(&mut self, value: usize) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        reply::bulk(self.out.inline(), bytes);
    }

    pub(crate) fn null(&mut self) {
        reply::null(self.out.inline(), self.version);
    }

    /// The null that stands where an array would.
    pub(crate) fn null_array(&mut self) {
        reply::null_array(self.out.inline(), self.version);
    }

    /// A large value is shared with the store instead of copied.
    pub(crate) fn value(&mut self, value: Option<Value<'_>>) {
        match value {
            None => self.null(),
            Some(Value { bytes, shared: None, .. }) => self.bulk(&bytes),
            Some(Value { shared: Some(shared), .. }) => self.shared(shared),
        }
    }

    /// A value that has left its entry.
    pub(crate) fn kept(&mut self, value: Option<&Bytes>) {
        match value {
            None => self.null(),
            Some(value) => self.shared(value),
        }
    }

    fn shared(&mut self, value: &Bytes) {
        reply::bulk_header(self.out.inline(), value.len());
        self.out.push_shared(value);
        self.out.inline().extend_from_slice(b"\r\n");
    }

    /// Some bytes of a value; of a large one they are shared.
    pub(crate) fn part(&mut self, value: &Value<'_>, range: Range<usize>) {
        match value.shared {
            None => self.bulk(&value.bytes[range]),
            Some(shared) => self.shared(&shared.slice(range)),
        }
    }

    /// `len` replies follow.
    pub(crate) fn array(&mut self, len: usize) {
        reply::array(self.out.inline(), len);
    }

    /// `len` pairs of replies follow.
    pub(crate) fn map(&mut self, len: usize) {
        reply::map(self.out.inline(), len, self.version);
    }

    /// `len` replies follow, in no order.
    pub(crate) fn set(&mut self, len: usize) {
        reply::set(self.out.inline(), len, self.version);
    }

    /// Text to be shown as it is.
    pub(crate) fn verbatim(&mut self, text: &str) {
        reply::verbatim(self.out.inline(), *b"txt", text.as_bytes(), self.version);
    }
}
