//! The server's figures as Prometheus metrics.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{gauge, total};
use store::{CacheCounts, Store};

use crate::{
    codec::DecodeError,
    command_table::CommandName,
    server::KvServer,
    state::{BUCKETS, ChannelKind, CommandReading, ServerState, upper_ns},
};

/// Collector of the figures of a [`KvServer`].
pub struct Metrics<S: Store> {
    server: Arc<KvServer<S>>,
    /// Those of the keyspace as they were last read: while a script runs that takes long, nobody reads them.
    last: Mutex<KeyFigures>,
}

impl<S: Store> Metrics<S> {
    pub fn new(server: Arc<KvServer<S>>) -> Self {
        Self { server, last: Mutex::default() }
    }
}

/// Figures that are read shard by shard.
#[derive(Clone, Copy, Debug, Default)]
struct KeyFigures {
    counts: CacheCounts,
    keys: usize,
    expiring: usize,
    bytes: usize,
}

impl KeyFigures {
    fn read<S: Store>(state: &ServerState<S>) -> Option<Self> {
        let _pin = state.clients.pause.keep_scripts_out()?;
        let mut figures = Self { counts: state.space.counts(), ..Self::default() };
        state.space.for_each_shard(|cache| {
            figures.keys += cache.len();
            figures.expiring += cache.store().expiring();
            figures.bytes += cache.bytes();
        });
        Some(figures)
    }
}

impl<S: Store + 'static> Collector for Metrics<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (state, encoder) = (&*self.server.state, &mut encoder);
        let commands: Vec<_> = state.statistics.readings().collect();
        by_command(encoder, "commands", "Commands run", &commands, |reading| reading.calls)?;
        by_command(encoder, "command_errors", "Commands answered with an error", &commands, |reading| reading.failed)?;
        by_command(encoder, "commands_rejected", "Commands refused before they ran", &commands, |reading| {
            reading.rejected
        })?;
        durations(encoder, &commands)?;

        let figures = KeyFigures::read(state).unwrap_or_else(|| *self.last.lock());
        *self.last.lock() = figures;
        let KeyFigures { counts, keys, expiring, bytes } = figures;
        total(encoder, "keyspace_hits", "Reads of keys that were found", counts.hits)?;
        total(encoder, "keyspace_misses", "Reads of keys that were not found", counts.misses)?;
        total(encoder, "evicted_keys", "Keys evicted because memory was full", counts.evicted)?;
        total(encoder, "expired_keys", "Keys expired", counts.expired)?;
        undecodable(encoder, |error| state.space.codec().failures(error))?;

        gauge(encoder, "keys", "Keys", signed(keys))?;
        gauge(encoder, "expiring_keys", "Keys with an expiry", signed(expiring))?;
        gauge(encoder, "memory_bytes", "Memory used by entries and tables, in bytes", signed(bytes))?;
        let limit = state.settings.memory_max().unwrap_or(0);
        gauge(encoder, "memory_limit_bytes", "Limit of the memory for entries, in bytes; 0: no limit", signed(limit))?;
        let help = "Part of the limit that no entry may have, for resident memory that is in nobody's use, in bytes";
        let withheld = usize::try_from(state.gauges.memory_withheld.load(Relaxed)).unwrap_or(usize::MAX);
        gauge(encoder, "memory_withheld_bytes", help, signed(withheld))?;
        let channels = &state.channels;
        let subscribed: usize = ChannelKind::ALL.map(|kind| channels.len(kind)).into_iter().sum();
        gauge(encoder, "subscribed_channels", "Channels and patterns that have subscribers", signed(subscribed))?;
        total(
            encoder,
            "messages_delivered",
            "Messages to subscribers, one for each",
            channels.delivered.load(Relaxed),
        )?;
        let tracking = state.tracking.figures();
        gauge(encoder, "tracking_clients", "Connections that have CLIENT TRACKING on", signed(tracking.clients))?;
        gauge(encoder, "tracked_keys", "Keys that such clients have read", signed(tracking.keys))?;
        let clients = &state.clients.memory;
        let help =
            "Memory of clients' buffers, in bytes: requests that are not whole, open transactions, waiting replies";
        gauge(encoder, "client_memory_bytes", help, signed(clients.bytes()))?;
        let help = "Limit of the memory of clients' buffers, in bytes; 0: no limit";
        gauge(encoder, "client_memory_limit_bytes", help, signed(clients.max()))?;
        let help = "Connections closed because clients' buffers were over their limit";
        total(encoder, "evicted_clients", help, clients.evicted())?;
        gauge(encoder, "waiting_connections", "Connections held by CLIENT PAUSE", signed(state.clients.pause.waiting()))
    }
}

impl<S: Store> fmt::Debug for Metrics<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn by_command(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    commands: &[(CommandName, CommandReading)],
    of: impl Fn(&CommandReading) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (command, reading) in commands {
        ConstCounter::new(of(reading)).encode(family.encode_family(&labels(command))?)?;
    }
    Ok(())
}

fn labels(command: &CommandName) -> [(&'static str, &'static str); 2] {
    [("protocol", command.protocol.name()), ("command", command.name)]
}

/// Writes the failures by reason; all reasons exist from the start, so that the first failure shows in a rate.
fn undecodable(encoder: &mut DescriptorEncoder<'_>, failures: impl Fn(DecodeError) -> u64) -> fmt::Result {
    let help = "Values that could not be decoded when a client asked for them";
    let mut family = encoder.encode_descriptor("undecodable_values", help, None, MetricType::Counter)?;
    for &error in DecodeError::ALL {
        ConstCounter::new(failures(error)).encode(family.encode_family(&[("reason", error.name())])?)?;
    }
    Ok(())
}

fn durations(encoder: &mut DescriptorEncoder<'_>, commands: &[(CommandName, CommandReading)]) -> fmt::Result {
    let help = "Time spent on a command in the server; commands of one batch share its time evenly";
    let mut family = encoder.encode_descriptor("command_duration_seconds", help, None, MetricType::Histogram)?;
    for (command, reading) in commands.iter().filter(|(_, reading)| reading.calls > 0) {
        let edge = |bucket: usize| if bucket == BUCKETS - 1 { f64::INFINITY } else { upper_ns(bucket) as f64 / 1e9 };
        let buckets: Vec<(f64, u64)> = (0..BUCKETS).map(|bucket| (edge(bucket), reading.buckets[bucket])).collect();
        let labels = labels(command);
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<[(&str, &str); 1]>(
            reading.time_ns as f64 / 1e9,
            reading.buckets.iter().sum(),
            &buckets,
            None,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
