//! INFO: fields that are true here; those of Redis that mean nothing here are left out, unless tools look for them.

use std::{fmt::Display, sync::atomic::Ordering::Relaxed};

use store::Store;

use super::call::Call;
use crate::{
    command_table::REDIS_VERSION,
    memory_size::format_size,
    reply::Outcome,
    state::{DATABASES, split_stored_key},
};

mod counters;

/// Sections in order; true if INFO without arguments shows the section.
const SECTIONS: [(&str, bool); 12] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
];

/// Lines of one section.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0 += &format!("{name}:{value}\r\n");
    }

    /// Adds the number of bytes, and once more in a unit for people.
    fn add_memory(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), format_size(bytes));
    }
}

pub(super) fn info<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let wanted: Vec<_> = call.args[1..].iter().map(|name| name.to_ascii_lowercase()).collect();
    let is_asked = |names: &[&str]| wanted.iter().any(|wanted| names.iter().any(|name| name.as_bytes() == &wanted[..]));
    let all = is_asked(&["all", "everything"]);
    let default = wanted.is_empty() || is_asked(&["default"]);
    let mut text = String::new();
    let sections = SECTIONS.into_iter().chain([("keyspace", true)]);
    for (name, _) in sections.filter(|(name, by_default)| all || default && *by_default || is_asked(&[name])) {
        let mut lines = Lines::default();
        call.section(name, &mut lines);
        if !text.is_empty() {
            text += "\r\n";
        }
        let (first, rest) = name.split_at(1);
        let heading = if name == "cpu" { "CPU".to_owned() } else { first.to_ascii_uppercase() + rest };
        text += &format!("# {heading}\r\n{}", lines.0);
    }
    call.reply.verbatim(&text);
    Ok(())
}

impl<S: Store> Call<'_, '_, S> {
    fn section(&mut self, name: &str, lines: &mut Lines) {
        match name {
            "server" => self.info_server(lines),
            "clients" => self.info_clients(lines),
            "memory" => self.info_memory(lines),
            "persistence" => self.info_persistence(lines),
            "stats" => self.info_stats(lines),
            "replication" => self.info_replication(lines),
            "cpu" => info_cpu(lines),
            "commandstats" => self.info_commands(lines),
            "errorstats" => self.info_errors(lines),
            "latencystats" => self.info_latencies(lines),
            "cluster" => lines.add("cluster_enabled", u8::from(self.state.info.is_cluster)),
            "keyspace" => self.info_keyspace(lines),
            _ => {} // There are no modules.
        }
    }

