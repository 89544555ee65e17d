//! Names and numbers of commands, whatever their protocol.
//!
//! RESP's commands have the first numbers, as they stand in [`TABLE`]; those of the 0x1F text protocol and of memcached
//! follow.

use std::fmt;

use wire::memcached::binary::Opcode;

use super::TABLE;

/// Number of the first command of the 0x1F text protocol.
const US_FIRST: usize = TABLE.len();
/// Number of memcached's first command.
pub(crate) const MEMCACHED_FIRST: usize = US_FIRST + UsVerb::ALL.len();

/// Protocol of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp,
    Us,
    Memcached,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::Us => "us",
            Self::Memcached => "memcached",
        }
    }
}

/// Name under which a command is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandName {
    pub(crate) protocol: Protocol,
    /// Name that its protocol gives it.
    pub(crate) name: &'static str,
}

/// RESP's own commands have no protocol in front.
impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Resp => f.write_str(self.name),
            other @ (Protocol::Us | Protocol::Memcached) => write!(f, "{}|{}", other.name(), self.name),
        }
    }
}

/// Returns the names of all commands, by their numbers.
pub(crate) fn command_names() -> impl Iterator<Item = CommandName> {
    let resp = TABLE.iter().map(|command| CommandName { protocol: Protocol::Resp, name: command.name });
    let us = UsVerb::ALL.iter().map(|verb| CommandName { protocol: Protocol::Us, name: verb.name() });
    let memcached = MemcachedVerb::ALL.iter();
    let memcached = memcached.map(|verb| CommandName { protocol: Protocol::Memcached, name: verb.name() });
    resp.chain(us).chain(memcached)
}

/// Defines the commands of a protocol that has no table of them, with their numbers from the first one on.
macro_rules! verbs {
    ($(#[$about:meta])* $verbs:ident from $first:expr; $($verb:ident = $name:literal)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $verbs {
            $($verb,)+
        }

        impl $verbs {
            pub(crate) const ALL: &[Self] = &[$(Self::$verb,)+];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$verb => $name,)+ }
            }

            /// Returns the number under which the command is counted.
            #[inline]
            pub(crate) fn number(self) -> usize {
                $first + self as usize
            }
        }
    };
}

verbs! {
    /// Commands of the 0x1F text protocol.
    UsVerb from US_FIRST;
    Get = "get" Set = "set" Del = "del" Multi = "multi" Exec = "exec" Discard = "discard"
}

verbs! {
    /// memcached's commands; `bget` is counted as `get`, which it is. Those of the binary protocol are counted under the
    /// names of the text protocol, quiet or not.
    MemcachedVerb from MEMCACHED_FIRST;
    Get = "get" Set = "set" Gets = "gets" Gat = "gat" Gats = "gats" Add = "add" Replace = "replace" Append = "append"
    Prepend = "prepend" Cas = "cas" Touch = "touch" Delete = "delete" Incr = "incr" Decr = "decr"
    MetaGet = "mg" MetaSet = "ms" MetaDelete = "md" MetaArithmetic = "ma" MetaDebug = "me" MetaNoop = "mn"
    FlushAll = "flush_all" Version = "version" Verbosity = "verbosity" Stats = "stats" Quit = "quit"
    Shutdown = "shutdown" Slabs = "slabs" CacheMemoryLimit = "cache_memlimit" Noop = "noop" Sasl = "sasl"
}

/// Bytes that the longest of memcached's names and a byte behind it fit into.
const NAME_BYTES_MAX: usize = 15;

impl MemcachedVerb {
    /// Returns the command that a request begins with, or `None` if no command has this name.
    #[inline]
    pub(crate) fn of(request: &[u8]) -> Option<Self> {
        let start = request.iter().position(|&byte| byte != b' ')?;
        let word = &request[start..];
        let end = word.iter().take(NAME_BYTES_MAX).position(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0))?;
        match &word[..end] {
            b"bget" => Some(Self::Get),
            // Those that only the binary protocol has.
            b"noop" | b"sasl" => None,
            word => Self::ALL.iter().copied().find(|verb| verb.name().as_bytes() == word),
        }
    }

    /// Returns the command of a binary request with this number.
    #[inline]
    pub(crate) fn of_binary(number: u8) -> Option<Self> {
        let (opcode, _) = Opcode::from_number(number)?;
        Some(match opcode {
            Opcode::Get | Opcode::GetK => Self::Get,
            Opcode::Gat | Opcode::GatK => Self::Gat,
            Opcode::Touch => Self::Touch,
            Opcode::Set => Self::Set,
            Opcode::Add => Self::Add,
            Opcode::Replace => Self::Replace,
            Opcode::Append => Self::Append,
            Opcode::Prepend => Self::Prepend,
            Opcode::Delete => Self::Delete,
            Opcode::Increment => Self::Incr,
            Opcode::Decrement => Self::Decr,
            Opcode::Flush => Self::FlushAll,
            Opcode::Noop => Self::Noop,
            Opcode::Version => Self::Version,
            Opcode::Verbosity => Self::Verbosity,
            Opcode::Stat => Self::Stats,
            Opcode::Quit => Self::Quit,
            Opcode::SaslListMechs | Opcode::SaslAuth | Opcode::SaslStep => Self::Sasl,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_counted_under_its_own_name() {
        let all: Vec<_> = command_names().collect();
        let us = UsVerb::ALL.iter().map(|verb| (verb.number(), Protocol::Us, verb.name()));
        let memcached = MemcachedVerb::ALL.iter().map(|verb| (verb.number(), Protocol::Memcached, verb.name()));
        for (number, protocol, name) in us.chain(memcached) {
            assert_eq!(all[number], CommandName { protocol, name });
        }
        assert_eq!(all[MEMCACHED_FIRST].to_string(), "memcached|get");
    }

    #[test]
    fn a_memcached_request_is_counted_under_its_first_word() {
        for &verb in MemcachedVerb::ALL {
            assert!(verb.name().len() < NAME_BYTES_MAX);
            if matches!(verb, MemcachedVerb::Noop | MemcachedVerb::Sasl) {
                assert_eq!(MemcachedVerb::of(format!("{}\r\n", verb.name()).as_bytes()), None);
                continue;
            }
            for line in [format!("{}\r\n", verb.name()), format!("  {} a b\n", verb.name())] {
                assert_eq!(MemcachedVerb::of(line.as_bytes()), Some(verb));
            }
        }
        for (line, verb) in
            [("bget a\r\n", Some(MemcachedVerb::Get)), ("GET a\r\n", None), ("\r\n", None), ("flush_all_\n", None)]
        {
            assert_eq!(MemcachedVerb::of(line.as_bytes()), verb, "{line:?}");
        }
    }
}
