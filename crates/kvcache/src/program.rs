//! The program: command line and start of the server.

use std::{env, fs::File, process::ExitCode, sync::Arc, time::Instant};

use anyhow::Context;
use bytesize::ByteSize;
use clap::Parser;
use service::{Cli, Dimension, DriverSet, Endpoint, Host, KernelTlsUse, LineTarget, ServiceArgs, TlsArgs, TlsDialect};
use store::Store;
use sys::{confinement::Confinement, listen::Address};
use wire::resp::RequestLimits;

use crate::{
    Events, FrontEnd, KvArgs, KvOptions, KvServer, Metrics, ScriptOptions, ServerInfo, Sharing, SlotMap, Space,
    StopServer, WithStore, YesNo, compression_dimension, eviction_dimension, exact_time,
    hand_over::{Inheritance, KeyHandOver},
    store_dimension,
};

const EXAMPLES: &str = "Examples:
  kvcache                                                RESP on 127.0.0.1:6379
  kvcache --maxmemory 1GiB --threads 4 --driver uring --listen 0.0.0.0:6379
  kvcache --listen unix:/run/cache.sock --metrics 127.0.0.1:9100
  kvcache --memcached-listen 127.0.0.1:11211 --compression lz4 --snapshot /var/lib/kvcache/keys
  kvcache --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// Host of the metrics of the original (docs/originals.md), if only METRICS_PORT is set.
const METRICS_HOST: &str = "0.0.0.0";
/// Port of its metrics, if only METRICS_HOST is set.
const METRICS_PORT: &str = "8080";

/// Clients do not negotiate a protocol by ALPN.
const TLS_DIALECT: TlsDialect = TlsDialect {
    protocols: &[],
    scheme: "rediss",
    answer_to_plain: b"-ERR this port speaks TLS\r\n",
    kernel: KernelTlsUse::Off, // There are no files.
};

/// A cache of strings and hashes for Redis and memcached clients, on twelve I/O drivers
#[derive(Parser, Debug)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Options {
    /// Reads the map of the cluster as a server with these flags would.
    fn slot_map(&self) -> anyhow::Result<Option<SlotMap>> {
        let mut addresses = self.service.listen.clone();
        if addresses.is_empty() {
            // One that is none is an error of the start.
            addresses.extend(self.default_addresses().iter().filter_map(|address| address.parse().ok()));
        }
        addresses.extend_from_slice(&self.kv.tls.tls_listen);
        read_slot_map(&self.kv, &addresses)
    }
}

/// Reads the map of the cluster, if there is one.
fn read_slot_map(kv: &KvArgs, addresses: &[Address]) -> anyhow::Result<Option<SlotMap>> {
    kv.slot_map(addresses).with_context(|| match &kv.cluster_map {
        Some(file) => format!("--cluster-map {}", file.display()),
        None => String::new(),
    })
}

impl Cli for Options {
    const NAME: &'static str = "kvcache";
    const LISTEN: &'static str = "127.0.0.1:6379";
    const CALLS_OF_FLAGS: &'static [&'static str] = &["flock", "fsync", "rename", "unlink"];
    const CALLS: &'static [&'static str] = &["getrusage", "getsockname", "sysinfo"];

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn check(&self) -> Result<(), String> {
        if self.service.listen.is_empty() {
            check_port("SERVER_PORT")?;
        }
        if self.service.shell.metrics.is_none() { check_port("METRICS_PORT") } else { Ok(()) }
    }

    fn keep(&self, kept: &mut Confinement) {
        if let Some(snapshot) = &self.kv.snapshot {
            kept.write_replaceable(snapshot);
            kept.calls.extend(Self::CALLS_OF_FLAGS);
        }
        if let Some(LineTarget::File(events)) = &self.kv.events {
            kept.write_replaceable(events);
        }
        if let Some(map) = &self.kv.cluster_map {
            kept.read_replaceable(map);
        }
    }

    fn check_start(&self) -> anyhow::Result<()> {
        let snapshot = self.kv.snapshot.as_deref().map_or(Ok(()), service::check_file_path);
        snapshot.context("--snapshot")?;
        self.slot_map()?;
        self.kv.events.as_ref().map_or(Ok(()), LineTarget::check).context("--events")
    }

    /// Values may be large, and so may be the reply to one request, and clients keep their connections.
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[
        ("max-request-size", "512MiB"),
        ("max-output-buffer", "1GiB"),
        ("idle-timeout", "1day"),
        ("request-timeout", "60s"),
    ];

    const ENVIRONMENT: &'static [(&'static str, &'static str)] =
        &[("socket-buffer", "SOCK_BUF_SIZE"), ("backlog", "CONN_QUEUE_LIMIT"), ("compression", "ENABLE_COMPRESSION")];

    fn dimensions() -> Vec<Dimension> {
        vec![store_dimension(), eviction_dimension(), compression_dimension()]
    }

    /// Returns the port of SERVER_PORT on all interfaces, as the original (docs/originals.md) has it.
    fn default_addresses(&self) -> Vec<String> {
        match env::var("SERVER_PORT") {
            Ok(port) => vec![format!("0.0.0.0:{port}")],
            Err(_) if self.kv.tls.tls_listen.is_empty() => vec![Self::LISTEN.to_owned()],
            Err(_) => Vec::new(),
        }
    }

    fn tls(&self) -> Option<(&TlsArgs, TlsDialect)> {
        Some((&self.kv.tls, TLS_DIALECT))
    }

    fn default_metrics(&self) -> Option<String> {
        let (host, port) = (env::var("METRICS_HOST").ok(), env::var("METRICS_PORT").ok());
        let defaults = (METRICS_HOST.to_owned(), METRICS_PORT.to_owned());
        (host.is_some() || port.is_some())
            .then(|| format!("{}:{}", host.unwrap_or(defaults.0), port.unwrap_or(defaults.1)))
    }

    fn more_addresses(&self) -> Vec<Address> {
        self.kv.front_ends().map(|(address, _)| address.clone()).collect()
    }
}

