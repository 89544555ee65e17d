//! The place where a protocol meets its driver, its sockets and the signals.

use std::{fmt, fs::File, os::fd::OwnedFd, sync::Arc};

use ::tls::{PlainAndTls, Tls};
use anyhow::{Context, anyhow, bail, ensure};
use drivers::{
    Config, ConnectionModel, Descriptor, DriverKind, DriverSet, Listeners, ScratchPipes, Statistics, Unavailable,
};
use proto::{Limits, Protocol};
use sys::{ktls::Support, listen::Address, registered::Region, successor::Role};

use crate::{
    Cli, DriverChoice, Endpoint, LineTarget, LineWriter, OpenLinesError, ServiceArgs, Shell, Timeouts, TlsDialect,
    descriptors::{self, DescriptorShares},
    metrics::{Connections, Registry},
    output,
    stopping::Stop,
    tls::{self, TlsMetrics},
    upgrade::{HandOver, NoState},
};

/// A process ready to serve one protocol, on one of the drivers `D` that its program has.
pub struct Host<D = DriverKind> {
    args: ServiceArgs,
    shell: Shell,
    addresses: Vec<Address>,
    listen_front_ends: usize,
    tls: Option<TlsFrontEnds>,
    driver: D,
    config: Config,
    shares: DescriptorShares,
}

/// The TLS addresses, which are behind the plain ones.
struct TlsFrontEnds {
    /// Number of plain addresses.
    plain: usize,
    config: Arc<::tls::Config>,
    dialect: TlsDialect,
    kernel: Option<Support>,
}

impl<D: DriverSet> Host<D> {
    pub(crate) fn new<C: Cli>(cli: &C, mut shell: Shell) -> anyhow::Result<Self> {
        let args = cli.service().clone();
        let mut addresses = match &args.listen[..] {
            [] => cli.default_addresses().iter().map(|address| Ok(address.parse()?)).collect::<anyhow::Result<_>>()?,
            listen => listen.to_vec(),
        };
        let listen_front_ends = addresses.len();
        addresses.extend(cli.more_addresses());
        let driver: D = choose(args.driver)?;
        let tls = load_tls(cli, driver.descriptor(), &mut addresses, &mut shell)?;
        let threads = args.threads();
        let shares = divide_descriptors(cli, &args, threads, addresses.len());
        let config = Config {
            threads,
            workers: args.workers(driver.descriptor()),
            connections_max: args
                .max_connections
                .unwrap_or_else(|| usize::try_from(shares.connections).unwrap_or(usize::MAX)),
            // It lives as long as the process.
            limits: Limits {
                admission: args.admission().map(|admission| &*Box::leak(Box::new(admission))),
                ..args.limits()
            },
            pin: args.shell.pin.clone(),
            statistics: Statistics::default(),
            scratch_pipes: ScratchPipes::default(),
            registered: None,
        };
        let has_one_each = driver.descriptor().connection == ConnectionModel::Worker;
        shell.registry().register_collector(Box::new(Connections {
            statistics: config.statistics.clone(),
            admission: config.limits.admission,
            served_max: has_one_each.then_some(config.workers),
        }));
        Ok(Self { args, shell, addresses, listen_front_ends, tls, driver, config, shares })
    }

    pub fn timeouts(&self) -> Timeouts {
        self.args.timeouts()
    }

    /// Addresses that it will listen on; a port may still be 0.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// True if peers may speak for others ([`proto::Admission::proxies`]): then a peer of this machine may be anybody.
    pub fn has_proxies(&self) -> bool {
        self.config.limits.admission.is_some_and(|admission| !admission.proxies.is_empty())
    }

    /// The driver that was chosen.
    pub fn driver(&self) -> D {
        self.driver
    }

    /// Connections above this are refused.
    pub fn connections_max(&self) -> usize {
        self.config.connections_max
    }

    /// Files and pipe ends that a cache may keep open: as many as [`Cli::descriptors`] asks for, or its share of the
    /// limit of open files.
    pub fn cache_descriptors(&self) -> u64 {
        self.shares.cache
    }

