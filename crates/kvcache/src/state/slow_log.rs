//! What took long: the slow log, and the latency monitor.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Arguments kept of a slow command, and bytes of each, as in Redis.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;
/// Delays remembered of one kind, as in Redis.
const SAMPLES_MAX: usize = 160;

/// Commands and delays that took long.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Microseconds from which on a command is slow; negative: none is.
    pub(crate) slower_than_us: AtomicI64,
    pub(crate) slow_max: AtomicU64,
    /// Milliseconds from which on a delay is remembered; 0: none is.
    pub(crate) delay_ms: AtomicU64,
    slow: Mutex<Slow>,
    delays: Mutex<BTreeMap<&'static str, Delays>>,
}

#[derive(Debug, Default)]
struct Slow {
    /// The latest first.
    commands: VecDeque<SlowCommand>,
    next_id: u64,
}

/// One slow command.
#[derive(Clone, Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    pub(crate) took_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) client: String,
    pub(crate) client_name: String,
}

/// The delays of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delays {
    pub(crate) samples: VecDeque<Delay>,
    pub(crate) longest_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    pub(crate) unix_s: u64,
    pub(crate) ms: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            slower_than_us: AtomicI64::new(10_000),
            slow_max: AtomicU64::new(128),
            delay_ms: AtomicU64::new(0),
            slow: Mutex::default(),
            delays: Mutex::default(),
        }
    }
}

impl Journal {
    fn slow(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delays(&self) -> MutexGuard<'_, BTreeMap<&'static str, Delays>> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        let limit = self.slower_than_us.load(Relaxed);
        limit >= 0 && took.as_micros() >= u128::from(limit.unsigned_abs())
    }

    #[inline]
    pub(crate) fn is_delay(&self, took: Duration) -> bool {
        let limit = self.delay_ms.load(Relaxed);
        limit > 0 && took.as_millis() >= u128::from(limit)
    }

    /// Remembers a slow command; its number is given here.
    pub(crate) fn add_slow(&self, command: SlowCommand) {
        let max = usize::try_from(self.slow_max.load(Relaxed)).unwrap_or(usize::MAX);
        let mut slow = self.slow();
        let id = slow.next_id;
        slow.next_id += 1;
        slow.commands.push_front(SlowCommand { id, ..command });
        slow.commands.truncate(max);
    }

    /// The latest first.
    pub(crate) fn slow_commands(&self, max: usize) -> Vec<SlowCommand> {
        self.slow().commands.iter().take(max).cloned().collect()
    }

    pub(crate) fn slow_len(&self) -> usize {
        self.slow().commands.len()
    }

    pub(crate) fn forget_slow(&self) {
        self.slow().commands.clear();
    }

    /// Remembers a delay; of several in one second the longest.
    pub(crate) fn add_delay(&self, event: &'static str, delay: Delay) {
        let mut delays = self.delays();
        let delays = delays.entry(event).or_default();
        delays.longest_ms = delays.longest_ms.max(delay.ms);
        match delays.samples.back_mut().filter(|last| last.unix_s == delay.unix_s) {
            Some(last) => last.ms = last.ms.max(delay.ms),
            None => {
                delays.samples.push_back(delay);
                let over = delays.samples.len().saturating_sub(SAMPLES_MAX);
                delays.samples.drain(..over);
            }
        }
    }

    /// By kind.
    pub(crate) fn all_delays(&self) -> Vec<(&'static str, Delays)> {
        self.delays().iter().map(|(event, delays)| (*event, delays.clone())).collect()
    }

    /// Of one kind, whatever the case of its name.
    pub(crate) fn delays_of(&self, event: &[u8]) -> Option<Delays> {
        let delays = self.delays();
        let found = delays.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(event));
        found.map(|(_, delays)| delays.clone())
    }

    /// Forgets the delays of these kinds, or of all if none is named, and says of how many.
    pub(crate) fn forget_delays(&self, events: &[&[u8]]) -> usize {
        let mut delays = self.delays();
        let before = delays.len();
        delays.retain(|name, _| {
            !events.is_empty() && !events.iter().any(|event| name.as_bytes().eq_ignore_ascii_case(event))
        });
        before - delays.len()
    }
}

/// What is kept of a slow command's arguments: as much as Redis keeps, and no passwords.
pub(crate) fn kept(command: &str, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let secret_from = match command {
        "auth" => 1,
        "hello" => 2,
        "config|set" => {
            args.iter().position(|arg| arg.eq_ignore_ascii_case(b"requirepass")).map_or(usize::MAX, |at| at + 1)
        }
        _ => usize::MAX,
    };
    let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let keep = |(at, arg): (usize, &&[u8])| match arg.len().saturating_sub(ARG_BYTES_MAX) {
        _ if at >= secret_from => b"(redacted)".to_vec(),
        0 => arg.to_vec(),
        more => [&arg[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    };
    let mut kept: Vec<_> = args.iter().take(shown).enumerate().map(keep).collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_and_passwords_are_not_kept() {
        let long = [b'x'; 130];
        let args: Vec<&[u8]> = std::iter::repeat_n(&long[..], 40).collect();
        let kept_args = kept("mget", &args);
        assert_eq!(kept_args.len(), 32);
        assert!(kept_args[0].ends_with(b"xx... (2 more bytes)"));
        assert_eq!(kept_args[31], b"... (9 more arguments)");
        assert_eq!(kept("auth", &[b"AUTH", b"secret"]), [b"AUTH".to_vec(), b"(redacted)".to_vec()]);
        let args: [&[u8]; 4] = [b"CONFIG", b"SET", b"requirepass", b"secret"];
        assert_eq!(kept("config|set", &args)[3], b"(redacted)");
    }

    #[test]
    fn the_longest_delay_of_a_second_is_remembered() {
        let journal = Journal::default();
        for (unix_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            journal.add_delay("command", Delay { unix_s, ms });
        }
        let delays = journal.delays_of(b"Command").unwrap();
        assert_eq!(delays.samples, [Delay { unix_s: 1, ms: 9 }, Delay { unix_s: 2, ms: 3 }]);
        assert_eq!((delays.longest_ms, journal.forget_delays(&[b"other"]), journal.forget_delays(&[])), (9, 0, 1));
    }
}
