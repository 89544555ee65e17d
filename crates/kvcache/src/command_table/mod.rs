//! The one list of commands: what each is called, what it takes, who answers it.

use std::{collections::HashMap, sync::LazyLock};

use store::Store;

use super::{
    Call, Outcome, acl, administration::with_administration, bitfield, bits, client, cluster, command_info, config,
    connection, counters, debug, expiry, generic, help, info, latency, lcs, objects, perf, persistence, ranges, scan,
    scripting, server, slowlog, strings, transactions,
};

/// Answers one command.
pub(crate) type Handler<S> = fn(&mut Call<'_, '_, S>) -> Outcome;

/// What is to be known of a command without running it.
#[derive(Debug)]
pub(crate) struct Command {
    /// In lower case; a subcommand is `container|name`.
    pub name: &'static str,
    pub summary: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub arity: i16,
    pub flags: Flags,
    pub keys: Keys,
    pub group: &'static str,
    /// The version of Redis that first had it.
    pub since: &'static str,
}

/// Which arguments are keys: the first, the last (negative: from the end) and the step, 0 0 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys(pub i16, pub i16, pub i16);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:expr, $text:literal;)+) => {
        /// What a command does and when it may run, by Redis's names.
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

macro_rules! commands {
    ($(#[doc = $summary:literal] $name:literal ($arity:literal) [$($flag:ident)*] $keys:expr, $group:literal $since:literal => $handler:path;)+) => {
        /// All commands; the position of one in it is its number.
        pub(crate) const TABLE: &[Command] = &[$(Command {
            name: $name,
            summary: $summary.trim_ascii(),
            arity: $arity,
            flags: Flags::NONE $(.and(Flags::$flag))*,
            keys: $keys,
            group: $group,
            since: $since,
        },)+];

        pub(crate) struct Handlers<S>(std::marker::PhantomData<S>);

        impl<S: Store + 'static> Handlers<S> {
            pub(crate) const ALL: &[Handler<S>] = &[$($handler,)+];
        }
    };
}

const NO_KEYS: Keys = Keys(0, 0, 0);
const ONE_KEY: Keys = Keys(1, 1, 1);
const TWO_KEYS: Keys = Keys(1, 2, 1);
const ALL_KEYS: Keys = Keys(1, -1, 1);
/// Each with a value behind it.
const PAIRS: Keys = Keys(1, -1, 2);

