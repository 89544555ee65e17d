//! CONFIG: settings by name.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use clap::ValueEnum;
use store::{PolicyKind, Store, collections};

use super::call::{Call, parse_integer};
use crate::{
    glob,
    reply::{Outcome, Refusal},
    state::{DATABASES, Notifications, ServerState},
};

/// Change of a setting whose value has been parsed.
type Change<'a, S> = Box<dyn FnOnce(&mut Call<'_, '_, S>) + 'a>;

/// One setting.
struct Parameter<S: Store + 'static> {
    name: &'static str,
    get: fn(&ServerState<S>) -> String,
    set: Set<S>,
}

/// Way to change a setting.
enum Set<S: Store + 'static> {
    /// It cannot be changed; setting it to its value succeeds.
    Fixed,
    /// It has no effect here, and promises none that a client could miss: any value is kept and shown.
    Ignored,
    /// It is parsed; the error says what is wrong with the value.
    Parsed(for<'a> fn(&'a [u8]) -> Result<Change<'a, S>, String>),
}

pub(super) fn get<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let patterns: Vec<_> = call.args[2..].iter().map(|pattern| pattern.to_ascii_lowercase()).collect();
    let is_wanted =
        |parameter: &&Parameter<S>| patterns.iter().any(|pattern| glob::matches(pattern, parameter.name.as_bytes()));
    let parameters = parameters::<S>();
    let wanted: Vec<_> = parameters.iter().filter(is_wanted).collect();
    call.reply.map(wanted.len());
    for parameter in wanted {
        call.reply.bulk(parameter.name.as_bytes());
        let value = match parameter.set {
            Set::Ignored => ignored_value(call.state, parameter.name),
            Set::Fixed | Set::Parsed(_) => (parameter.get)(call.state),
        };
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// Changes all the settings, or none.
pub(super) fn set<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    let parameters = parameters::<S>();
    let (mut changes, mut seen) = (Vec::<Change<'_, S>>::new(), Vec::new());
    for pair in pairs.chunks_exact(2) {
        let parameter = parameters.iter().find(|parameter| pair[0].eq_ignore_ascii_case(parameter.name.as_bytes()));
        let unknown = || {
            let name = String::from_utf8_lossy(pair[0]);
            Refusal::new(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
        };
        let parameter = parameter.ok_or_else(unknown)?;
        let failed = |why: String| {
            let name = parameter.name;
            Refusal::new(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
        };
        if seen.contains(&parameter.name) {
            return Err(failed("duplicate parameter".to_owned()));
        }
        seen.push(parameter.name);
        match parameter.set {
            Set::Ignored => changes.push(keep(parameter.name, pair[1]).map_err(failed)?),
            Set::Parsed(parse) => changes.push(parse(pair[1]).map_err(failed)?),
            Set::Fixed if (parameter.get)(call.state).as_bytes().eq_ignore_ascii_case(pair[1]) => {}
            Set::Fixed => return Err(failed("can't set immutable config".to_owned())),
        }
    }
    changes.into_iter().for_each(|change| change(call));
    call.reply.ok();
    Ok(())
}

pub(super) fn rewrite<S: Store>(_: &mut Call<'_, '_, S>) -> Outcome {
    Err(Refusal::new("ERR The server is running without a config file"))
}

pub(super) fn resetstat<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    call.keys.for_each_shard(|cache| cache.counts = store::CacheCounts::default());
    call.state.statistics.reset();
    call.state.memcached.counters.reset();
    call.state.gauges.memory_peak.store(0, Relaxed);
    call.reply.ok();
    Ok(())
}

// --- the settings -----------------------------------------------------------------------------

/// Returns all settings. Names and values are those of Redis. A setting of Redis that means nothing here is listed if
/// tools look for it and one of its values tells the truth.
fn parameters<S: Store + 'static>() -> Vec<Parameter<S>> {
    let changing: [Parameter<S>; 12] = [
        Parameter {
            name: "tracking-table-max-keys",
            get: |state| text(state.tracking.keys_max.load(Relaxed)),
            set: Set::Parsed(tracked_keys_max),
        },
        Parameter {
            name: "notify-keyspace-events",
            get: |state| state.notifications.letters(),
            set: Set::Parsed(notified_events),
        },
        script_time_limit("lua-time-limit"),
        script_time_limit("busy-reply-threshold"),
        Parameter {
            name: "maxmemory",
            get: |state| text(state.settings.memory_max().unwrap_or(0)),
            set: Set::Parsed(memory_max),
        },
        Parameter {
            name: "maxmemory-clients",
            get: |state| text(state.clients.memory.max()),
            set: Set::Parsed(client_memory_max),
        },
        Parameter { name: "maxmemory-policy", get: |state| text(state.settings.policy()), set: Set::Parsed(policy) },
        Parameter {
            name: "requirepass",
            get: |state| text(state.settings.password().unwrap_or_default()),
            set: Set::Parsed(password),
        },
        Parameter { name: "timeout", get: |state| text(idle_seconds(state)), set: Set::Parsed(idle_timeout) },
        Parameter {
            name: "slowlog-log-slower-than",
            get: |state| text(state.slow_log.threshold_us.load(Relaxed)),
            set: Set::Parsed(slower_than),
        },
        Parameter {
            name: "slowlog-max-len",
            get: |state| text(state.slow_log.len_max.load(Relaxed)),
            set: Set::Parsed(slow_max),
        },
        Parameter {
            name: "latency-monitor-threshold",
            get: |state| text(state.latency_monitor.threshold_ms.load(Relaxed)),
            set: Set::Parsed(delay_threshold),
        },
    ];
    let fixed = |(name, get)| Parameter { name, get, set: Set::Fixed };
    let ignored = |(name, _)| Parameter { name, get: |_| String::new(), set: Set::Ignored };
    let others = fixed_parameters::<S>().into_iter().map(fixed).chain(IGNORED.into_iter().map(ignored));
    changing.into_iter().chain(others).collect()
}

/// Returns the setting of the time after which others do not wait for a script any more, which has two names.
fn script_time_limit<S: Store + 'static>(name: &'static str) -> Parameter<S> {
    Parameter { name, get: |state| text(state.scripts.time_limit_ms.load(Relaxed)), set: Set::Parsed(busy_threshold) }
}

