//! OBJECT and MEMORY: properties of an entry besides its value.
//!
//! Encodings and reference counts are those that Redis would choose for a value that has just been SET. Redis
//! also records that a string was made by APPEND, SETRANGE or a bit command, and calls it `raw` however short it is; that
//! is not recorded here.

use store::{PolicyKind, Store};

use super::call::{Call, parse_integer};
use crate::reply::{Outcome, Refusal};

/// Length above which a string is `raw`, in bytes.
const EMBEDDED_MAX: usize = 44;
/// Number of integers, from 0 on, for which Redis keeps one shared object each.
const SHARED_INTEGERS: i64 = 10_000;
/// Reference count of a shared object.
const SHARED_COUNT: i64 = i32::MAX as i64;

pub(super) fn encoding<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut item = call.keys.item(call.args[2]);
    if let Some(name) = item.encoding_name() {
        call.reply.bulk(name.as_bytes());
        return Ok(());
    }
    match item.peek()? {
        None => call.reply.null(),
        Some(value) => call.reply.bulk(encoding_of(&value.bytes)),
    }
    Ok(())
}

fn encoding_of(value: &[u8]) -> &'static [u8] {
    match value.len() {
        _ if parse_integer(value).is_some() => b"int",
        ..=EMBEDDED_MAX => b"embstr",
        _ => b"raw",
    }
}

pub(super) fn refcount<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut item = call.keys.item(call.args[2]);
    if item.kind().is_some() {
        call.reply.integer(1);
        return Ok(());
    }
    match item.peek()?.map(|value| parse_integer(&value.bytes)) {
        None => call.reply.null(),
        Some(Some(0..SHARED_INTEGERS)) => call.reply.integer(SHARED_COUNT),
        Some(_) => call.reply.integer(1),
    }
    Ok(())
}

pub(super) fn idletime<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let is_lfu = call.is_lfu();
    match call.item(2).idle_s() {
        None => call.reply.null(),
        Some(_) if is_lfu => {
            return Err(Refusal::new(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Some(seconds) => call.reply.integer(seconds.into()),
    }
    Ok(())
}

pub(super) fn freq<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let is_lfu = call.is_lfu();
    match call.item(2).frequency() {
        None => call.reply.null(),
        Some(_) if !is_lfu => {
            return Err(Refusal::new(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Some(frequency) => call.reply.integer(frequency.into()),
    }
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    /// True if the policy counts how often entries are used.
    fn is_lfu(&mut self) -> bool {
        matches!(self.keys.shard(0).policy(), PolicyKind::AllKeysLfu | PolicyKind::VolatileLfu)
    }
}

pub(super) fn help<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.help(&[
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ])
}

/// Answers a container that has been called without a subcommand, which its arity rules out.
pub(super) fn container<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    Err(call.wrong_arity())
}

/// MEMORY USAGE: the bytes of the entry, without its share of the tables. SAMPLES has no effect on a string, and is only
/// checked.
pub(super) fn memory_usage<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    for at in (3..call.args.len()).step_by(2) {
        if !call.is(at, "SAMPLES") || at + 1 == call.args.len() || call.integer(at + 1)? < 0 {
            return Err(Refusal::SYNTAX);
        }
    }
    match call.item(2).footprint() {
        None => call.reply.null(),
        Some(bytes) => call.reply.count(bytes),
    }
    Ok(())
}

/// MEMORY STATS: the figures of Redis that exist here.
pub(super) fn memory_stats<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (mut bytes, mut keys) = (0, 0);
    call.keys.for_each_shard(|cache| {
        bytes += cache.bytes();
        keys += cache.len();
    });
    let figures =
        [("dataset.bytes", bytes), ("keys.count", keys), ("keys.bytes-per-key", bytes.checked_div(keys).unwrap_or(0))];
    call.reply.map(figures.len());
    for (name, figure) in figures {
        call.reply.bulk(name.as_bytes());
        call.reply.count(figure);
    }
    Ok(())
}

/// MEMORY PURGE: stores give memory back when they can, so there is nothing to do, as in Redis without jemalloc.
pub(super) fn memory_purge<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.ok();
    Ok(())
}

/// MEMORY MALLOC-STATS: the reply of Redis without jemalloc.
pub(super) fn malloc_stats<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.reply.bulk(b"Stats not supported for the current allocator");
    Ok(())
}

/// MEMORY HELP.
pub(super) fn memory_help<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.help(&[
        "MALLOC-STATS",
        "    Return internal statistics report from the memory allocator.",
        "PURGE",
        "    Attempt to purge dirty pages for reclamation by the allocator.",
        "STATS",
        "    Return information about the memory usage of the server.",
        "USAGE <key> [SAMPLES <count>]",
        "    Return memory in bytes used by <key> and its value.",
    ])
}

impl<S: Store> Call<'_, '_, S> {
    /// Answers HELP of a command with subcommands.
    pub(super) fn help(&mut self, lines: &[&str]) -> Outcome {
        let command = String::from_utf8_lossy(self.args[0]).to_uppercase();
        self.reply.array(lines.len() + 3);
        self.reply.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
            self.reply.simple(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_the_same_as_in_redis() {
        for (value, encoding) in [
            ("0", "int"),
            ("-9223372036854775808", "int"),
            ("9223372036854775808", "embstr"),
            ("01", "embstr"),
            ("", "embstr"),
            (&"x".repeat(44), "embstr"),
            (&"x".repeat(45), "raw"),
        ] {
            assert_eq!(encoding_of(value.as_bytes()), encoding.as_bytes(), "{value:?}");
        }
    }
}
