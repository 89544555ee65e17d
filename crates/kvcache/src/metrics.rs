//! The server's counters as Prometheus reads them.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};
use service::{gauge, total};
use store::Store;

use crate::Damage;
use crate::KvServer;
use crate::state::statistics::BUCKETS;
use crate::state::statistics::Counted;
use crate::state::statistics::Reading;
use crate::state::statistics::upper_ns;

/// Collects what a [`KvServer`] counts.
pub struct Metrics<S: Store>(pub Arc<KvServer<S>>);

impl<S: Store + 'static> Collector for Metrics<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (server, encoder) = (&self.0, &mut encoder);
        let commands: Vec<_> = server.statistics.readings().collect();
        by_command(encoder, "commands", "Commands run", &commands, |reading| reading.calls)?;
        by_command(encoder, "command_errors", "Commands run and answered with an error", &commands, |reading| {
            reading.failed
        })?;
        by_command(encoder, "commands_rejected", "Commands refused before they ran", &commands, |reading| {
            reading.rejected
        })?;
        durations(encoder, &commands)?;

        let counts = server.space.counts();
        total(encoder, "keyspace_hits", "Keys that were read and there", counts.hits)?;
        total(encoder, "keyspace_misses", "Keys that were read and not there", counts.misses)?;
        total(encoder, "evicted_keys", "Keys given up for want of memory", counts.evicted)?;
        total(encoder, "expired_keys", "Keys whose time had come", counts.expired)?;
        undecodable(encoder, |damage| server.space.codec().failures(damage))?;

        let (mut keys, mut expiring, mut bytes) = (0, 0, 0);
        server.space.each(|cache| {
            keys += cache.len();
            expiring += cache.store().expiring();
            bytes += cache.bytes();
        });
        gauge(encoder, "keys", "Keys", signed(keys))?;
        gauge(encoder, "expiring_keys", "Keys with a time to expire at", signed(expiring))?;
        gauge(encoder, "memory_bytes", "Memory that entries and tables take", signed(bytes))?;
        let limit = server.settings.memory_max().unwrap_or(0);
        gauge(encoder, "memory_limit_bytes", "Memory that entries may take; 0: no limit", signed(limit))?;
        gauge(
            encoder,
            "waiting_connections",
            "Connections held by CLIENT PAUSE",
            signed(server.clients.pause.waiting()),
        )
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
    commands: &[(Counted, Reading)],
    of: impl Fn(&Reading) -> u64,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (command, reading) in commands {
        ConstCounter::new(of(reading)).encode(family.encode_family(&labels(command))?)?;
    }
    Ok(())
}

fn labels(command: &Counted) -> [(&'static str, &'static str); 2] {
    [("protocol", command.protocol.name()), ("command", command.name)]
}

/// Every reason is there from the start, so that a rate can be had of the first failure.
fn undecodable(encoder: &mut DescriptorEncoder<'_>, failures: impl Fn(Damage) -> u64) -> fmt::Result {
    let help = "Values that could not be decoded when somebody asked for them";
    let mut family = encoder.encode_descriptor("undecodable_values", help, None, MetricType::Counter)?;
    for &damage in Damage::ALL {
        ConstCounter::new(failures(damage)).encode(family.encode_family(&[("reason", damage.name())])?)?;
    }
    Ok(())
}

fn durations(encoder: &mut DescriptorEncoder<'_>, commands: &[(Counted, Reading)]) -> fmt::Result {
    let help = "Time a command took in the server; commands answered together share theirs evenly";
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
