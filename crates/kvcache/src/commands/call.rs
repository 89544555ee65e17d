//! One command being answered, and the functions that handlers share.

use std::time::Duration;

use proto::{Flow, Now};
use store::Store;
pub(crate) use store::collections::parse_integer;

use crate::{
    command_table::{self, TABLE},
    reply::{Refusal, Reply},
    state::{Client, Item, Keyspace, ServerState, SlowCommand, redacted_args},
};

/// One command being answered.
pub(crate) struct Call<'c, 's, S: Store + 'static> {
    pub(crate) state: &'c ServerState<S>,
    pub(crate) client: &'c mut Client<S>,
    pub(crate) keys: &'c mut Keyspace<'s, S>,
    /// Arguments, the command's name first.
    pub(crate) args: &'c [&'c [u8]],
    pub(crate) now: Now,
    pub(crate) reply: Reply<'c>,
    /// Fate of the connection after this command.
    pub(crate) flow: Flow,
    /// True if another thread runs the command, and counts it.
    pub(crate) is_handed_over: bool,
}

impl<'c, S: Store + 'static> Call<'c, '_, S> {
    /// Returns the item under the key that is argument `index`.
    pub(crate) fn item(&mut self, index: usize) -> Item<'_, 'c, S> {
        self.keys.item(self.args[index])
    }

    /// Locks all keys, for commands on more than one.
    pub(crate) fn lock_all(&mut self) {
        self.keys.lock_all();
    }

    /// True if argument `index` is this word, in any case.
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, Refusal> {
        self.args.get(index).and_then(|arg| parse_integer(arg)).ok_or(Refusal::NOT_AN_INTEGER)
    }

    /// Parses argument `index` as milliseconds, with Redis's errors for a timeout.
    pub(crate) fn timeout_ms(&self, index: usize) -> Result<u64, Refusal> {
        let timeout = self.integer(index).map_err(|_| Refusal::new("ERR timeout is not an integer or out of range"))?;
        u64::try_from(timeout).map_err(|_| Refusal::new("ERR timeout is negative"))
    }

    /// Returns the bytes of the longest string that a command may make; proto-max-bulk-len.
    pub(crate) fn string_bytes_max(&self) -> usize {
        self.state.limits.bulk_bytes_max
    }

    /// Returns the name of the command in lower case.
    fn name(&self) -> String {
        String::from_utf8_lossy(self.args[0]).to_lowercase()
    }

    /// Returns the number of this command; of a container that of its subcommand.
    pub(crate) fn number(&self) -> Option<usize> {
        let full = [self.args[0], b"|", self.args.get(1).copied().unwrap_or_default()].concat();
        command_table::find(&full)
    }

    /// Refuses the command: it has too few arguments, or an odd number.
    pub(crate) fn wrong_arity(&self) -> Refusal {
        Refusal::wrong_arity(&self.name())
    }

    /// Refuses a time of expiry that is not positive, or too far away to be counted in milliseconds.
    pub(crate) fn invalid_expiry(&self) -> Refusal {
        Refusal::new(format!("ERR invalid expire time in '{}' command", self.name()))
    }

    /// Returns the time in milliseconds since the Unix epoch.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.keys.now.unix_ms
    }

    /// Returns the time that a relative expiry is counted from: rounded up, so that nothing expires early.
    pub(crate) fn expiry_base_ms(&self) -> u64 {
        self.keys.now_rounded_up_ms
    }

    /// Writes an error reply and counts it.
    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.state.statistics.add_error(&refusal.0);
        self.reply.error(&refusal.0);
    }

    /// Forgets the queue and the watched keys. True if a watched key has changed.
    pub(crate) fn end_transaction(&mut self) -> bool {
        self.client.take_transaction().is_some_and(|mut transaction| transaction.unwatch(self.keys))
    }

    /// Returns what the slow log keeps of this command.
    pub(crate) fn slow_command(&self, number: usize, duration: Duration) -> SlowCommand {
        let profile = self.client.registration.profile();
        SlowCommand {
            id: 0,
            unix_s: self.now.unix.as_secs(),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            args: redacted_args(TABLE[number].name, self.args),
            client: profile.peer_text(),
            client_name: profile.labels().name.clone(),
        }
    }
}

/// Returns whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_spelling() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), value, "{text:?}");
        }
    }
}