    /// The same for scratch pipes.
    pub fn scratch_pipes_max(&self) -> usize {
        usize::try_from(self.shares.pipes).unwrap_or(usize::MAX)
    }

    /// Event loops or runtime threads.
    pub fn threads(&self) -> usize {
        self.config.threads
    }

    /// Limits of a connection.
    pub fn limits(&self) -> Limits {
        self.config.limits
    }

    /// The longest request that is buffered, in bytes.
    pub fn request_bytes_max(&self) -> usize {
        self.config.limits.request_bytes_max
    }

    /// Sets the pipes that cached pipes and pages of mapped files are sent through.
    pub fn set_scratch_pipes(&mut self, pipes: ScratchPipes) {
        self.config.scratch_pipes = pipes;
    }

    /// Memory that is sent without being copied, on a driver that can ([`drivers::Descriptor::registers_memory`]);
    /// any other sends it as it sends all memory.
    ///
    /// # Errors
    /// The driver could, but the kernel refuses, or a socket of an address cannot.
    pub fn set_registered(&mut self, region: Arc<Region>) -> anyhow::Result<()> {
        if self.driver.descriptor().registers_memory {
            let driver = self.driver;
            let refused = || format!("driver {driver}: the kernel refuses registered memory (is ulimit -l too low?)");
            driver.probe_registered(&region, self.config.threads).with_context(refused)?;
            if let Some(address) = self.addresses.iter().find(|address| matches!(address, Address::Unix(_))) {
                bail!("driver {driver}: registered memory is sent over TCP only, not on {address}");
            }
        }
        self.config.registered = Some(region);
        Ok(())
    }

    /// Registry of the server's metrics beside those of its connections.
    pub fn registry(&mut self) -> &mut Registry {
        self.shell.registry()
    }

    /// True if metrics are served.
    pub fn serves_metrics(&self) -> bool {
        self.shell.serves_metrics()
    }

    /// See [`Shell::open_lines`].
    ///
    /// # Errors
    /// The file cannot be opened, or no thread be started.
    pub fn open_lines(&mut self, id: &'static str, target: &LineTarget) -> Result<LineWriter, OpenLinesError> {
        self.shell.open_lines(id, target)
    }

    /// Number of addresses that are `--listen` ones, or their defaults. [`proto::Peer::front_end`] counts these from
    /// 0, and behind them those of [`Cli::more_addresses`].
    pub fn listen_front_ends(&self) -> usize {
        self.listen_front_ends
    }

    /// Counters of the driver's threads: connections and bytes.
    pub fn statistics(&self) -> Statistics {
        self.config.statistics.clone()
    }

    /// Lets the protocol stop its own server.
    pub fn stop(&self) -> Stop {
        self.shell.stop()
    }

    /// Does something once when no more requests are expected, such as saving what the server holds: after the drain,
    /// or when the drain timeout ends it. In that case connections that were too slow are still there, and the protocol
    /// may be running for them. A second signal stops the server without it: see [`Host::at_once`]. An error makes the
    /// exit status 1.
    pub fn at_end(&mut self, last: impl FnOnce() -> anyhow::Result<()> + Send + 'static) {
        self.shell.at_end(last);
    }

    /// Does something when a second signal stops the server at once, where [`Host::at_end`] is left out: for what must
    /// not stay behind whatever happens, such as a temporary directory. The protocol is still running, and the user who
    /// asked twice is waiting. It may run while what [`Host::at_end`] does has begun.
    pub fn at_once(&mut self, last: impl FnOnce() + Send + 'static) {
        self.shell.at_once(last);
    }

    /// Does something at each SIGHUP, such as reading a configuration again: on a thread of its own, one run at a time,
    /// and not during a drain. Hooks run in the order of their registration. An error is logged; the server goes on as
    /// it was.
    pub fn on_reload(&mut self, hook: impl FnMut() -> anyhow::Result<()> + Send + 'static) {
        self.shell.on_reload(hook);
    }

    /// Does something at each SIGUSR1: opening log files again that have been moved away. Otherwise like
    /// [`Host::on_reload`], but during a drain, too.
    pub fn on_reopen(&mut self, hook: impl FnMut() -> anyhow::Result<()> + Send + 'static) {
        self.shell.on_reopen(hook);
    }