fn busy_threshold<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let ms = number(value, 0, i64::MAX)?.unsigned_abs();
    Ok(Box::new(move |call| call.state.scripts.set_time_limit_ms(ms)))
}

fn notified_events<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let flags = Notifications::parse(value);
    let flags = flags.ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned())?;
    Ok(Box::new(move |call| {
        call.state.notifications.set(flags);
        call.observe_changes();
    }))
}

fn tracked_keys_max<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let keys_max = usize::try_from(number(value, 0, i64::MAX)?).unwrap_or(usize::MAX);
    Ok(Box::new(move |call| call.state.tracking.keys_max.store(keys_max, Relaxed)))
}

/// Settings of Redis that have no effect here, with its default values, or 0 for what is not done. Tools set them; none of them promises that data is
/// safe, or that something is limited or reported.
const IGNORED: [(&str, &str); 16] = [
    ("stop-writes-on-bgsave-error", "yes"),
    ("rdbcompression", "yes"),
    ("rdbchecksum", "yes"),
    // A peer that is gone is found by the limits of idle and of stalled connections.
    ("tcp-keepalive", "0"),
    ("hz", "10"),
    ("dynamic-hz", "yes"),
    ("activerehashing", "yes"),
    ("lazyfree-lazy-eviction", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("replica-lazy-flush", "no"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("list-compress-depth", "0"),
    ("auto-aof-rewrite-percentage", "100"),
];
/// Limit of the length of such a value.
const IGNORED_VALUE_BYTES_MAX: usize = 64;

/// Returns the value of a setting that has no effect.
fn ignored_value<S: Store>(state: &ServerState<S>, name: &'static str) -> String {
    let default = IGNORED.iter().find(|(other, _)| *other == name).map_or("", |(_, default)| default);
    state.settings.ignored.lock().get(name).cloned().unwrap_or_else(|| default.to_owned())
}

/// Keeps the value of a setting that has no effect.
fn keep<'a, S: Store + 'static>(name: &'static str, value: &'a [u8]) -> Result<Change<'a, S>, String> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= IGNORED_VALUE_BYTES_MAX);
    let text = text.ok_or_else(|| "argument must be a short text".to_owned())?.to_owned();
    Ok(Box::new(move |call| drop(call.state.settings.ignored.lock().insert(name, text))))
}

type Get<S> = fn(&ServerState<S>) -> String;

fn fixed_parameters<S: Store + 'static>() -> [(&'static str, Get<S>); 34] {
    [
        ("maxclients", |state| text(state.info.connections_max)),
        ("maxmemory-samples", |_| text(store::SAMPLE_SIZE)),
        ("databases", |_| text(DATABASES)),
        ("port", |state| text(state.info.port())),
        ("bind", |state| state.info.bind()),
        ("unixsocket", |state| state.info.unix_socket()),
        ("tcp-backlog", |state| text(state.info.backlog)),
        ("io-threads", |state| text(state.info.threads)),
        ("proto-max-bulk-len", |state| text(state.limits.bulk_bytes_max)),
        ("client-query-buffer-limit", |state| text(state.info.request_bytes_max)),
        ("client-output-buffer-limit", |state| {
            format!("normal {} 0 0 pubsub {} 0 0", state.info.output_bytes_max, state.pushed_bytes_max)
        }),
        ("cluster-enabled", |state| text(if state.info.is_cluster { "yes" } else { "no" })),
        ("cluster-require-full-coverage", |_| text("yes")),
        ("save", |_| text("")),
        ("appendonly", |_| text("no")),
        ("appendfsync", |_| text("no")),
        ("dir", |_| std::env::current_dir().unwrap_or_default().display().to_string()),
        ("activedefrag", |_| text("no")),
        ("lazyfree-lazy-user-flush", |_| text("no")),
        ("latency-tracking", |_| text("yes")),
        ("latency-tracking-info-percentiles", |_| text("50 99 99.9")),
        ("daemonize", |_| text("no")),
        ("supervised", |_| text("no")),
        ("loglevel", |_| text("notice")),
        ("logfile", |_| text("")),
        // Limits between small and large collections.
        ("hash-max-listpack-entries", |_| text(collections::PACKED_FIELDS_MAX)),
        ("hash-max-listpack-value", |_| text(collections::PACKED_TEXT_BYTES_MAX)),
        ("hash-max-ziplist-entries", |_| text(collections::PACKED_FIELDS_MAX)),
        ("hash-max-ziplist-value", |_| text(collections::PACKED_TEXT_BYTES_MAX)),
        ("set-max-intset-entries", |_| text(collections::PACKED_INTEGERS_MAX)),
        ("zset-max-listpack-entries", |_| text(collections::PACKED_LEN_MAX)),
        ("zset-max-listpack-value", |_| text(collections::PACKED_MEMBER_BYTES_MAX)),
        ("zset-max-ziplist-entries", |_| text(collections::PACKED_LEN_MAX)),
        ("zset-max-ziplist-value", |_| text(collections::PACKED_MEMBER_BYTES_MAX)),
    ]
}