    fn info_server(&self, lines: &mut Lines) {
        let info = &self.state.info;
        let uptime = info.started.elapsed().as_secs();
        lines.add("redis_version", REDIS_VERSION);
        lines.add("redis_git_sha1", "00000000");
        lines.add("redis_git_dirty", 0);
        lines.add("redis_mode", if info.is_cluster { "cluster" } else { "standalone" });
        lines.add("quintet_version", env!("CARGO_PKG_VERSION"));
        lines.add("server_name", "kvcache");
        lines.add("driver", &info.driver);
        lines.add("threads", info.threads);
        lines.add("store", &info.store);
        lines.add("shards", self.state.space.shards());
        lines.add("os", format_args!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
        lines.add("arch_bits", usize::BITS);
        lines.add("multiplexing_api", &info.driver);
        lines.add("process_id", std::process::id());
        lines.add("run_id", &info.run_id);
        lines.add("tcp_port", info.port());
        lines.add("server_time_usec", self.now.unix.as_micros());
        lines.add("uptime_in_seconds", uptime);
        lines.add("uptime_in_days", uptime / 86_400);
        lines.add("hz", 10);
        lines.add("configured_hz", 10);
        lines.add("executable", std::env::current_exe().unwrap_or_default().display());
        lines.add("config_file", "");
        lines.add("io_threads_active", u8::from(info.threads > 1));
    }

    fn info_clients(&self, lines: &mut Lines) {
        let clients = &self.state.clients;
        lines.add("connected_clients", clients.len());
        lines.add("cluster_connections", 0);
        lines.add("maxclients", self.state.info.connections_max);
        lines.add("blocked_clients", clients.pause.waiting());
        lines.add("tracking_clients", self.state.tracking.figures().clients);
    }

    fn info_memory(&mut self, lines: &mut Lines) {
        let mut used = 0;
        self.keys.for_each_shard(|cache| used += cache.bytes() as u64);
        let peak = self.state.gauges.memory_peak.fetch_max(used, Relaxed).max(used);
        let resident = sys::memory::resident().unwrap_or(0);
        let limit = self.state.settings.memory_max().unwrap_or(0) as u64;
        lines.add_memory("used_memory", used);
        lines.add_memory("used_memory_rss", resident);
        lines.add_memory("used_memory_peak", peak);
        lines.add("used_memory_peak_perc", format_args!("{:.2}%", 100.0 * used as f64 / peak.max(1) as f64));
        lines.add("used_memory_dataset", used);
        let (scripts, text_bytes) = self.state.scripts.cached();
        let lua_bytes = self.state.scripts.lua_bytes() as u64;
        lines.add_memory("used_memory_lua", lua_bytes);
        lines.add("used_memory_vm_eval", lua_bytes);
        lines.add("used_memory_scripts_eval", text_bytes);
        lines.add("number_of_cached_scripts", scripts);
        lines.add_memory("total_system_memory", sys::memory::total());
        lines.add_memory("maxmemory", limit);
        lines.add("maxmemory_policy", self.state.settings.policy());
        let client_memory = &self.state.clients.memory;
        lines.add("mem_clients_normal", client_memory.bytes());
        lines.add_memory("maxmemory_clients", client_memory.max() as u64);
        let ratio = resident as f64 / used.max(1) as f64;
        lines.add("mem_fragmentation_ratio", format_args!("{ratio:.2}"));
        lines.add("mem_fragmentation_bytes", resident.saturating_sub(used));
        lines.add("mem_allocator", &self.state.info.store);
        lines.add("active_defrag_running", 0);
        lines.add("lazyfree_pending_objects", 0);
    }

    fn info_persistence(&self, lines: &mut Lines) {
        lines.add("loading", 0);
        lines.add("async_loading", 0);
        lines.add("rdb_bgsave_in_progress", u8::from(self.state.snapshots.is_saving()));
        lines.add("rdb_last_save_time", self.state.snapshots.last_saved_unix_s());
        lines.add("rdb_last_bgsave_status", if self.state.snapshots.has_last_save_failed() { "err" } else { "ok" });
        lines.add("aof_enabled", 0);
        lines.add("aof_rewrite_in_progress", 0);
    }

    fn info_replication(&self, lines: &mut Lines) {
        lines.add("role", "master");
        lines.add("connected_slaves", 0);
        lines.add("master_failover_state", "no-failover");
        lines.add("master_replid", &self.state.info.run_id);
        lines.add("master_replid2", "0".repeat(40));
        lines.add("master_repl_offset", 0);
        lines.add("second_repl_offset", -1);
        lines.add("repl_backlog_active", 0);
    }

    /// Lists the number of keys of each database. Unless all keys are of database 0, every key is visited to count them.
    fn info_keyspace(&mut self, lines: &mut Lines) {
        let (mut keys, mut expiring) = ([0_u64; DATABASES as usize], [0_u64; DATABASES as usize]);
        let has_one = self.keys.has_one_database();
        self.keys.for_each_shard(|cache| {
            if has_one {
                keys[0] += cache.len() as u64;
                expiring[0] += cache.store().expiring() as u64;
                return;
            }
            let mut cursor = 0;
            loop {
                cursor = cache.store().scan(cursor, &mut |view| {
                    let database = usize::from(split_stored_key(view.key).0) % DATABASES as usize;
                    keys[database] += 1;
                    expiring[database] += u64::from(view.attributes.expires_at != 0);
                });
                if cursor == 0 {
                    break;
                }
            }
        });
        for (database, (keys, expiring)) in
            keys.into_iter().zip(expiring).enumerate().filter(|(_, (keys, _))| *keys > 0)
        {
            lines.add(&format!("db{database}"), format_args!("keys={keys},expires={expiring},avg_ttl=0"));
        }
    }
}

fn info_cpu(lines: &mut Lines) {
    if let Ok(cpu) = sys::clock::own_cpu() {
        lines.add("used_cpu_sys", format_args!("{:.6}", cpu.system.as_secs_f64()));
        lines.add("used_cpu_user", format_args!("{:.6}", cpu.user.as_secs_f64()));
    }
    lines.add("used_cpu_sys_children", "0.000000");
    lines.add("used_cpu_user_children", "0.000000");
}
