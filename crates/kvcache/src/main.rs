#![forbid(unsafe_code)]

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Parser;
use kvcache::{
    FrontEnd, KvArgs, KvOptions, KvServer, Sharing, Space, WithStore, compression_dimension, store_dimension,
};
use service::{Cli, Dimension, Host, ServiceArgs};
use store::Store;
use sys::listen::Address;
use wire::resp::RequestLimits;

const EXAMPLES: &str = "Examples:
  kvcache                                                RESP on 127.0.0.1:6379
  kvcache --maxmemory 1GiB --threads 4 --driver uring --listen 0.0.0.0:6379
  kvcache --listen unix:/run/cache.sock --metrics 127.0.0.1:9100
  kvcache --memcached-listen 127.0.0.1:11211 --compression lz4 --snapshot /var/lib/kvcache/keys
  kvcache --list-backends

Exit status: 0 after a drain asked for by SIGTERM or SIGINT; 2 bad usage; 1 anything else.";

/// A cache of strings for Redis and memcached clients, on seven I/O drivers
#[derive(Parser, Debug)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
struct Options {
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    service: ServiceArgs,
}

impl Cli for Options {
    const NAME: &'static str = "kvcache";
    const LISTEN: &'static str = "127.0.0.1:6379";

    const ENVIRONMENT: &'static [(&'static str, &'static str)] = &[("compression", "ENABLE_COMPRESSION")];

    fn service(&self) -> &ServiceArgs {
        &self.service
    }

    fn dimensions() -> Vec<Dimension> {
        vec![store_dimension(), compression_dimension()]
    }

    fn more_addresses(&self) -> Vec<Address> {
        self.kv.front_ends().map(|(address, _)| address.clone()).collect()
    }
}

fn main() -> ExitCode {
    service::main(|Options { kv, .. }, host| kv.store.with(Serve { kv: &kv, host }))
}

/// Serves with the store that was chosen.
struct Serve<'a> {
    kv: &'a KvArgs,
    host: Host,
}

impl WithStore for Serve<'_> {
    type Output = anyhow::Result<()>;

    fn with<S: Store + 'static>(self, sharing: Sharing) -> anyhow::Result<()> {
        let Self { kv, mut host } = self;
        let timeouts = host.timeouts();
        let options = KvOptions {
            request_timeout: timeouts.request,
            idle_timeout: timeouts.idle,
            limits: RequestLimits { bulk_bytes_max: host.request_bytes_max(), ..RequestLimits::default() },
            password: kv.requirepass.clone(),
            snapshot: kv.snapshot.clone(),
            front_ends: std::iter::repeat_n(FrontEnd::Detect, host.listen_front_ends())
                .chain(kv.front_ends().map(|(_, front_end)| front_end))
                .collect(),
        };
        let space = Space::<S>::new(kv.space(host.threads(), sharing));
        let server = Arc::new(KvServer::new(space, options));
        if kv.snapshot.is_some() {
            server.load()?;
            let server = Arc::clone(&server);
            host.at_end(move || server.save().context("what was to be kept is lost"));
        }
        server.start(sharing).context("cannot start a thread")?;
        let served = host.serve(Arc::clone(&server), |addresses| {
            if let Some(address) = addresses.first() {
                service::advise(format_args!("try: {}", redis_cli(address)));
            }
        });
        server.stop();
        served
    }
}

/// A command that talks to the server there.
fn redis_cli(address: &Address) -> String {
    match address {
        Address::Tcp(address) if address.ip().is_unspecified() => format!("redis-cli -p {} ping", address.port()),
        Address::Tcp(address) => format!("redis-cli -h {} -p {} ping", address.ip(), address.port()),
        Address::Unix(path) => format!("redis-cli -s '{}' ping", path.display()),
    }
}
