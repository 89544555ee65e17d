//! Commands on all keys of a database.
//!
//! One table holds all databases. As long as no key of another database than 0 has been asked for since the last
//! FLUSHALL, DBSIZE and FLUSHDB take constant time, and RANDOMKEY a few samples. After that they visit every key of every
//! database, one shard at a time, as KEYS always does.

use bytes::Bytes;
use store::{EntryView, Moment, Store};
use wire::resp::reply;

use super::{
    call::{Call, parse_integer},
    generic::type_name,
};
use crate::{
    glob,
    reply::{Outcome, Refusal, Reply, quote::until_zero},
    state::{Keyspace, split_stored_key},
};

/// Default COUNT of SCAN.
const COUNT: i64 = 10;
/// Steps per element asked for, so that a sparse table does not keep a shard locked for long.
const STEPS_PER_ELEMENT: i64 = 10;
/// Samples after which RANDOMKEY visits every key instead.
const SAMPLES_MAX: usize = 64;

pub(super) fn dbsize<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let database = call.keys.database;
    let mut len = 0;
    if call.keys.has_one_database() {
        if database == 0 {
            call.keys.for_each_shard(|cache| len += cache.len());
        }
    } else {
        for_each_entry(call.keys, |view| len += usize::from(split_stored_key(view.key).0 == database));
    }
    call.reply.count(len);
    Ok(())
}

/// Visits every entry, expired or not, at least once.
fn for_each_entry<S: Store>(keys: &mut Keyspace<'_, S>, mut visit: impl FnMut(EntryView<'_>)) {
    keys.for_each_shard(|cache| {
        let mut cursor = 0;
        loop {
            cursor = cache.store().scan(cursor, &mut visit);
            if cursor == 0 {
                break;
            }
        }
    });
}

fn is_alive(view: &EntryView<'_>, now: Moment) -> bool {
    let at = view.attributes.expires_at;
    at == 0 || at > now.unix_ms
}

pub(super) fn keys<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.lock_all();
    let (pattern, database, now) = (call.args[1], call.keys.database, call.keys.now);
    let (mut found, mut count) = (Vec::new(), 0);
    for_each_entry(call.keys, |view| {
        let (of, key) = split_stored_key(view.key);
        if of == database && is_alive(&view, now) && (pattern == b"*" || glob::matches(pattern, key)) {
            reply::bulk(&mut found, key);
            count += 1;
        }
    });
    call.reply.array(count);
    call.reply.out.push_shared(&Bytes::from(found));
    Ok(())
}

pub(super) fn randomkey<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.lock_all();
    let key = sample(call.keys).or_else(|| choose(call.keys));
    match key {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns a key of the selected database, if a few samples of all keys hit one.
fn sample<S: Store>(keys: &mut Keyspace<'_, S>) -> Option<Vec<u8>> {
    let (database, now) = (keys.database, keys.now);
    let mut lens = Vec::with_capacity(keys.space().shards());
    keys.for_each_shard(|cache| lens.push(cache.len()));
    let total: usize = lens.iter().sum();
    if total == 0 || (database != 0 && keys.has_one_database()) {
        return None;
    }
    (0..SAMPLES_MAX).find_map(|_| {
        let mut nth = fastrand::usize(..total);
        let shard = lens.iter().position(|&len| {
            nth < len || {
                nth -= len;
                false
            }
        })?;
        let store = keys.shard(shard).store();
        let view = store.view(store.sample(fastrand::u64(..))?);
        let (of, key) = split_stored_key(view.key);
        (of == database && is_alive(&view, now)).then(|| key.to_vec())
    })
}

/// Returns a random key of the selected database by visiting every key.
fn choose<S: Store>(keys: &mut Keyspace<'_, S>) -> Option<Vec<u8>> {
    let (database, now) = (keys.database, keys.now);
    let (mut chosen, mut seen) = (None, 0);
    for_each_entry(keys, |view| {
        let (of, key) = split_stored_key(view.key);
        if of == database && is_alive(&view, now) {
            seen += 1;
            if fastrand::u64(..seen) == 0 {
                chosen = Some(key.to_vec());
            }
        }
    });
    chosen
}

/// Options of SCAN.
#[derive(Debug)]
struct Filter<'a> {
    count: i64,
    pattern: Option<&'a [u8]>,
    /// Name of a type.
    kind: Option<&'a [u8]>,
}

/// SCAN. Its cursor is that of the shard's store, multiplied by the number of shards, plus the number of the shard: 0 is
/// the start of the first shard, and the end.
pub(super) fn scan<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let mut cursor = parse_cursor(call.args[1])?;
    let filter = parse_filter(call)?;
    let (database, now) = (call.keys.database, call.keys.now);
    let is_shown = |view: &EntryView<'_>, key: &[u8]| {
        is_alive(view, now)
            && filter.pattern.is_none_or(|pattern| pattern == b"*" || glob::matches(pattern, key))
            && filter.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(type_name(view.attributes.encoding).as_bytes()))
    };
    let (mut found, mut shown, mut seen) = (Vec::new(), 0, 0);
    for _ in 0..filter.count.saturating_mul(STEPS_PER_ELEMENT) {
        cursor = step(call.keys, cursor, |view| {
            let (of, key) = split_stored_key(view.key);
            if of == database {
                seen += 1;
                if is_shown(&view, key) {
                    reply::bulk(&mut found, key);
                    shown += 1;
                }
            }
        });
        if cursor == 0 || seen >= filter.count {
            break;
        }
    }
    write_page(&mut call.reply, cursor, shown, found);
    Ok(())
}

