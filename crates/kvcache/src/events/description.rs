//! Description of a request and its reply in an event, read from their bytes.

use std::borrow::Cow;

use wire::{
    memcached::{self, binary::Status},
    resp::{Args, Parsed, RequestLimits, RequestParser},
    us,
};

use crate::{
    command_table::{self, Flags, MemcachedVerb, TABLE},
    connection::Dialect,
};

/// Limit of the bytes of a key or of an unknown command in an event.
const NAME_BYTES_MAX: usize = 128;

/// Command and keys of a request. Values and other arguments, which may be secret, are not part of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RequestDescription {
    /// In lower case where it is known; `None` for a request that cannot be parsed.
    pub(super) command: Option<Vec<u8>>,
    pub(super) key_count: usize,
    /// Beginning of the first key.
    pub(super) key: Option<Vec<u8>>,
}

impl RequestDescription {
    /// Describes the request that these bytes are.
    pub(super) fn parse(dialect: &Dialect, request: &[u8]) -> Self {
        match dialect {
            Dialect::Resp(_) | Dialect::Undecided(_) => Self::parse_resp(request),
            Dialect::Us(_) => Self::parse_us(request),
            Dialect::Memcached(parser) if parser.is_binary() => Self::parse_binary(request),
            Dialect::Memcached(_) => Self::parse_memcached(request),
        }
    }

    fn new<'a>(command: &[u8], mut keys: impl Iterator<Item = &'a [u8]>) -> Self {
        let key = keys.next();
        Self {
            command: Some(beginning(command).to_ascii_lowercase()),
            key_count: usize::from(key.is_some()) + keys.count(),
            key: key.map(|key| beginning(key).to_vec()),
        }
    }

    fn parse_resp(request: &[u8]) -> Self {
        let (mut parser, mut args) = (RequestParser::default(), Args::new());
        let limits = RequestLimits { bulk_bytes_max: request.len(), ..RequestLimits::default() };
        match parser.parse(request, &limits, &mut args) {
            Ok(Parsed::Complete { .. }) => Self::from_args(&args),
            Ok(Parsed::Quoted { .. }) => Self::from_args(&parser.quoted()),
            Ok(Parsed::Incomplete { .. }) | Err(_) => Self::default(),
        }
    }

    fn from_args(args: &[&[u8]]) -> Self {
        let Some(&name) = args.first() else { return Self::default() };
        let Some(command) = command_table::find(name).map(|number| &TABLE[number]) else {
            return Self::new(name, [].into_iter());
        };
        let subcommand = args.get(1).filter(|_| command.flags.has(Flags::CONTAINER));
        let whole = match subcommand {
            Some(subcommand) => Cow::Owned([name, b"|", subcommand].concat()),
            None => Cow::Borrowed(name),
        };
        match command_table::find(&whole) {
            Some(number) => Self::new(&whole, TABLE[number].keys_among(args)),
            None => Self::new(&whole, [].into_iter()),
        }
    }

    fn parse_us(request: &[u8]) -> Self {
        let limits = us::RequestLimits { request_bytes_max: request.len() };
        let Ok(us::Parsed::Complete { request, .. }) = us::RequestParser::default().parse(request, &limits) else {
            return Self::default();
        };
        let (command, key) = match request {
            us::Request::Get { key } => ("get", Some(key)),
            us::Request::Set { key, .. } => ("set", Some(key)),
            us::Request::Del { key } => ("del", Some(key)),
            us::Request::Multi => ("multi", None),
            us::Request::Exec => ("exec", None),
            us::Request::Discard => ("discard", None),
            us::Request::Refused(_) => return Self::default(),
        };
        Self::new(command.as_bytes(), key.into_iter())
    }

    fn parse_memcached(request: &[u8]) -> Self {
        let line = &request[..memchr::memchr(b'\n', request).unwrap_or(request.len())];
        let mut words = line.trim_ascii_end().split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let Some(command) = words.next() else { return Self::default() };
        match command {
            b"get" | b"gets" => Self::new(command, words),
            b"gat" | b"gats" => Self::new(command, words.skip(1)),
            b"stats" | b"version" | b"flush_all" | b"quit" | b"verbosity" | b"mn" | b"shutdown" | b"slabs"
            | b"cache_memlimit" => Self::new(command, [].into_iter()),
            _ => Self::new(command, words.take(1)),
        }
    }
}

impl RequestDescription {
    fn parse_binary(request: &[u8]) -> Self {
        let limits = memcached::Limits { item_bytes_max: usize::MAX, ..memcached::Limits::default() };
        let parsed = memcached::RequestParser::default().parse(request, &limits);
        let Ok(memcached::Parsed::Complete { request: memcached::Request::Binary(request), .. }) = parsed else {
            return Self::default();
        };
        match MemcachedVerb::of_binary(request.head.opcode) {
            Some(verb) => Self::new(verb.name().as_bytes(), request.command.single_key().into_iter()),
            None => Self::default(),
        }
    }
}

/// Result of a request, as its reply tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome<'a> {
    Ok,
    /// The key that was asked for is not there.
    Nil,
    /// With the text of the error.
    Error(&'a [u8]),
}

impl<'a> Outcome<'a> {
    pub(super) fn of(dialect: &Dialect, reply: &'a [u8]) -> Self {
        let is_one_of = |starts: &[&[u8]]| starts.iter().any(|start| reply.starts_with(start));
        let (is_error, is_nil) = match dialect {
            Dialect::Resp(_) | Dialect::Undecided(_) => {
                (reply.starts_with(b"-"), is_one_of(&[b"$-1\r\n", b"*-1\r\n", b"_\r\n"]))
            }
            Dialect::Us(_) => (reply.starts_with(b"ERROR: "), reply == b"(nil)\x1f"),
            Dialect::Memcached(parser) if parser.is_binary() => return Self::of_binary(reply),
            Dialect::Memcached(_) => (
                is_one_of(&[b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"]),
                is_one_of(&[b"END\r\n", b"EN\r\n", b"NF", b"NOT_FOUND\r\n"]),
            ),
        };
        match (is_error, is_nil) {
            (true, _) => {
                let end = reply.iter().position(|byte| b"\r\n\x1f".contains(byte)).unwrap_or(reply.len());
                Self::Error(beginning(&reply[..end]))
            }
            (false, true) => Self::Nil,
            (false, false) => Self::Ok,
        }
    }

    fn of_binary(reply: &'a [u8]) -> Self {
        match memcached::binary::client::decode(reply) {
            Ok(Some((reply, _))) if reply.status == Status::NotFound as u16 => Self::Nil,
            Ok(Some((reply, _))) if reply.status != Status::Success as u16 => Self::Error(beginning(reply.value)),
            Ok(_) | Err(_) => Self::Ok,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Nil => "nil",
            Self::Error(_) => "error",
        }
    }

    /// Returns the text of an error.
    pub(super) fn error(self) -> Option<&'a [u8]> {
        match self {
            Self::Ok | Self::Nil => None,
            Self::Error(text) => Some(text.strip_prefix(b"-").unwrap_or(text)),
        }
    }
}

fn beginning(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(NAME_BYTES_MAX)]
}
