//! Requests, as a server sees them.

use super::{HEADER_BYTES, Header, Opcode, REQUEST_MAGIC, SASL_BYTES_MAX, Status};
use crate::memcached::{Direction, Expiry, FatalError, KEY_BYTES_MAX, Limits, StoreMode};

/// Expiry with which an increment or decrement does not create a missing item.
const NOT_CREATED: u32 = u32::MAX;

/// Part of a request that its replies repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Number of the command, which may be unknown.
    pub opcode: u8,
    pub opaque: u32,
}

/// A request, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub head: Head,
    /// The usual answer is not wanted. Errors are answered.
    pub is_quiet: bool,
    /// Unique number that the item must have; 0: any.
    pub cas: u64,
    pub command: Command<'a>,
}

/// Parts of an item that a read returns beside its flags and its unique number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnedParts {
    Value,
    KeyAndValue,
    /// Neither: `touch`.
    Nothing,
}

/// Step of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslStep<'a> {
    ListMechanisms,
    Start { mechanism: &'a [u8], response: &'a [u8] },
    Continue { mechanism: &'a [u8], response: &'a [u8] },
}

/// Command of a request, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    Get {
        key: &'a [u8],
        /// Time to live that a hit gets.
        touch: Option<Expiry>,
        parts: ReturnedParts,
    },
    /// A storage command. With a unique number in the header, all but appending and prepending have the mode
    /// [`StoreMode::Cas`].
    Store {
        mode: StoreMode,
        key: &'a [u8],
        flags: u32,
        expiry: Expiry,
        value: &'a [u8],
    },
    /// A storage command whose value is above the limit. An old value of `outdated` must be removed, since the client
    /// believes that it has replaced it.
    TooLarge {
        outdated: Option<&'a [u8]>,
    },
    Delete {
        key: &'a [u8],
    },
    Arithmetic {
        key: &'a [u8],
        direction: Direction,
        delta: u64,
        initial: u64,
        /// Expiry of a missing item that is created with the initial value; `None`: it is not.
        vivify: Option<Expiry>,
    },
    Flush {
        delay: Expiry,
    },
    Noop,
    Version,
    Verbosity,
    Stat {
        /// Words that choose the statistics, or nothing.
        name: &'a [u8],
    },
    Quit,
    Sasl(SaslStep<'a>),
    /// A command that does not exist; the connection stays open.
    Unknown,
    /// A request that is no request: it is answered with this status, and the connection is closed.
    Malformed(Status),
}

impl<'a> Command<'a> {
    /// Returns the key of a command that needs nothing but one key.
    #[inline]
    pub fn single_key(&self) -> Option<&'a [u8]> {
        match *self {
            Self::Get { key, .. } | Self::Store { key, .. } | Self::Delete { key } | Self::Arithmetic { key, .. } => {
                Some(key)
            }
            Self::TooLarge { .. }
            | Self::Flush { .. }
            | Self::Noop
            | Self::Version
            | Self::Verbosity
            | Self::Stat { .. }
            | Self::Quit
            | Self::Sasl(_)
            | Self::Unknown
            | Self::Malformed(_) => None,
        }
    }
}

/// Result of [`parse`].
pub(in crate::memcached) enum Parsed<'a> {
    /// A request of `consumed` bytes, behind which `skipped` bytes of its value must be skipped.
    Complete { request: Request<'a>, consumed: usize, skipped: u64 },
    /// At least `need` bytes are missing.
    Incomplete { need: usize },
}

/// Parts of a request behind its header.
#[derive(Clone, Copy)]
struct Body<'a> {
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

/// Parses the request at the start of `input`.
pub(in crate::memcached) fn parse<'a>(input: &'a [u8], limits: &Limits) -> Result<Parsed<'a>, FatalError> {
    if input.first().is_some_and(|&magic| magic != REQUEST_MAGIC) {
        return Err(FatalError::Magic);
    }
    let Some((bytes, rest)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Parsed::Incomplete { need: HEADER_BYTES - input.len() });
    };
    let header = Header::read(bytes);
    let opcode = Opcode::from_number(header.opcode);
    let complete = |command, body: usize, skipped: usize| {
        let head = Head { opcode: header.opcode, opaque: header.opaque };
        let is_quiet = opcode.is_some_and(|(_, is_quiet)| is_quiet);
        let request = Request { head, is_quiet, cas: header.cas, command };
        Ok(Parsed::Complete { request, consumed: HEADER_BYTES + body, skipped: skipped as u64 })
    };
    let Some([_, key_start, value_start, end]) = header.parts() else {
        return complete(Command::Malformed(Status::UnknownCommand), 0, 0);
    };
    let (key_bytes, value_bytes) = (value_start - key_start, end - value_start);
    if key_bytes > KEY_BYTES_MAX {
        return complete(Command::Malformed(Status::Invalid), 0, 0);
    }
    let Some((opcode, _)) = opcode else { return complete(Command::Unknown, 0, end) };
    if !is_well_formed(opcode, [key_start, key_bytes, value_bytes]) {
        return complete(Command::Malformed(Status::Invalid), 0, 0);
    }
    let is_too_large = is_storage(opcode) && !limits.has_room_for(key_bytes, value_bytes);
    let wanted = if is_too_large { value_start } else { end };
    let Some(body) = rest.get(..wanted) else { return Ok(Parsed::Incomplete { need: wanted - rest.len() }) };
    let key = &body[key_start..value_start];
    if is_too_large {
        let outdated = (opcode == Opcode::Set).then_some(key);
        return complete(Command::TooLarge { outdated }, value_start, value_bytes);
    }
    complete(command(opcode, header.cas, Body { extras: &body[..key_start], key, value: &body[value_start..] }), end, 0)
}

