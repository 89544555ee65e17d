//! Where a protocol meets its driver, its sockets and the signals.

use std::{fmt, sync::Arc};

use anyhow::{Context, anyhow, bail};
use drivers::{Config, DriverKind, Listeners, Shutdown, Statistics};
use proto::Protocol;
use sys::{listen::Address, signals::StopSignals};

use crate::{
    Cli, DriverChoice, ServiceArgs, Timeouts,
    metrics::{Connections, Metrics, Registry},
    output, stopping,
};

/// A process ready to serve one protocol.
pub struct Host {
    args: ServiceArgs,
    addresses: Vec<Address>,
    driver: DriverKind,
    config: Config,
    signals: StopSignals,
    registry: Registry,
}

impl Host {
    pub(crate) fn new<C: Cli>(cli: &C) -> anyhow::Result<Self> {
        let args = cli.service().clone();
        let addresses = match &args.listen[..] {
            [] => cli.default_addresses().iter().map(|address| Ok(address.parse()?)).collect::<anyhow::Result<_>>()?,
            listen => listen.to_vec(),
        };
        // Before any thread is started: threads inherit the mask and the processors.
        let signals = StopSignals::block().context("cannot block signals")?;
        if let Some(cpus) = &args.pin {
            cpus.pin_to_all().with_context(|| format!("cannot pin to processors {cpus}"))?;
        }
        let driver = choose(args.driver)?;
        let config = Config {
            threads: args.threads(),
            workers: args.workers(driver),
            connections_max: args.connections_max(open_files(args.max_connections)),
            limits: args.limits(),
            pin: args.pin.clone(),
            statistics: Statistics::default(),
        };
        let mut registry = Registry::with_prefix(C::NAME.replace('-', "_"));
        registry.register_collector(Box::new(Connections(config.statistics.clone())));
        Ok(Self { args, addresses, driver, config, signals, registry })
    }

    pub fn timeouts(&self) -> Timeouts {
        self.args.timeouts()
    }

    /// Event loops or runtime threads.
    pub fn threads(&self) -> usize {
        self.config.threads
    }

    /// The longest request that is buffered, in bytes.
    pub fn request_bytes_max(&self) -> usize {
        self.config.limits.request_bytes_max
    }

    /// Where a server registers what it counts beside its connections.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Serves until a signal drains the server and the last connection has closed. `ready` sees the addresses just
    /// before they are announced.
    pub fn serve<P: Protocol>(self, protocol: Arc<P>, ready: impl FnOnce(&[Address])) -> anyhow::Result<()> {
        let listeners = Listeners::bind(&self.addresses, self.driver.acceptors(self.config.threads));
        let listeners =
            listeners.map_err(|(address, why)| anyhow!(why).context(format!("cannot listen on {address}")))?;
        let shutdown = Shutdown::default();
        stopping::watch(self.signals, shutdown.clone(), self.args.drain_timeout, listeners.addresses());
        ready(listeners.addresses());
        for address in listeners.addresses() {
            output::announce(format_args!("listening on {address}"));
        }
        let metrics = self.args.metrics.as_ref();
        let metrics = metrics.map(|address| Metrics::start(address, self.registry, shutdown.clone())).transpose()?;
        let served = self.driver.serve(protocol, listeners, &self.config, &shutdown);
        drop(metrics);
        served.with_context(|| format!("driver {}", self.driver))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("args", &self.args).field("driver", &self.driver).finish_non_exhaustive()
    }
}

fn choose(choice: DriverChoice) -> anyhow::Result<DriverKind> {
    match choice {
        DriverChoice::Named(driver) => {
            if let Err(why) = driver.probe() {
                bail!(
                    "driver {driver}: the kernel refuses io_uring: {why}; try --driver epoll, or Linux 6.1 with kernel.io_uring_disabled=0"
                );
            }
            Ok(driver)
        }
        DriverChoice::Auto => {
            let (driver, why) = match DriverKind::Uring.probe() {
                Ok(()) => (DriverKind::Uring, "the kernel offers io_uring".to_owned()),
                Err(why) => (DriverKind::Epoll, format!("the kernel refuses io_uring: {why}")),
            };
            output::advise(format_args!("driver {driver}: {why}"));
            Ok(driver)
        }
    }
}

/// Raises the limit of open files and says when it is too low for what was asked for.
fn open_files(connections_max: Option<usize>) -> u64 {
    let open_files = sys::limits::raise_open_files();
    if connections_max.is_some_and(|max| max as u64 >= open_files) {
        tracing::warn!("--max-connections is above the limit of open files, {open_files}");
    }
    open_files
}