/// Runs the program on one of the drivers `D`, from its command line to its exit status.
pub fn main<D: DriverSet>() -> ExitCode {
    sys::memory::keep_little_free();
    service::main_on(|Options { kv, service }, host: Host<D>| kv.store.with(Serve { kv: &kv, service: &service, host }))
}

/// Action that serves with the chosen store.
struct Serve<'a, D> {
    kv: &'a KvArgs,
    service: &'a ServiceArgs,
    host: Host<D>,
}

impl<D: DriverSet> Serve<'_, D> {
    fn info(&self) -> anyhow::Result<ServerInfo> {
        let stop = self.host.stop();
        let slot_map = read_slot_map(self.kv, self.host.addresses())?;
        Ok(ServerInfo {
            driver: self.host.driver().to_string(),
            store: service::choice_name(&self.kv.store),
            threads: self.host.threads(),
            connections_max: self.host.connections_max(),
            request_bytes_max: self.host.request_bytes_max(),
            output_bytes_max: usize::try_from(self.service.max_output_buffer.as_u64()).unwrap_or(usize::MAX),
            backlog: self.service.backlog,
            is_cluster: self.kv.cluster == YesNo::Yes || slot_map.is_some(),
            slot_map,
            stop: Some(StopServer(Arc::new(move || stop.drain("SHUTDOWN")))),
            connections: self.host.statistics(),
            ..ServerInfo::default()
        })
    }
}