    /// Lets SIGUSR2 start the program anew with the sockets of this process, which then drains: for a server whose memory holds
    /// nothing that cannot be read again.
    pub fn allow_upgrade(&mut self) {
        self.shell.hand_over(NoState);
    }

    /// Does the same for a server that holds more than its sockets, and hands it over.
    pub fn hand_over(&mut self, state: impl HandOver + 'static) {
        self.shell.hand_over(state);
    }

    /// Takes a descriptor that the process before this one has handed over ([`HandOver::begin`]); `None`: there is none.
    pub fn take_inherited(&mut self, role: Role) -> Option<OwnedFd> {
        self.shell.take_inherited(role)
    }

    /// Takes a file in memory that outlives this process, for what its next one is to find after a restart: empty at first, then with
    /// what [`Host::at_end`] has written into it. `None`: no service manager keeps one (`FileDescriptorStoreMax=` of
    /// systemd.service(5)). To be called before [`Host::serve`].
    pub fn kept_file(&mut self) -> Option<File> {
        self.shell.kept_file()
    }

    /// Does something when all addresses are bound and the process is confined, just before it says that it is ready: for what
    /// the process before this one has to wait for. An error ends the start.
    pub fn before_ready(&mut self, last: impl FnOnce() -> anyhow::Result<()> + 'static) {
        self.shell.before_ready(last);
    }

    /// Has SIGHUP read the configuration again. `apply` is given what it says now, if it is valid, and takes over what
    /// can change while the server runs. Where either fails, the old configuration stays, and the log says why.
    pub fn reload_with<C: Cli + 'static>(&mut self, apply: impl FnMut(C) -> anyhow::Result<()> + Send + 'static) {
        self.shell.reload_with(apply);
    }

    /// Serves until a signal or a [`Stop`] drains the server and the last connection has closed; then it returns. It
    /// does not where connections outlast the drain timeout: the process exits, so [`Host::at_end`] is the place for
    /// what must not be missed. `ready` sees the addresses just before they are announced.
    pub fn serve<P: Protocol>(self, protocol: Arc<P>, ready: impl FnOnce(&[Address])) -> anyhow::Result<()> {
        // They would be served in the clear.
        ensure!(self.tls.is_none(), "this server has no TLS addresses");
        self.run(protocol, |endpoints| {
            ready(&endpoints.iter().map(|endpoint| endpoint.address.clone()).collect::<Vec<_>>());
        })
    }

    /// Does the same for a server that has [`Cli::tls`]. Without a TLS address the protocol is run as it is: plain servers
    /// pay nothing.
    pub fn serve_with_tls<P: Protocol>(
        mut self,
        protocol: Arc<P>,
        ready: impl FnOnce(&[Endpoint]),
    ) -> anyhow::Result<()> {
        let Some(TlsFrontEnds { plain, config, dialect, kernel }) = &self.tls else { return self.run(protocol, ready) };
        let layer = Tls::new(protocol, Arc::clone(config), self.config.limits, self.args.timeouts().request);
        let layer = layer.with_answer_to_plain(dialect.answer_to_plain);
        let layer = layer.with_kernel(*kernel);
        let (statistics, plain) = (layer.statistics(), *plain);
        self.shell.registry().register_collector(Box::new(TlsMetrics(statistics)));
        // A session outside holds records, whatever the limits of the requests in them.
        let held = &mut self.config.limits.request_bytes_max;
        *held = (*held).max(::tls::HELD_BYTES_MIN);
        self.run(Arc::new(PlainAndTls::new(plain, layer)), ready)
    }

    fn run<P: Protocol>(mut self, protocol: Arc<P>, ready: impl FnOnce(&[Endpoint])) -> anyhow::Result<()> {
        let acceptors = self.driver.acceptors(self.config.threads);
        let (options, inherited) = (self.args.listen_options(), self.shell.inherited());
        let listeners = Listeners::take_or_bind(&self.addresses, acceptors, options, inherited);
        let listeners =
            listeners.map_err(|(address, why)| anyhow!(why).context(format!("cannot listen on {address}")))?;
        let endpoints = self.endpoints(listeners.addresses());
        let Self { mut shell, driver, config, .. } = self;
        shell.serves_with(driver.descriptor());
        let statistics = config.statistics.clone();
        shell.listens_on(listeners.handles(), move || {
            let counts = statistics.counts();
            counts.accepted + counts.refused
        });
        let shutdown = shell.stop().shutdown().clone();
        shell.run(
            &endpoints,
            || ready(&endpoints),
            || driver.serve(protocol, listeners, &config, &shutdown).with_context(|| format!("driver {driver}")),
        )
    }

    fn endpoints(&self, addresses: &[Address]) -> Vec<Endpoint> {
        let (plain, scheme) = match &self.tls {
            Some(TlsFrontEnds { plain, dialect, .. }) => (*plain, Some(dialect.scheme)),
            None => (addresses.len(), None),
        };
        let endpoint = |(at, address): (usize, &Address)| Endpoint {
            address: address.clone(),
            scheme: scheme.filter(|_| at >= plain),
        };
        addresses.iter().enumerate().map(endpoint).collect()
    }
}

