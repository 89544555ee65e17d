//! INFO about commands and their errors.

use std::sync::atomic::Ordering::Relaxed;

use store::{CacheCounts, Store};

use super::Lines;
use crate::{commands::call::Call, state::ChannelKind};

impl<S: Store> Call<'_, '_, S> {
    pub(super) fn info_stats(&mut self, lines: &mut Lines) {
        let mut counts = CacheCounts::default();
        self.keys.for_each_shard(|cache| {
            counts.hits += cache.counts.hits;
            counts.misses += cache.counts.misses;
            counts.evicted += cache.counts.evicted;
            counts.expired += cache.counts.expired;
        });
        let (state, connections) = (self.state, self.state.info.connections.counts());
        let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
        lines.add("total_connections_received", state.clients.total());
        lines.add("total_commands_processed", state.statistics.calls());
        lines.add("instantaneous_ops_per_sec", state.gauges.ops_per_sec.load(Relaxed));
        lines.add("total_net_input_bytes", connections.bytes_in);
        lines.add("total_net_output_bytes", connections.bytes_out);
        lines.add("instantaneous_input_kbps", kbps(state.gauges.input_bytes_per_sec.load(Relaxed)));
        lines.add("instantaneous_output_kbps", kbps(state.gauges.output_bytes_per_sec.load(Relaxed)));
        lines.add("rejected_connections", connections.refused);
        lines.add("expired_keys", counts.expired);
        lines.add("evicted_keys", counts.evicted);
        lines.add("evicted_clients", state.clients.memory.evicted());
        lines.add("keyspace_hits", counts.hits);
        lines.add("keyspace_misses", counts.misses);
        lines.add("pubsub_channels", state.channels.len(ChannelKind::Channel));
        lines.add("pubsub_patterns", state.channels.len(ChannelKind::Pattern));
        lines.add("pubsubshard_channels", state.channels.len(ChannelKind::Shard));
        let tracking = state.tracking.figures();
        lines.add("tracking_total_keys", tracking.keys);
        lines.add("tracking_total_items", tracking.items);
        lines.add("tracking_total_prefixes", tracking.prefixes);
        lines.add("latest_fork_usec", 0);
        lines.add("total_forks", 0);
        let errors: u64 = state.statistics.errors_by_class().iter().map(|(_, count)| count).sum();
        lines.add("total_error_replies", errors);
    }

    pub(super) fn info_commands(&self, lines: &mut Lines) {
        for (name, reading) in self.state.statistics.readings() {
            let (calls, us) = (reading.calls, reading.time_ns / 1000);
            let value = format!(
                "calls={calls},usec={us},usec_per_call={:.2},rejected_calls={},failed_calls={}",
                reading.mean_ns() / 1000.0,
                reading.rejected,
                reading.failed,
            );
            lines.add(&format!("cmdstat_{name}"), value);
        }
    }

    pub(super) fn info_errors(&self, lines: &mut Lines) {
        for (class, count) in self.state.statistics.errors_by_class() {
            lines.add(&format!("errorstat_{class}"), format_args!("count={count}"));
        }
    }

    /// Lists percentiles as upper edges of the histograms' buckets, which are a factor of two apart.
    pub(super) fn info_latencies(&self, lines: &mut Lines) {
        for (name, reading) in self.state.statistics.readings().filter(|(_, reading)| reading.calls > 0) {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| reading.percentile_ns(share) as f64 / 1000.0);
            let value = format!("p50={p50:.3},p99={p99:.3},p99.9={p999:.3}");
            lines.add(&format!("latency_percentiles_usec_{name}"), value);
        }
    }
}
