//! The command table: all commands without their handlers, and the numbers under which they are counted.
//!
//! RESP's commands have rows with an arity, flags and keys; those of the other protocols have only names, see [`UsVerb`]
//! and [`MemcachedVerb`].

mod collection_rows;
mod rows;
mod verbs;

use std::{collections::HashMap, sync::LazyLock};

use store::collections::parse_integer;

pub(crate) use self::{
    collection_rows::with_collection_rows,
    rows::with_command_rows,
    verbs::{CommandName, MEMCACHED_FIRST, MemcachedVerb, Protocol, UsVerb, command_names},
};

/// Version of Redis whose commands and error texts these are.
pub const REDIS_VERSION: &str = "7.0.15";

/// One RESP command, without its handler.
#[derive(Debug)]
pub(crate) struct Command {
    /// Name in lower case; a subcommand is `container|name`.
    pub name: &'static str,
    pub summary: &'static str,
    /// Number of arguments, the name included; negative: at least so many.
    pub arity: i16,
    pub flags: Flags,
    pub keys: Keys,
    pub group: &'static str,
    /// Version of Redis that first had it.
    pub since: &'static str,
}

/// Positions of the keys among the arguments: first, last (negative: from the end) and step; 0 0 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys(pub i16, pub i16, pub i16);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:expr, $text:literal;)+) => {
        /// Properties of a command, by Redis's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct Flags(pub(crate) u32);

        impl Flags {
            $($(#[$doc])* pub(crate) const $name: Self = Self(1 << $bit);)+

            pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Self::$name, $text),)+].into_iter().filter(move |(flag, name)| self.has(*flag) && !name.is_empty()).map(|(_, name)| name)
            }
        }
    };
}

flags! {
    WRITE = 0, "write";
    READONLY = 1, "readonly";
    DENYOOM = 2, "denyoom";
    ADMIN = 3, "admin";
    PUBSUB = 16, "pubsub";
    NOSCRIPT = 4, "noscript";
    LOADING = 5, "loading";
    STALE = 6, "stale";
    SKIP_MONITOR = 7, "skip_monitor";
    SKIP_SLOWLOG = 8, "skip_slowlog";
    FAST = 9, "fast";
    NO_AUTH = 10, "no_auth";
    NO_ASYNC_LOADING = 11, "no_async_loading";
    NO_MULTI = 12, "no_multi";
    ALLOW_BUSY = 13, "allow_busy";
    NO_MANDATORY_KEYS = 14, "no_mandatory_keys";
    MOVABLE_KEYS = 15, "movablekeys";
    /// Takes a subcommand; no flag of Redis's.
    CONTAINER = 31, "";
}

impl Flags {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

macro_rules! table {
    ($(#[doc = $summary:literal] $name:literal ($arity:literal) [$($flag:ident)*] $keys:expr, $group:literal $since:literal => $handler:path;)+) => {
        /// All commands; the position of a command is its number.
        pub(crate) const TABLE: &[Command] = &[$(Command {
            name: $name,
            summary: $summary.trim_ascii(),
            arity: $arity,
            flags: Flags::NONE $(.and(Flags::$flag))*,
            keys: $keys,
            group: $group,
            since: $since,
        },)+];
    };
}

const NO_KEYS: Keys = Keys(0, 0, 0);
const ONE_KEY: Keys = Keys(1, 1, 1);
const TWO_KEYS: Keys = Keys(1, 2, 1);
const ALL_KEYS: Keys = Keys(1, -1, 1);
/// Keys that are each followed by a value.
const PAIRS: Keys = Keys(1, -1, 2);

with_command_rows!(table);

/// Numbers of the commands that the window runs.
pub(crate) const GET: usize = 0;
pub(crate) const SET: usize = 1;
pub(crate) const DEL: usize = 2;

/// Bytes that every name of a command fits into.
const NAME_BYTES_MAX: usize = 32;

/// Returns the number of a command, whatever the case of its name.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    static NUMBERS: LazyLock<HashMap<&[u8], usize, foldhash::fast::RandomState>> =
        LazyLock::new(|| TABLE.iter().enumerate().map(|(number, command)| (command.name.as_bytes(), number)).collect());
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    NUMBERS.get(&*lower).copied()
}

impl Command {
    /// True if the command takes so many arguments, its name included.
    pub(crate) fn has_arity(&self, arguments: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => arguments == exactly,
            Err(_) => arguments >= usize::from(self.arity.unsigned_abs()),
        }
    }

    /// True if keys may be among the arguments.
    pub(crate) fn has_keys(&self) -> bool {
        self.keys != NO_KEYS || self.key_count_at().is_some()
    }

    /// Returns the position of the argument that says how many keys follow it, if there is one.
    pub(crate) fn key_count_at(&self) -> Option<usize> {
        // A script stands in front of it, or the key of a result.
        let is_second = self.group == "scripting" || self.keys != NO_KEYS;
        self.flags.has(Flags::MOVABLE_KEYS).then_some(if is_second { 2 } else { 1 })
    }

    /// Returns the keys whose number is an argument; `None`: the number is wrong.
    pub(crate) fn counted_keys<'a>(&self, args: &'a [&'a [u8]]) -> Option<&'a [&'a [u8]]> {
        let Some(at) = self.key_count_at() else { return Some(&[]) };
        let count = usize::try_from(parse_integer(args.get(at)?)?).ok()?;
        args[at + 1..].get(..count)
    }

    /// Returns the keys among the arguments.
    pub(crate) fn keys_among<'a>(&self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let Keys(first, last, step) = self.keys;
        let last = if last < 0 { args.len() as i16 + last } else { last };
        let positions = (first > 0).then_some(first..=last).into_iter().flatten();
        let fixed = positions.step_by(step.max(1) as usize).filter_map(|at| args.get(at as usize).copied());
        fixed.chain(self.counted_keys(args).unwrap_or_default().iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name_in_any_case() {
        for (number, command) in TABLE.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()), Some(number), "{} is there twice", command.name);
            assert_eq!(find(command.name.to_uppercase().as_bytes()), Some(number));
        }
        assert_eq!((TABLE[GET].name, TABLE[SET].name, TABLE[DEL].name), ("get", "set", "del"));
        assert_eq!(find(b"nonesuch"), None);
        assert_eq!(find(&[b'x'; 4096]), None);
    }

    /// The list is that of Envoy's documentation, reduced to strings, keys, the connection and transactions, without
    /// what docs/kvcache-scaling.md says is missing.
    #[test]
    fn commands_that_envoy_forwards_are_known() {
        let passed = "append bitcount bitfield bitop bitpos decr decrby get getbit getdel getex getrange getset incr \
                      incrby incrbyfloat mget mset msetnx psetex set setbit setex setnx setrange strlen substr copy \
                      del exists expire expireat flushall flushdb keys persist pexpire pexpireat pttl randomkey \
                      rename renamenx scan touch ttl type unlink auth echo ping quit select multi exec discard watch \
                      unwatch";
        let unknown: Vec<_> = passed.split(' ').filter(|name| find(name.as_bytes()).is_none()).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