fn text(value: impl ToString) -> String {
    value.to_string()
}

/// Returns the value of `timeout`: 0 is for ever, and part of a second counts as a whole one.
fn idle_seconds<S: Store + 'static>(state: &ServerState<S>) -> u64 {
    state.settings.idle_timeout().map_or(0, |timeout| timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0))
}

// --- values -----------------------------------------------------------------------------------

/// Parses a whole number between these, with Redis's errors.
fn number(value: &[u8], least: i64, most: i64) -> Result<i64, String> {
    let number = parse_integer(value).ok_or_else(|| "argument couldn't be parsed into an integer".to_owned())?;
    match (least..=most).contains(&number) {
        true => Ok(number),
        false => Err(format!("argument must be between {least} and {most} inclusive")),
    }
}

fn memory_max<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let bytes = std::str::from_utf8(value).ok().and_then(service::parse_size);
    let bytes = bytes.ok_or_else(|| "argument must be a memory value".to_owned())?;
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0);
    Ok(Box::new(move |call| {
        call.state.settings.set_memory_max(bytes);
        let shards = call.state.space.shards();
        call.keys.for_each_shard(|cache| cache.set_limit(bytes.map(|bytes| bytes / shards)));
    }))
}

fn client_memory_max<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let bytes = std::str::from_utf8(value).ok().and_then(service::parse_size);
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| "argument must be a memory value".to_owned())?;
    Ok(Box::new(move |call| call.state.clients.set_memory_max(bytes)))
}

fn policy<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let kind = std::str::from_utf8(value).ok().and_then(|name| PolicyKind::from_str(name, true).ok());
    let kind = kind.ok_or_else(|| {
        let names: Vec<_> = PolicyKind::value_variants().iter().map(ToString::to_string).collect();
        format!("argument(s) must be one of the following: {}", names.join(", "))
    })?;
    Ok(Box::new(move |call| {
        call.state.settings.set_policy(kind);
        call.keys.for_each_shard(|cache| cache.set_policy(kind));
    }))
}

fn password<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let password = std::str::from_utf8(value).map_err(|_| "argument must be UTF-8".to_owned())?;
    Ok(Box::new(move |call| call.state.settings.set_password(password)))
}

fn idle_timeout<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let seconds = number(value, 0, i64::from(i32::MAX))?;
    let timeout = u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs);
    Ok(Box::new(move |call| call.state.settings.set_idle_timeout(timeout)))
}

fn slower_than<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let us = number(value, -1, i64::MAX)?;
    Ok(Box::new(move |call| call.state.slow_log.threshold_us.store(us, Relaxed)))
}

fn slow_max<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let len = number(value, 0, i64::MAX)?;
    Ok(Box::new(move |call| call.state.slow_log.len_max.store(len.unsigned_abs(), Relaxed)))
}

fn delay_threshold<S: Store + 'static>(value: &[u8]) -> Result<Change<'_, S>, String> {
    let ms = number(value, 0, i64::MAX)?;
    Ok(Box::new(move |call| call.state.latency_monitor.threshold_ms.store(ms.unsigned_abs(), Relaxed)))
}
