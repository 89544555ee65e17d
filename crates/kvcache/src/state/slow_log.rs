//! The slow log: commands that took long.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

/// Limit of the arguments that are kept of a slow command, as in Redis.
const ARGS_MAX: usize = 32;
/// Limit of the bytes that are kept of each argument, as in Redis.
const ARG_BYTES_MAX: usize = 128;

/// Commands that took long.
#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Duration from which on a command is slow, in microseconds; negative: none is.
    pub(crate) threshold_us: AtomicI64,
    pub(crate) len_max: AtomicU64,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// Commands, the latest first.
    commands: VecDeque<SlowCommand>,
    next_id: u64,
}

/// One slow command.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    pub(crate) duration_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) client: String,
    pub(crate) client_name: String,
}

impl Default for SlowLog {
    fn default() -> Self {
        Self { threshold_us: AtomicI64::new(10_000), len_max: AtomicU64::new(128), entries: Mutex::default() }
    }
}

impl SlowLog {
    #[inline]
    pub(crate) fn is_slow(&self, duration: Duration) -> bool {
        let threshold_us = self.threshold_us.load(Relaxed);
        threshold_us >= 0 && duration.as_micros() >= u128::from(threshold_us.unsigned_abs())
    }

    /// Records a slow command, and numbers it.
    pub(crate) fn add(&self, command: SlowCommand) {
        let len_max = usize::try_from(self.len_max.load(Relaxed)).unwrap_or(usize::MAX);
        let mut entries = self.entries.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        entries.commands.push_front(SlowCommand { id, ..command });
        entries.commands.truncate(len_max);
    }

    /// Returns at most `max` commands, the latest first.
    pub(crate) fn latest(&self, max: usize) -> Vec<SlowCommand> {
        self.entries.lock().commands.iter().take(max).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().commands.len()
    }

    pub(crate) fn clear(&self) {
        self.entries.lock().commands.clear();
    }
}

/// Returns the arguments that the slow log keeps of a command: as much as Redis keeps, and no passwords.
pub(crate) fn redacted_args(command: &str, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let secret_from = match command {
        "auth" => 1,
        "hello" => 2,
        "config|set" => {
            args.iter().position(|arg| arg.eq_ignore_ascii_case(b"requirepass")).map_or(usize::MAX, |at| at + 1)
        }
        _ => usize::MAX,
    };
    let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let redact = |(at, arg): (usize, &&[u8])| match arg.len().saturating_sub(ARG_BYTES_MAX) {
        _ if at >= secret_from => b"(redacted)".to_vec(),
        0 => arg.to_vec(),
        more => [&arg[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    };
    let mut redacted: Vec<_> = args.iter().take(shown).enumerate().map(redact).collect();
    if shown < args.len() {
        redacted.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    redacted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_truncated_and_passwords_redacted() {
        let long = [b'x'; 130];
        let args: Vec<&[u8]> = std::iter::repeat_n(&long[..], 40).collect();
        let redacted = redacted_args("mget", &args);
        assert_eq!(redacted.len(), 32);
        assert!(redacted[0].ends_with(b"xx... (2 more bytes)"));
        assert_eq!(redacted[31], b"... (9 more arguments)");
        assert_eq!(redacted_args("auth", &[b"AUTH", b"secret"]), [b"AUTH".to_vec(), b"(redacted)".to_vec()]);
        let args: [&[u8]; 4] = [b"CONFIG", b"SET", b"requirepass", b"secret"];
        assert_eq!(redacted_args("config|set", &args)[3], b"(redacted)");
    }
}
