//! The one list of commands: what each is called, what it takes, who answers it.

use std::{collections::HashMap, sync::LazyLock};

use store::Store;

use super::{Call, Outcome, connection, persistence, server, strings, transactions};

/// Answers one command.
pub(crate) type Handler<S> = fn(&mut Call<'_, '_, S>) -> Outcome;

/// What is to be known of a command without running it.
#[derive(Debug)]
pub struct Command {
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
pub struct Keys(pub i16, pub i16, pub i16);

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident = $bit:expr, $text:literal;)+) => {
        /// What a command does and when it may run, by Redis's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Flags(pub(crate) u32);

        impl Flags {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)+

            pub fn names(self) -> impl Iterator<Item = &'static str> {
                [$((Self::$name, $text),)+].into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
            }
        }
    };
}

flags! {
    WRITE = 0, "write";
    READONLY = 1, "readonly";
    DENYOOM = 2, "denyoom";
    ADMIN = 3, "admin";
    FAST = 4, "fast";
    NO_AUTH = 5, "no_auth";
    NO_MULTI = 6, "no_multi";
    NOSCRIPT = 7, "noscript";
    LOADING = 8, "loading";
    STALE = 9, "stale";
    SKIP_MONITOR = 10, "skip_monitor";
    SKIP_SLOWLOG = 11, "skip_slowlog";
    ALLOW_BUSY = 12, "allow_busy";
    /// Takes a subcommand.
    CONTAINER = 31, "container";
}

impl Flags {
    pub const NONE: Self = Self(0);

    #[inline]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

macro_rules! commands {
    ($(#[doc = $summary:literal] $name:literal ($arity:literal) [$($flag:ident)*] $keys:expr, $group:literal $since:literal => $handler:path;)+) => {
        /// All commands; the position of one in it is its number.
        pub const TABLE: &[Command] = &[$(Command {
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
const ALL_KEYS: Keys = Keys(1, -1, 1);

commands! {
    /// Returns the string value of a key.
    "get" (2) [READONLY FAST] ONE_KEY, "string" "1.0.0" => strings::get;
    /// Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.
    "set" (-3) [WRITE DENYOOM] ONE_KEY, "string" "1.0.0" => strings::set;
    /// Deletes one or more keys.
    "del" (-2) [WRITE] ALL_KEYS, "generic" "1.0.0" => strings::del;
    /// Returns the server's liveliness response.
    "ping" (-1) [FAST] NO_KEYS, "connection" "1.0.0" => connection::ping;
    /// Returns the given string.
    "echo" (2) [FAST] NO_KEYS, "connection" "1.0.0" => connection::echo;
    /// Closes the connection.
    "quit" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::quit;
    /// Handshakes with the server.
    "hello" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "6.0.0" => connection::hello;
    /// Authenticates the connection.
    "auth" (-2) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::auth;
    /// Changes the selected database.
    "select" (2) [LOADING STALE FAST] NO_KEYS, "connection" "1.0.0" => connection::select;
    /// Returns the number of keys in the database.
    "dbsize" (1) [READONLY FAST] NO_KEYS, "server" "1.0.0" => server::dbsize;
    /// Removes all keys from all databases.
    "flushall" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => server::flushall;
    /// Synchronously saves the database to disk.
    "save" (1) [ADMIN NOSCRIPT NO_MULTI] NO_KEYS, "server" "1.0.0" => persistence::save;
    /// Asynchronously saves the database to disk.
    "bgsave" (-1) [ADMIN NOSCRIPT] NO_KEYS, "server" "1.0.0" => persistence::bgsave;
    /// Returns the Unix timestamp of the last successful save to disk.
    "lastsave" (1) [LOADING STALE FAST] NO_KEYS, "server" "1.0.0" => persistence::lastsave;
    /// Starts a transaction.
    "multi" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "1.2.0" => transactions::multi;
    /// Executes all commands in a transaction.
    "exec" (1) [NOSCRIPT LOADING STALE] NO_KEYS, "transactions" "1.2.0" => transactions::exec;
    /// Discards a transaction.
    "discard" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.0.0" => transactions::discard;
    /// Monitors changes to keys to determine the execution of a transaction.
    "watch" (-2) [NOSCRIPT LOADING STALE FAST NO_MULTI ALLOW_BUSY] ALL_KEYS, "transactions" "2.2.0" => transactions::watch;
    /// Forgets about watched keys of a transaction.
    "unwatch" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.2.0" => transactions::unwatch;
}

/// The numbers of the commands that the window runs.
pub(crate) const GET: usize = 0;
pub(crate) const SET: usize = 1;
pub(crate) const DEL: usize = 2;

/// Longer names than this are of no command.
const NAME_MAX: usize = 32;

/// The number of a command, whatever the case of its name.
pub fn find(name: &[u8]) -> Option<usize> {
    static NUMBERS: LazyLock<HashMap<&[u8], usize, foldhash::fast::RandomState>> =
        LazyLock::new(|| TABLE.iter().enumerate().map(|(number, command)| (command.name.as_bytes(), number)).collect());
    let mut lower = [0; NAME_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    NUMBERS.get(&*lower).copied()
}

impl Command {
    pub fn takes(&self, arguments: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => arguments == exactly,
            Err(_) => arguments >= usize::from(self.arity.unsigned_abs()),
        }
    }

    /// The keys among the arguments.
    pub fn keys_among<'a>(&self, args: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
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
}