with_administration! { commands! {
    /// Shows the value of a key.
    "get" (2) [READONLY FAST] ONE_KEY, "string" "1.0.0" => strings::get;
    /// Gives a key a value, if it is absent or present and for a time if that is asked for.
    "set" (-3) [WRITE DENYOOM] ONE_KEY, "string" "1.0.0" => strings::set;
    /// Deletes keys.
    "del" (-2) [WRITE] ALL_KEYS, "generic" "1.0.0" => generic::del;
    /// Gives an absent key a value.
    "setnx" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::setnx;
    /// Gives a key a value for some seconds.
    "setex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.0.0" => strings::setex;
    /// Gives a key a value for some milliseconds.
    "psetex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.6.0" => strings::psetex;
    /// Shows the value of a key and changes when it expires.
    "getex" (-2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getex;
    /// Shows the value of a key and deletes it.
    "getdel" (2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getdel;
    /// Shows the value of a key and gives it another.
    "getset" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::getset;
    /// Shows the values of several keys.
    "mget" (-2) [READONLY FAST] ALL_KEYS, "string" "1.0.0" => strings::mget;
    /// Gives several keys values.
    "mset" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::mset;
    /// Gives several keys values, if all of them are absent.
    "msetnx" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::msetnx;
    /// Shows the length of a value.
    "strlen" (2) [READONLY FAST] ONE_KEY, "string" "2.2.0" => ranges::strlen;
    /// Shows a part of a value.
    "getrange" (4) [READONLY] ONE_KEY, "string" "2.4.0" => ranges::getrange;
    /// Shows a part of a value.
    "substr" (4) [READONLY] ONE_KEY, "string" "1.0.0" => ranges::getrange;
    /// Overwrites a part of a value.
    "setrange" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.2.0" => ranges::setrange;
    /// Appends to a value.
    "append" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.0.0" => ranges::append;
    /// Adds one to a value.
    "incr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incr;
    /// Subtracts one from a value.
    "decr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decr;
    /// Adds an integer to a value.
    "incrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incrby;
    /// Subtracts an integer from a value.
    "decrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decrby;
    /// Adds a number to a value.
    "incrbyfloat" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.6.0" => counters::incrbyfloat;
    /// Finds the longest common subsequence of two values.
    "lcs" (-3) [READONLY] TWO_KEYS, "string" "7.0.0" => lcs::lcs;
    /// Shows a bit of a value.
    "getbit" (3) [READONLY FAST] ONE_KEY, "bitmap" "2.2.0" => bits::getbit;
    /// Changes a bit of a value.
    "setbit" (4) [WRITE DENYOOM] ONE_KEY, "bitmap" "2.2.0" => bits::setbit;
    /// Counts the bits of a value that are set.
    "bitcount" (-2) [READONLY] ONE_KEY, "bitmap" "2.6.0" => bits::bitcount;
    /// Finds the first bit of a value that is set, or is not.
    "bitpos" (-3) [READONLY] ONE_KEY, "bitmap" "2.8.7" => bits::bitpos;
    /// Combines the bits of several values.
    "bitop" (-4) [WRITE DENYOOM] Keys(2, -1, 1), "bitmap" "2.6.0" => bits::bitop;
    /// Shows and changes integers of any width in a value.
    "bitfield" (-2) [WRITE DENYOOM] ONE_KEY, "bitmap" "3.2.0" => bitfield::bitfield;
    /// Shows integers of any width in a value.
    "bitfield_ro" (-2) [READONLY FAST] ONE_KEY, "bitmap" "6.0.0" => bitfield::bitfield_ro;
    /// Deletes keys.
    "unlink" (-2) [WRITE FAST] ALL_KEYS, "generic" "4.0.0" => generic::del;
    /// Counts the keys that exist.
    "exists" (-2) [READONLY FAST] ALL_KEYS, "generic" "1.0.0" => generic::exists;
    /// Remembers keys as used, and counts those that exist.
    "touch" (-2) [READONLY FAST] ALL_KEYS, "generic" "3.2.1" => generic::touch;
    /// Shows the type of a value, which is always string.
    "type" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => generic::type_of;
    /// Gives a key another name.
    "rename" (3) [WRITE] TWO_KEYS, "generic" "1.0.0" => generic::rename;
    /// Gives a key another name that is not taken.
    "renamenx" (3) [WRITE FAST] TWO_KEYS, "generic" "1.0.0" => generic::renamenx;
    /// Copies value and expiry of a key to another.
    "copy" (-3) [WRITE DENYOOM] TWO_KEYS, "generic" "6.2.0" => generic::copy;
    /// Moves a key to another database.
    "move" (3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => generic::move_to;
    /// Shows a key at random.
    "randomkey" (1) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::randomkey;
    /// Shows all keys that match a pattern.
    "keys" (2) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::keys;
    /// Shows the keys a few at a time.
    "scan" (-2) [READONLY] NO_KEYS, "generic" "2.8.0" => scan::scan;
    /// Makes a key expire after some seconds.
    "expire" (-3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => expiry::expire;
    /// Makes a key expire after some milliseconds.
    "pexpire" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpire;
    /// Makes a key expire at a time, in seconds.
    "expireat" (-3) [WRITE FAST] ONE_KEY, "generic" "1.2.0" => expiry::expireat;
    /// Makes a key expire at a time, in milliseconds.
    "pexpireat" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpireat;
    /// Shows the seconds until a key expires.
    "ttl" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => expiry::ttl;
    /// Shows the milliseconds until a key expires.
    "pttl" (2) [READONLY FAST] ONE_KEY, "generic" "2.6.0" => expiry::pttl;
    /// Shows when a key expires, in seconds.
    "expiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::expiretime;
    /// Shows when a key expires, in milliseconds.
    "pexpiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::pexpiretime;
    /// Makes a key stay.
    "persist" (2) [WRITE FAST] ONE_KEY, "generic" "2.2.0" => expiry::persist;
    /// Shows what is known of a key.
    "object" (-2) [CONTAINER] NO_KEYS, "generic" "2.2.3" => objects::container;
    /// Shows how Redis would keep a value.
    "object|encoding" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::encoding;
    /// Shows how often a key has been used.
    "object|freq" (3) [READONLY] Keys(2, 2, 1), "generic" "4.0.0" => objects::freq;
    /// Explains the subcommands.
    "object|help" (2) [LOADING STALE] NO_KEYS, "generic" "6.2.0" => objects::help;
    /// Shows the seconds since a key was used.
    "object|idletime" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::idletime;
    /// Shows how often Redis would refer to a value.
    "object|refcount" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::refcount;
    /// Shows what memory is used for.
    "memory" (-2) [CONTAINER] NO_KEYS, "server" "4.0.0" => objects::container;
    /// Explains the subcommands.
    "memory|help" (2) [LOADING STALE] NO_KEYS, "server" "4.0.0" => objects::memory_help;
    /// Shows statistics of the allocator.
    "memory|malloc-stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::malloc_stats;
    /// Gives memory back.
    "memory|purge" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_purge;
    /// Shows how much memory is used.
    "memory|stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_stats;
    /// Shows the memory that a key takes.
    "memory|usage" (-3) [READONLY] Keys(2, 2, 1), "server" "4.0.0" => objects::memory_usage;
    /// Deletes all keys of all databases.
    "flushall" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushall;
    /// Deletes all keys of the database.
    "flushdb" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushdb;
    /// Synchronously saves the database to disk.
    "save" (1) [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] NO_KEYS, "server" "1.0.0" => persistence::save;
    /// Asynchronously saves the database to disk.
    "bgsave" (-1) [ADMIN NOSCRIPT NO_ASYNC_LOADING] NO_KEYS, "server" "1.0.0" => persistence::bgsave;
    /// Starts a transaction.
    "multi" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "1.2.0" => transactions::multi;
    /// Executes all commands in a transaction.
    "exec" (1) [NOSCRIPT LOADING STALE SKIP_SLOWLOG] NO_KEYS, "transactions" "1.2.0" => transactions::exec;
    /// Discards a transaction.
    "discard" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.0.0" => transactions::discard;
    /// Monitors changes to keys to determine the execution of a transaction.
    "watch" (-2) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] ALL_KEYS, "transactions" "2.2.0" => transactions::watch;
    /// Forgets about watched keys of a transaction.
    "unwatch" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.2.0" => transactions::unwatch;
} }

/// The numbers of the commands that the window runs.
pub(crate) const GET: usize = 0;
pub(crate) const SET: usize = 1;
pub(crate) const DEL: usize = 2;

/// Longer names than this are of no command.
const NAME_MAX: usize = 32;

/// The number of a command, whatever the case of its name.
pub(crate) fn find(name: &[u8]) -> Option<usize> {
    static NUMBERS: LazyLock<HashMap<&[u8], usize, foldhash::fast::RandomState>> =
        LazyLock::new(|| TABLE.iter().enumerate().map(|(number, command)| (command.name.as_bytes(), number)).collect());
    let mut lower = [0; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    NUMBERS.get(&*lower).copied()
}

impl Command {
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => arguments == exactly,
            Err(_) => arguments >= usize::from(self.arity.unsigned_abs()),
        }
    }

    /// The keys among the arguments.
    pub(crate) fn keys_among<'a>(&self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let Keys(first, last, step) = self.keys;
        let last = if last < 0 { args.len() as i16 + last } else { last };
        let positions = (first > 0).then_some(first..=last).into_iter().flatten();
        positions.step_by(step.max(1) as usize).filter_map(|at| args.get(at as usize).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (number, command) in TABLE.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()), Some(number), "{} is there twice", command.name);
            assert_eq!(find(command.name.to_uppercase().as_bytes()), Some(number));
        }
        assert_eq!((TABLE[GET].name, TABLE[SET].name, TABLE[DEL].name), ("get", "set", "del"));
        assert_eq!(find(b"nonesuch"), None);
        assert_eq!(find(&[b'x'; 4096]), None);
    }

    /// Of the commands that Envoy's documentation says its proxy passes, all that are about strings, keys, the
    /// connection or transactions, except those that docs/kvcache-scaling.md says we do not have.
    #[test]
    fn what_envoy_passes_is_known() {
        let passed = "append bitcount bitfield bitop bitpos decr decrby get getbit getdel getex getrange getset incr \
                      incrby incrbyfloat mget mset msetnx psetex set setbit setex setnx setrange strlen substr copy \
                      del exists expire expireat flushall flushdb keys persist pexpire pexpireat pttl randomkey \
                      rename renamenx scan touch ttl type unlink auth echo ping quit select multi exec discard watch \
                      unwatch";
        let unknown: Vec<_> = passed.split(' ').filter(|name| find(name.as_bytes()).is_none()).collect();
        assert_eq!(unknown, [""; 0]);
    }
}