/// True for commands that have a value to be stored.
fn is_storage(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Set | Opcode::Add | Opcode::Replace | Opcode::Append | Opcode::Prepend)
}

/// True if the parts of a request have lengths that its command allows.
fn is_well_formed(opcode: Opcode, lengths: [usize; 3]) -> bool {
    let [extras, key, value] = lengths;
    match opcode {
        Opcode::Set | Opcode::Add | Opcode::Replace => extras == 8 && key > 0,
        Opcode::Append | Opcode::Prepend => extras == 0 && key > 0,
        Opcode::SaslAuth | Opcode::SaslStep => extras == 0 && key > 0 && value <= SASL_BYTES_MAX,
        Opcode::Get | Opcode::GetK | Opcode::Delete => extras == 0 && key > 0 && value == 0,
        Opcode::Touch | Opcode::Gat | Opcode::GatK => extras == 4 && key > 0 && value == 0,
        Opcode::Increment | Opcode::Decrement => extras == 20 && key > 0 && value == 0,
        Opcode::Flush => (extras == 0 || extras == 4) && key == 0 && value == 0,
        Opcode::Verbosity => extras == 4 && key == 0 && value == 0,
        Opcode::Stat => extras == 0 && value == 0,
        Opcode::Quit | Opcode::Noop | Opcode::Version | Opcode::SaslListMechs => lengths == [0, 0, 0],
    }
}

/// Returns the command with this body, whose shape has been checked.
fn command(opcode: Opcode, cas: u64, Body { extras, key, value }: Body<'_>) -> Command<'_> {
    let store = |mode| {
        let (flags, expiry) = match extras {
            [] => (0, 0),
            _ => (number32(extras, 0), number32(extras, 4)),
        };
        Command::Store { mode, key, flags, expiry: Expiry::from_unsigned(expiry), value }
    };
    let checked = |mode| store(if cas == 0 { mode } else { StoreMode::Cas(cas) });
    let get = |parts| {
        let touch = (!extras.is_empty()).then(|| Expiry::from_unsigned(number32(extras, 0)));
        Command::Get { key, touch, parts }
    };
    let arithmetic = |direction| {
        let expiry = number32(extras, 16);
        Command::Arithmetic {
            key,
            direction,
            delta: number64(extras, 0),
            initial: number64(extras, 8),
            vivify: (expiry != NOT_CREATED).then(|| Expiry::from_unsigned(expiry)),
        }
    };
    match opcode {
        Opcode::Get | Opcode::Gat => get(ReturnedParts::Value),
        Opcode::GetK | Opcode::GatK => get(ReturnedParts::KeyAndValue),
        Opcode::Touch => get(ReturnedParts::Nothing),
        Opcode::Set => checked(StoreMode::Set),
        Opcode::Add => checked(StoreMode::Add),
        Opcode::Replace => checked(StoreMode::Replace),
        Opcode::Append => store(StoreMode::Append),
        Opcode::Prepend => store(StoreMode::Prepend),
        Opcode::Delete => Command::Delete { key },
        Opcode::Increment => arithmetic(Direction::Increment),
        Opcode::Decrement => arithmetic(Direction::Decrement),
        Opcode::Flush => {
            let delay = if extras.is_empty() { 0 } else { number32(extras, 0) };
            Command::Flush { delay: Expiry::from_unsigned(delay) }
        }
        Opcode::Noop => Command::Noop,
        Opcode::Version => Command::Version,
        Opcode::Verbosity => Command::Verbosity,
        Opcode::Stat => Command::Stat { name: key },
        Opcode::Quit => Command::Quit,
        Opcode::SaslListMechs => Command::Sasl(SaslStep::ListMechanisms),
        Opcode::SaslAuth => Command::Sasl(SaslStep::Start { mechanism: key, response: value }),
        Opcode::SaslStep => Command::Sasl(SaslStep::Continue { mechanism: key, response: value }),
    }
}

/// Returns the 32 bits at an offset that is within the extras.
fn number32(extras: &[u8], at: usize) -> u32 {
    extras.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Returns the 64 bits at an offset that is within the extras.
fn number64(extras: &[u8], at: usize) -> u64 {
    extras.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
