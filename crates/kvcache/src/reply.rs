//! Replies to RESP commands, in the version of the protocol that the client has chosen, and refusals.

pub(crate) mod quote;

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use proto::Outbox;
use store::{
    OutOfMemory,
    collections::{ChangeError, Text, WrongType},
};
use wire::resp::{Version, reply};

use self::quote::quote;
use crate::value::Value;

/// Bytes of arguments quoted in the error about an unknown command, as in Redis.
const QUOTED_BYTES_MAX: usize = 128;

/// Error reply to a command: its class, like `ERR`, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Cow<'static, str>);

/// Outcome of a handler: one that succeeds has written one reply, one that fails has written nothing.
pub(crate) type Outcome = Result<(), Refusal>;

impl Refusal {
    pub(crate) const SYNTAX: Self = Self(Cow::Borrowed("ERR syntax error"));
    pub(crate) const NOT_AN_INTEGER: Self = Self(Cow::Borrowed("ERR value is not an integer or out of range"));
    pub(crate) const NOT_A_FLOAT: Self = Self(Cow::Borrowed("ERR value is not a valid float"));
    pub(crate) const NO_SUCH_KEY: Self = Self(Cow::Borrowed("ERR no such key"));
    pub(crate) const OUT_OF_MEMORY: Self =
        Self(Cow::Borrowed("OOM command not allowed when used memory > 'maxmemory'."));

    pub(crate) const WRONG_TYPE: Self =
        Self(Cow::Borrowed("WRONGTYPE Operation against a key holding the wrong kind of value"));
    pub(crate) const OUT_OF_RANGE: Self = Self(Cow::Borrowed("ERR value is out of range"));
    pub(crate) const NO_SCRIPT: Self = Self(Cow::Borrowed("NOSCRIPT No matching script. Please use EVAL."));
    pub(crate) const NOT_BUSY: Self = Self(Cow::Borrowed("NOTBUSY No scripts in execution right now."));
    pub(crate) const BUSY: Self =
        Self(Cow::Borrowed("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."));

    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    /// Refuses a command that has been called with too few or too many arguments.
    pub(crate) fn wrong_arity(command: &str) -> Self {
        Self::new(format!("ERR wrong number of arguments for '{command}' command"))
    }

    /// Refuses a command that does not exist. `args` has at least its name.
    pub(crate) fn unknown_command(args: &[&[u8]]) -> Self {
        let mut quoted = Vec::new();
        for arg in &args[1..] {
            if quoted.len() >= QUOTED_BYTES_MAX {
                break;
            }
            let arg = quote::until_zero(arg, QUOTED_BYTES_MAX - quoted.len());
            quoted.extend_from_slice(&[b"'", arg, b"' "].concat());
        }
        let (name, quoted) = (quote(args[0], QUOTED_BYTES_MAX), quote(&quoted, usize::MAX));
        Self::new(format!("ERR unknown command '{name}', with args beginning with: {quoted}"))
    }

    pub(crate) fn unknown_subcommand(container: &str, name: &[u8]) -> Self {
        let (name, container) = (quote(name, QUOTED_BYTES_MAX), container.to_uppercase());
        Self::new(format!("ERR unknown subcommand '{name}'. Try {container} HELP."))
    }
}

impl From<OutOfMemory> for Refusal {
    fn from(_: OutOfMemory) -> Self {
        Self::OUT_OF_MEMORY
    }
}

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Self {
        Self::WRONG_TYPE
    }
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::WrongType => Self::WRONG_TYPE,
            ChangeError::OutOfMemory => Self::OUT_OF_MEMORY,
        }
    }
}

/// Writer of the reply to one command. Every command writes exactly one.
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

    /// Writes an error, its class in front, like `ERR syntax error`; see [`quote`] for bytes that a client has sent.
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

    /// Writes a part of a collection.
    pub(crate) fn text(&mut self, text: Text<'_>) {
        text.with_bytes(|bytes| self.bulk(bytes));
    }

    pub(crate) fn null(&mut self) {
        reply::null(self.out.inline(), self.version);
    }

    /// Writes the null that stands in the place of an array.
    pub(crate) fn null_array(&mut self) {
        reply::null_array(self.out.inline(), self.version);
    }

    /// Writes a value, or null; a large one is shared with the store instead of copied.
    pub(crate) fn value(&mut self, value: Option<Value<'_>>) {
        match value {
            None => self.null(),
            Some(Value { bytes, shared: None, .. }) => self.bulk(&bytes),
            Some(Value { shared: Some(shared), .. }) => self.shared(shared),
        }
    }

    /// Writes a value that has left its entry, or null.
    pub(crate) fn bytes(&mut self, value: Option<&Bytes>) {
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

    /// Writes a part of a value; that of a large one is shared.
    pub(crate) fn part(&mut self, value: &Value<'_>, range: Range<usize>) {
        match value.shared {
            None => self.bulk(&value.bytes[range]),
            Some(shared) => self.shared(&shared.slice(range)),
        }
    }

    /// Begins an array: `len` replies follow.
    pub(crate) fn array(&mut self, len: usize) {
        reply::array(self.out.inline(), len);
    }

    /// Begins a map: `len` pairs of replies follow.
    pub(crate) fn map(&mut self, len: usize) {
        reply::map(self.out.inline(), len, self.version);
    }

    /// Begins a set: `len` replies follow, in no particular order.
    pub(crate) fn set(&mut self, len: usize) {
        reply::set(self.out.inline(), len, self.version);
    }

    /// Writes text that is to be shown as it is.
    pub(crate) fn verbatim(&mut self, text: &str) {
        reply::verbatim(self.out.inline(), *b"txt", text.as_bytes(), self.version);
    }
}