/// Visits a few entries and returns the next cursor.
fn step<S: Store>(keys: &mut Keyspace<'_, S>, cursor: u64, mut visit: impl FnMut(EntryView<'_>)) -> u64 {
    let shards = keys.space().shards() as u64;
    let shard = cursor % shards;
    match keys.shard(shard as usize).store().scan(cursor / shards, &mut visit) {
        0 => (shard + 1) % shards,
        // Cursors are numbers of buckets, far below 2^64 even if multiplied by the number of shards.
        next => next.wrapping_mul(shards).wrapping_add(shard),
    }
}

/// Parses a cursor like `strtoul`, which knows signs and reads an empty text as 0.
pub(super) fn parse_cursor(text: &[u8]) -> Result<u64, Refusal> {
    let text = until_zero(text, usize::MAX);
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let parse = || {
        if text.is_empty() {
            return Some(0);
        }
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse::<u64>().ok()
    };
    let cursor = parse().ok_or_else(|| Refusal::new("ERR invalid cursor"))?;
    Ok(if is_negative { cursor.wrapping_neg() } else { cursor })
}

fn parse_filter<'a, S: Store>(call: &Call<'a, '_, S>) -> Result<Filter<'a>, Refusal> {
    let mut filter = Filter { count: COUNT, pattern: None, kind: None };
    for at in (2..call.args.len()).step_by(2) {
        let Some(&argument) = call.args.get(at + 1) else { return Err(Refusal::SYNTAX) };
        if call.is(at, "COUNT") {
            filter.count = call.integer(at + 1)?;
            if filter.count < 1 {
                return Err(Refusal::SYNTAX);
            }
        } else if call.is(at, "MATCH") {
            filter.pattern = Some(argument);
        } else if call.is(at, "TYPE") {
            filter.kind = Some(argument);
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    Ok(filter)
}

/// Options of a command like SSCAN.
#[derive(Debug)]
pub(super) struct PartFilter<'a> {
    /// Number of parts to look at.
    pub(super) count: usize,
    pub(super) pattern: Option<&'a [u8]>,
}

/// Parses the options of a command that iterates over the parts of a collection.
pub(super) fn parse_part_filter<'a>(args: &[&'a [u8]]) -> Result<PartFilter<'a>, Refusal> {
    let mut filter = PartFilter { count: COUNT as usize, pattern: None };
    for option in args.chunks(2) {
        let &[name, argument] = option else { return Err(Refusal::SYNTAX) };
        if name.eq_ignore_ascii_case(b"COUNT") {
            let count = parse_integer(argument).ok_or(Refusal::NOT_AN_INTEGER)?;
            filter.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Refusal::SYNTAX)?;
        } else if name.eq_ignore_ascii_case(b"MATCH") {
            filter.pattern = Some(argument).filter(|pattern| *pattern != b"*");
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    Ok(filter)
}

/// Writes the page of a collection that does not exist.
pub(super) fn empty(reply: &mut Reply<'_>) {
    write_page(reply, 0, 0, Vec::new());
}

/// Writes the next cursor, and `len` replies that have been written before.
pub(super) fn write_page(reply: &mut Reply<'_>, cursor: u64, len: usize, found: Vec<u8>) {
    reply.array(2);
    reply.bulk(itoa::Buffer::new().format(cursor).as_bytes());
    reply.array(len);
    reply.out.push_shared(&Bytes::from(found));
}

/// Checks SYNC or ASYNC, which make no difference: a cleared table is free at once.
fn check_flush_options<S: Store>(call: &Call<'_, '_, S>) -> Outcome {
    let is_known = call.args.len() == 1 || call.args.len() == 2 && (call.is(1, "SYNC") || call.is(1, "ASYNC"));
    if is_known { Ok(()) } else { Err(Refusal::SYNTAX) }
}

pub(super) fn flushall<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    check_flush_options(call)?;
    call.lock_all();
    call.keys.clear();
    call.reply.ok();
    Ok(())
}

pub(super) fn flushdb<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    check_flush_options(call)?;
    call.lock_all();
    let database = call.keys.database;
    match call.keys.has_one_database() {
        true if database == 0 => call.keys.clear(),
        true => {}
        false => {
            clear_database(call.keys, database);
            call.keys.note_cleared();
        }
    }
    call.reply.ok();
    Ok(())
}

fn clear_database<S: Store>(keys: &mut Keyspace<'_, S>, database: u8) {
    let (space, now) = (keys.space(), keys.now);
    keys.for_each_shard(|cache| {
        let mut cursor = 0;
        loop {
            let mut found: Vec<Vec<u8>> = Vec::new();
            cursor = cache.store().scan(cursor, &mut |view| {
                if split_stored_key(view.key).0 == database {
                    found.push(view.key.to_vec());
                }
            });
            for key in found {
                cache.remove(space.hash(&key), &key, now);
            }
            if cursor == 0 {
                break;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_parsed_as_by_strtoul() {
        for (text, cursor) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("+17", Some(17)),
            ("-1", Some(u64::MAX)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" 1", None),
            ("1 ", None),
            ("-", None),
            ("x", None),
        ] {
            assert_eq!(parse_cursor(text.as_bytes()).ok(), cursor, "{text:?}");
        }
    }
}
