//! `stats`: figures by memcached's names.

use std::process;

use store::{PolicyKind, Store};
use wire::memcached::{Keys, binary, reply};

use super::{Call, StatFormat, VERSION};
use crate::command_table::{CommandName, Protocol};

/// Number of the slab class that all items are said to be of.
pub(super) const ITEM_CLASS: u64 = 1;

/// End of what `stats` has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatsEnd {
    Listed,
    Reset,
}

impl<S: Store + 'static> Call<'_, '_, S> {
    pub(super) fn stats(&mut self, args: Keys<'_>) {
        let mut words = args.into_iter();
        let (first, second) = (words.next(), words.next());
        let outcome = match first {
            Some(b"cachedump") => self.cachedump(second, words.next()).map(|()| StatsEnd::Listed),
            _ => self.statistics(first, second),
        };
        match outcome {
            Ok(StatsEnd::Listed) => reply::end(self.out.inline()),
            Ok(StatsEnd::Reset) => self.write_line(false, "RESET"),
            Err(line) => self.write_line(false, line),
        }
    }

    /// Writes the statistics that these words choose, without their end. An error is a line of the text protocol.
    pub(super) fn statistics(&mut self, first: Option<&[u8]>, second: Option<&[u8]>) -> Result<StatsEnd, &'static str> {
        match (first, second) {
            (None, _) => self.general(),
            (Some(b"reset"), _) => {
                self.memcached.counters.reset();
                self.state.statistics.reset_memcached();
                self.keys.for_each_shard(|cache| cache.counts = store::CacheCounts::default());
                return Ok(StatsEnd::Reset);
            }
            (Some(b"settings"), _) => self.settings(),
            (Some(b"items"), _) => self.items(),
            (Some(b"slabs"), _) => self.slabs(),
            (Some(b"commands"), _) => self.commands(),
            (Some(b"sizes"), _) => self.stat("sizes_status", "disabled"),
            (Some(b"detail"), None) => return Err("CLIENT_ERROR usage: stats detail on|off|dump"),
            // memcached's other statistics do not exist here.
            (Some(_), _) => return Err("ERROR"),
        }
        Ok(StatsEnd::Listed)
    }

    fn stat(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string();
        match self.stat_format {
            StatFormat::Text => reply::stat(self.out.inline(), name, value),
            StatFormat::Binary(head) => {
                binary::reply::stat(self.out.inline(), head, name.as_bytes(), value.as_bytes());
            }
        }
    }

    fn general(&mut self) {
        let memcached = self.memcached;
        let (mut counts, mut items, mut bytes, mut limit) = (store::CacheCounts::default(), 0, 0, Some(0_usize));
        self.keys.for_each_shard(|cache| {
            counts.evicted += cache.counts.evicted;
            counts.expired += cache.counts.expired;
            items += cache.len();
            bytes += cache.bytes();
            limit = limit.zip(cache.limit()).map(|(sum, limit)| sum + limit);
        });
        self.stat("pid", process::id());
        self.stat("uptime", memcached.started.elapsed().as_secs());
        self.stat("time", self.keys.now.unix_ms / 1000);
        self.stat("version", VERSION);
        self.stat("pointer_size", usize::BITS);
        self.stat("curr_connections", self.state.clients.len());
        for (name, value) in memcached.counters.each() {
            self.stat(name, value);
        }
        self.stat("limit_maxbytes", limit.unwrap_or(0));
        self.stat("bytes", bytes);
        self.stat("curr_items", items);
        self.stat("evictions", counts.evicted);
        self.stat("reclaimed", counts.expired);
    }

    /// Lists the figures of each command that has been called or refused; this statistic is our own.
    fn commands(&mut self) {
        let readings: Vec<_> = self.state.statistics.readings().collect();
        for (CommandName { name, .. }, reading) in
            readings.into_iter().filter(|(command, _)| command.protocol == Protocol::Memcached)
        {
            let us = |ns: f64| format!("{:.3}", ns / 1000.0);
            for (figure, value) in [
                ("calls", reading.calls.to_string()),
                ("errors", reading.failed.to_string()),
                ("rejected", reading.rejected.to_string()),
                ("mean_us", us(reading.mean_ns())),
                ("p50_us", us(reading.percentile_ns(0.5) as f64)),
                ("p99_us", us(reading.percentile_ns(0.99) as f64)),
            ] {
                self.stat(&format!("commands:{name}:{figure}"), value);
            }
        }
    }

    fn settings(&mut self) {
        let (mut limit, mut policy) = (Some(0_usize), PolicyKind::NoEviction);
        self.keys.for_each_shard(|cache| {
            limit = limit.zip(cache.limit()).map(|(sum, limit)| sum + limit);
            policy = cache.policy();
        });
        self.stat("maxbytes", limit.unwrap_or(0));
        self.stat("evictions", if policy == PolicyKind::NoEviction { "off" } else { "on" });
        self.stat("item_size_max", self.memcached.limits.item_bytes_max);
        // `verbosity` is acknowledged, and what is logged is RUST_LOG's.
        self.stat("verbosity", 0);
        self.stat("cas_enabled", "yes");
        self.stat("flush_enabled", "yes");
        self.stat("dump_enabled", "yes");
        self.stat("shutdown_command", "no");
        self.stat("auth_enabled_ascii", if self.state.settings.password().is_some() { "yes" } else { "no" });
    }

    /// Lists the items, which are all of one class.
    fn items(&mut self) {
        let (mut items, mut evicted) = (0, 0);
        self.keys.for_each_shard(|cache| {
            items += cache.len();
            evicted += cache.counts.evicted;
        });
        if items > 0 {
            self.stat("items:1:number", items);
            self.stat("items:1:evicted", evicted);
        }
    }

    fn slabs(&mut self) {
        let (mut items, mut bytes) = (0, 0);
        self.keys.for_each_shard(|cache| {
            items += cache.len();
            bytes += cache.bytes();
        });
        self.stat("1:used_chunks", items);
        self.stat("active_slabs", 1);
        self.stat("total_malloced", bytes);
    }
}