impl<D: DriverSet> fmt::Debug for Host<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("args", &self.args).field("driver", &self.driver).finish_non_exhaustive()
    }
}

/// Reads the certificates and appends the addresses that they are for. SIGHUP has them read again.
fn load_tls<C: Cli>(
    cli: &C,
    driver: &Descriptor,
    addresses: &mut Vec<Address>,
    shell: &mut Shell,
) -> anyhow::Result<Option<TlsFrontEnds>> {
    let Some((args, dialect)) = cli.tls() else { return Ok(None) };
    if args.tls_listen.is_empty() {
        return Ok(None);
    }
    let kernel = tls::kernel_support(dialect.kernel, driver)?;
    let Some(config) = args.load(&dialect, kernel.is_some())? else { return Ok(None) };
    let warn = |config: &::tls::Config| config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    warn(&config);
    let plain = addresses.len();
    addresses.extend_from_slice(&args.tls_listen);
    let config = Arc::new(config);
    let reloaded = Arc::clone(&config);
    shell.on_reload(move || {
        reloaded.reload().context("the certificates in use stay")?;
        warn(&reloaded);
        tracing::info!("certificates reloaded");
        Ok(())
    });
    Ok(Some(TlsFrontEnds { plain, config, dialect, kernel }))
}

fn choose<D: DriverSet>(choice: DriverChoice) -> anyhow::Result<D> {
    match choice.named::<D>() {
        Some(driver) => {
            if let Err(Unavailable { why, remedy }) = driver.probe() {
                bail!("driver {driver}: {why}; try --driver {}, or {remedy}", D::DEFAULT);
            }
            Ok(driver)
        }
        None => {
            let mut refusals = Vec::new();
            for &driver in D::AUTO {
                match driver.probe() {
                    Ok(()) => {
                        output::advise(format_args!("driver {driver}: {}", reason(driver.descriptor(), &refusals)));
                        return Ok(driver);
                    }
                    Err(Unavailable { why, .. }) => refusals.push(why),
                }
            }
            bail!("no driver runs here: {}", refusals.join("; "))
        }
    }
}

/// Reason that `auto` has picked a driver, given those of the better ones that do not run here.
fn reason(driver: &Descriptor, refusals: &[String]) -> String {
    match (driver.needs, refusals) {
        (Some(facility), []) => format!("the kernel offers {facility}"),
        (None, []) => "it runs everywhere".to_owned(),
        (_, refusals) => refusals.join("; "),
    }
}

/// Raises the limit of open files, divides it, and says where it is too low for what was asked for.
fn divide_descriptors<C: Cli>(cli: &C, args: &ServiceArgs, threads: usize, addresses: usize) -> DescriptorShares {
    let process = descriptors::Process {
        open_files: sys::limits::raise_open_files(),
        threads: threads as u64,
        addresses: addresses as u64,
        connections_max: args.max_connections.map(|max| max as u64),
    };
    let demand = cli.descriptors();
    let shares = DescriptorShares::divide(&process, &demand);
    shares.report(&process, &demand);
    shares
}