impl<D: DriverSet> WithStore for Serve<'_, D> {
    type Output = anyhow::Result<()>;

    fn with<S: Store + 'static>(self, sharing: Sharing) -> anyhow::Result<()> {
        let info = self.info()?;
        let Self { kv, mut host, .. } = self;
        let timeouts = host.timeouts();
        let options = KvOptions {
            request_timeout: timeouts.request,
            idle_timeout: timeouts.idle,
            limits: RequestLimits { bulk_bytes_max: host.request_bytes_max(), ..RequestLimits::default() },
            password: kv.requirepass.clone(),
            memory_max: kv.memory_max(),
            info,
            snapshot: kv.snapshot.clone(),
            clock: exact_time,
            front_ends: std::iter::repeat_n(FrontEnd::Detect, host.listen_front_ends())
                .chain(kv.front_ends().map(|(_, front_end)| front_end))
                .collect(),
            scripts: ScriptOptions {
                memory_max: usize::try_from(kv.script_memory.as_u64()).unwrap_or(usize::MAX),
                time_limit: *kv.script_time_limit,
            },
            pushed_bytes_max: usize::try_from(kv.max_pushed.as_u64()).unwrap_or(usize::MAX),
            client_memory_max: kv.client_memory_max(),
            item_bytes_max: usize::try_from(kv.max_item_size.as_u64()).unwrap_or(usize::MAX),
        };
        let space = Space::<S>::new(kv.space(host.threads(), sharing));
        warn_of_small_memory(&space, kv);
        warn_of_few_shards(&space, kv);
        let mut server = KvServer::new(space, options);
        if let Some(target) = &kv.events {
            server = server.with_events(Events::new(host.open_lines("events", target)?, kv.event_rate));
        }
        let server = Arc::new(server);
        let inheritance = Inheritance::take(|role| host.take_inherited(role));
        let mut has_keys = inheritance.is_some();
        if let Some(file) = host.kept_file() {
            has_keys = has_keys || take_left_keys(&server, &file);
            let server = Arc::clone(&server);
            host.at_end(move || leave_keys(&server, &file));
        }
        if kv.snapshot.is_some() {
            let prepared = if has_keys { server.prepare_snapshots() } else { server.load() };
            prepared.context("--snapshot")?;
            let server = Arc::clone(&server);
            host.at_end(move || {
                if server.has_handed_over() {
                    return Ok(()); // Another process has newer ones.
                }
                // A script that never ends would keep all keys.
                server.stop_scripts();
                server.save().context("the keys have not been saved")
            });
        }
        server.start(sharing).context("cannot start a thread")?;
        if let Some(inheritance) = inheritance {
            let server = Arc::clone(&server);
            host.before_ready(move || server.take_keys(inheritance).context("the keys cannot be taken over"));
        }
        host.hand_over(KeyHandOver::new(Arc::clone(&server)));
        host.registry().register_collector(Box::new(Metrics::new(Arc::clone(&server))));
        let served = host.serve_with_tls(Arc::clone(&server), |endpoints| {
            server.listens_on(endpoints.iter().map(|endpoint| endpoint.address.clone()).collect());
            if let Some(endpoint) = endpoints.first() {
                service::advise(format_args!("try: {}", redis_cli(endpoint)));
            }
        });
        server.stop();
        served
    }
}

/// Takes the keys that the service manager has kept. True if there were any.
fn take_left_keys<S: Store + 'static>(server: &KvServer<S>, file: &File) -> bool {
    let began = Instant::now();
    match server.take_left_keys(file) {
        Ok(false) => false,
        Ok(true) => {
            tracing::info!("the keys of the process before this one have been taken in {:?}", began.elapsed());
            true
        }
        Err(error) => {
            tracing::warn!("keys that the service manager has kept are lost: {error:#}");
            false
        }
    }
}

/// Leaves the keys with the service manager at the end.
fn leave_keys<S: Store + 'static>(server: &KvServer<S>, file: &File) -> anyhow::Result<()> {
    if server.has_handed_over() {
        return Ok(()); // Another process has newer ones.
    }
    server.stop_scripts();
    let began = Instant::now();
    let keys = server.leave_keys(file).context("the keys have not been left with the service manager")?;
    tracing::info!("{keys} keys left with the service manager in {:?}", began.elapsed());
    Ok(())
}

/// Warns of a memory limit that no entry fits into.
fn warn_of_small_memory<S: Store>(space: &Space<S>, kv: &KvArgs) {
    let (shards, needed) = (space.shards(), space.memory_min());
    if kv.memory_max().is_some_and(|max| max < needed) {
        tracing::warn!(
            "--maxmemory {} is too small for any entry: {shards} shards need {} bytes at least",
            kv.maxmemory,
            needed
        );
    }
}

/// Warns of a memory limit that entries cannot reach.
fn warn_of_few_shards<S: Store>(space: &Space<S>, kv: &KvArgs) {
    let shards = space.shards();
    if kv.memory_max().is_some_and(|max| max / shards > S::BYTES_MAX) {
        let each = ByteSize(S::BYTES_MAX as u64);
        tracing::warn!(
            "--maxmemory {} is out of reach: each of {shards} shards holds at most {each} of entries",
            kv.maxmemory
        );
    }
}

/// Checks that a variable of the original (docs/originals.md) is a port, if it is set.
fn check_port(variable: &str) -> Result<(), String> {
    match env::var(variable) {
        Ok(port) if port.parse::<u16>().is_err() => Err(format!("{variable}={port} is not a port, such as 6379")),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns a command that talks to the server at an address. It does not ask who vouches for a certificate.
fn redis_cli(Endpoint { address, scheme }: &Endpoint) -> String {
    let tls = if scheme.is_some() { " --tls --insecure" } else { "" };
    match address {
        Address::Tcp(address) if address.ip().is_unspecified() => format!("redis-cli{tls} -p {} ping", address.port()),
        Address::Tcp(address) => format!("redis-cli{tls} -h {} -p {} ping", address.ip(), address.port()),
        Address::Unix(path) => format!("redis-cli{tls} -s '{}' ping", path.display()),
    }
}
