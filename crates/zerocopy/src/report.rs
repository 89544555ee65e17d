//! Report of a cache at `/cache/stats`, as JSON. docs/zerocopy.md describes every field.

use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};

use clap::ValueEnum;
use file_cache::{PathEntry, unix_ns};
use proto::Now;
use serde::Serialize;
use service::choice_name;
use web::path;

use crate::{
    Cache,
    cached_path::CachedPath,
    fallback::Reason,
    latency::Percentiles,
    statistics::{Statistics, Totals},
    strategy::{AUTO, Strategy},
};

/// Version of the JSON format.
const SCHEMA: u32 = 1;
/// Number of files that are listed: those that were used last.
const FILES_MAX: usize = 1000;
const MIB: f64 = (1 << 20) as f64;

/// See the module's description.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: u32,
    uptime_s: f64,
    memory: Memory,
    requests: Requests,
    latency_us: Latency,
    latency_us_total: Percentiles,
    strategy: String,
    auto: Vec<Class>,
    strategies: Vec<StrategyReport>,
    fallbacks: BTreeMap<&'static str, u64>,
    evictions: u64,
    zombies: usize,
    files_total: usize,
    files: Vec<File>,
}

/// Sizes in MiB, and numbers.
#[derive(Debug, Serialize)]
struct Memory {
    /// Capacity of the largest pipe.
    pipe_size: f64,
    pipe_mem_used: f64,
    pipe_budget: f64,
    pipe_budget_left: f64,
    pipes: u64,
    mapped: f64,
    mapped_limit: f64,
    descriptors: u64,
    descriptors_limit: u64,
}

#[derive(Debug, Serialize)]
struct Requests {
    served_per_sec: f64,
    total: u64,
    hits: u64,
    misses: u64,
    revalidations: u64,
    absent: u64,
    hit_ratio: f64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    /// Length of the window in seconds.
    window_s: usize,
    #[serde(flatten)]
    percentiles: Percentiles,
}

#[derive(Debug, Serialize)]
struct Class {
    up_to: Option<u64>,
    strategy: Strategy,
}

#[derive(Debug, Serialize)]
struct StrategyReport {
    name: Strategy,
    files: usize,
    requests: u64,
    bytes: u64,
    fallbacks: u64,
}

#[derive(Debug, Serialize)]
struct File {
    /// Path for reading: bytes that are no UTF-8 are replaced.
    uri: String,
    /// Path for requests: percent-encoded.
    path: String,
    size: u64,
    strategy: Strategy,
    requests: u64,
    idle_s: f64,
    overlay: bool,
}

impl Report {
    pub(crate) fn new(cache: &Cache, now: Now, uptime: Duration) -> Self {
        let statistics = &cache.resources.statistics;
        // First, so that what they held is free in all that follows.
        let zombies = cache.resources.detached.count();
        let mut entries = cache.paths.entries();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used_ns()));
        let totals = statistics.totals();
        let (recent, window_s) = statistics.latencies.recent();
        let now_ns = unix_ns(now.unix);
        Self {
            schema: SCHEMA,
            uptime_s: uptime.as_secs_f64(),
            memory: memory(cache),
            requests: requests(statistics, &totals),
            latency_us: Latency { window_s, percentiles: recent },
            latency_us_total: statistics.latencies.all(),
            strategy: choice_name(&cache.options.strategy),
            auto: AUTO.iter().map(|class| Class { up_to: class.up_to, strategy: class.strategy }).collect(),
            strategies: Strategy::value_variants()
                .iter()
                .map(|&strategy| StrategyReport {
                    name: strategy,
                    files: entries.iter().filter(|entry| entry.body().file.strategy() == strategy).count(),
                    requests: totals.by_strategy[strategy as usize].requests,
                    bytes: totals.by_strategy[strategy as usize].bytes,
                    fallbacks: Reason::ALL.iter().map(|&reason| statistics.fallbacks(strategy, reason)).sum(),
                })
                .collect(),
            fallbacks: fallbacks(statistics),
            evictions: statistics.evictions.load(Ordering::Relaxed),
            zombies,
            files_total: entries.len(),
            files: entries.iter().take(FILES_MAX).map(|entry| file(entry, now_ns)).collect(),
        }
    }
}

fn memory(cache: &Cache) -> Memory {
    let resources = &cache.resources;
    let mib = |bytes: u64| bytes as f64 / MIB;
    let (used, budget) = (resources.pipe_bytes.used(), resources.pipe_bytes.limit());
    Memory {
        pipe_size: mib(resources.link_bytes_max),
        pipe_mem_used: mib(used),
        pipe_budget: mib(budget),
        pipe_budget_left: mib(budget.saturating_sub(used)),
        pipes: resources.pipes.used(),
        mapped: mib(resources.mapped_bytes.used()),
        mapped_limit: mib(resources.mapped_bytes.limit()),
        descriptors: resources.descriptors.used(),
        descriptors_limit: resources.descriptors.limit(),
    }
}

fn requests(statistics: &Statistics, totals: &Totals) -> Requests {
    let total = totals.requests();
    let (hits, looked) = (totals.hits + totals.revalidations, total - totals.absent);
    Requests {
        served_per_sec: statistics.per_second(),
        total,
        hits: totals.hits,
        misses: totals.misses,
        revalidations: totals.revalidations,
        absent: totals.absent,
        hit_ratio: if looked == 0 { 0.0 } else { hits as f64 / looked as f64 },
        bytes: totals.bytes(),
    }
}

fn fallbacks(statistics: &Statistics) -> BTreeMap<&'static str, u64> {
    let sum = |reason| Strategy::value_variants().iter().map(|&from| statistics.fallbacks(from, reason)).sum();
    Reason::ALL.iter().map(|&reason| (reason.name(), sum(reason))).collect()
}

fn file(entry: &PathEntry<CachedPath>, now_ns: u64) -> File {
    let CachedPath { file, .. } = entry.body();
    File {
        uri: String::from_utf8_lossy(entry.path()).into_owned(),
        path: path::encode(entry.path()),
        size: file.state.metadata.size,
        strategy: file.strategy(),
        requests: entry.body().requests(),
        idle_s: now_ns.saturating_sub(entry.used_ns()) as f64 / 1e9,
        overlay: entry.is_pinned(),
    }
}
