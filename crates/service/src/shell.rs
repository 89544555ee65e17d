//! A server process without what it serves: signals, stopping, metrics, ready lines.

use std::{fmt, fs::File, os::fd::OwnedFd, sync::mpsc, time::Duration};

use anyhow::Context;
use drivers::Descriptor;
use sys::{
    listen::{Address, Listener, ListenerHandle},
    signals::ServerSignals,
    successor::{Inherited, Role},
    user::Account,
};

use crate::{
    LineTarget, LineWriter, OpenLinesError, Program, ShellArgs,
    config::{self, CommandLine, Effective},
    hooks::SignalHooks,
    line_writer::LineMetrics,
    manager::{Manager, Subject},
    metrics::{BoundMetrics, Metrics, Registry},
    output,
    sandbox::Confined,
    stopping::{AtEnd, AtOnce, Stop, Watch},
    upgrade::{self, HandOver},
};

/// Time that lines have to be written when a second signal stops the server.
const PATIENCE_AT_ONCE: Duration = Duration::from_millis(200);

/// Last action of the start, which may fail.
type BeforeReady = Box<dyn FnOnce() -> anyhow::Result<()>>;

/// A process that is ready to serve something.
pub struct Shell {
    args: ShellArgs,
    metrics: Option<Address>,
    signals: ServerSignals,
    registry: Registry,
    stop: Stop,
    /// Hears of it when the server is to stop.
    stopped: mpsc::Receiver<()>,
    at_end: AtEnd,
    at_once: Vec<AtOnce>,
    hooks: SignalHooks,
    /// Command line and configuration, with which a reload begins.
    configuration: Option<(CommandLine, Effective)>,
    /// Sockets that the process was started with and that nobody has taken yet.
    inherited: Inherited,
    /// Sockets that it listens on.
    sockets: Vec<ListenerHandle>,
    /// Number of connections that have been accepted or refused.
    count_accepted: Option<Box<dyn Fn() -> u64 + Send>>,
    /// Hand-over to a successor; `None`: this process can have none.
    hand_over: Option<Box<dyn HandOver>>,
    /// File that the service manager keeps, if there is one.
    kept: Option<File>,
    /// Action before the process says that it is ready.
    before_ready: Option<BeforeReady>,
    /// Confinement of the process, if it has given up what it does not need ([`crate::Sandbox`]).
    confined: Option<Confined>,
    /// User that the process becomes when its addresses are bound.
    user: Option<Account>,
    /// Time between the drain timeout and the end of the process.
    margin: Duration,
}

impl Shell {
    /// To be called before any thread is started: threads inherit the mask of signals and the processors.
    pub(crate) fn new<P: Program>(program: &P) -> anyhow::Result<Self> {
        let args = program.shell().clone();
        let find = |name: &String| Account::find(name).with_context(|| format!("--user {name}"));
        let user = args.user.as_ref().map(find).transpose()?;
        // Threads inherit it.
        let confined = Confined::begin(program, user)?;
        let metrics = match &args.metrics {
            None => program.default_metrics().map(|address| address.parse()).transpose().context("metrics")?,
            said => said.clone(),
        };
        let signals = ServerSignals::block().context("cannot block signals")?;
        if let Some(cpus) = &args.pin {
            cpus.pin_to_all().with_context(|| format!("cannot pin to processors {cpus}"))?;
        }
        let (stop, stopped) = Stop::new(Manager::from_environment()?);
        Ok(Self {
            args,
            metrics,
            signals,
            registry: Registry::with_prefix(P::NAME.replace('-', "_")),
            stop,
            stopped,
            at_end: AtEnd::default(),
            at_once: Vec::new(),
            hooks: SignalHooks::default(),
            configuration: None,
            inherited: Inherited::take().context("cannot take over the sockets of LISTEN_FDS")?,
            sockets: Vec::new(),
            count_accepted: None,
            hand_over: None,
            kept: None,
            before_ready: None,
            confined,
            user,
            margin: Duration::ZERO,
        })
    }

    pub(crate) fn set_configuration(&mut self, line: CommandLine, effective: Effective) {
        self.configuration = Some((line, effective));
    }

    pub(crate) fn reload_with<P: Program + 'static>(
        &mut self,
        apply: impl FnMut(P) -> anyhow::Result<()> + Send + 'static,
    ) {
        if let Some((line, effective)) = self.configuration.take() {
            self.on_reload(config::reload(line, effective, apply));
        }
    }

    /// Registry of the server's metrics.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Lets the server stop itself, and know that it is to stop.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Time that requests in flight have to finish after a signal to stop.
    pub fn drain_timeout(&self) -> Duration {
        self.args.drain_timeout
    }

    /// For a server that ends by itself when the drain timeout is over: the process is ended only so much later.
    pub fn expect_end_within(&mut self, margin: Duration) {
        self.margin = margin;
    }

    /// See [`crate::Host::at_end`].
    pub fn at_end(&mut self, last: impl FnOnce() -> anyhow::Result<()> + Send + 'static) {
        self.at_end.push(last);
    }

    /// See [`crate::Host::at_once`].
    pub fn at_once(&mut self, last: impl FnOnce() + Send + 'static) {
        self.at_once.push(Box::new(last));
    }

    /// See [`crate::Host::on_reload`].
    pub fn on_reload(&mut self, hook: impl FnMut() -> anyhow::Result<()> + Send + 'static) {
        self.hooks.reload.push(Box::new(hook));
    }

    /// See [`crate::Host::on_reopen`].
    pub fn on_reopen(&mut self, hook: impl FnMut() -> anyhow::Result<()> + Send + 'static) {
        self.hooks.reopen.push(Box::new(hook));
    }

    /// True if metrics are served.
    pub fn serves_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Opens a file of lines, which are counted in the metrics: `id` names them there, as in `access_log`. The end of the
    /// server waits until the lines are written, for a second at most.
    ///
    /// # Errors
    /// Those of [`LineWriter::start`].
    pub fn open_lines(&mut self, id: &'static str, target: &LineTarget) -> Result<LineWriter, OpenLinesError> {
        let writer = LineWriter::start(id, target.clone())?;
        self.registry.register_collector(Box::new(LineMetrics { id, writer: writer.clone() }));
        let (at_second_signal, reopened) = (writer.clone(), writer.clone());
        self.at_end.finish_lines(writer.clone());
        self.at_once(move || at_second_signal.finish(PATIENCE_AT_ONCE));
        self.on_reopen(move || {
            reopened.reopen();
            Ok(())
        });
        Ok(writer)
    }

    pub(crate) fn inherited(&mut self) -> &mut Vec<Listener> {
        &mut self.inherited.listeners
    }

    /// Leaves a confined process the system calls of the driver that it serves with.
    pub(crate) fn serves_with(&mut self, driver: &Descriptor) {
        if let Some(confined) = &mut self.confined {
            confined.keep_calls_of(driver);
        }
    }

    /// Names the sockets of the server, and how many connections have been accepted from them or refused.
    pub(crate) fn listens_on(
        &mut self,
        sockets: Vec<ListenerHandle>,
        count_accepted: impl Fn() -> u64 + Send + 'static,
    ) {
        self.sockets = sockets;
        self.count_accepted = Some(Box::new(count_accepted));
    }

    /// See [`crate::Host::hand_over`].
    pub fn hand_over(&mut self, state: impl HandOver + 'static) {
        self.hand_over = Some(Box::new(state));
    }

    /// See [`crate::Host::take_inherited`].
    pub fn take_inherited(&mut self, role: Role) -> Option<OwnedFd> {
        self.inherited.take_state(role)
    }

    /// See [`crate::Host::kept_file`].
    pub fn kept_file(&mut self) -> Option<File> {
        let kept = self.inherited.take_state(Role::KeptFile);
        let file = self.stop.manager().keep_file(kept).and_then(|file| {
            self.kept = file.as_ref().map(File::try_clone).transpose()?;
            Ok(file)
        });
        file.unwrap_or_else(|error| {
            tracing::warn!("the service manager keeps nothing for the next process: {error}");
            None
        })
    }

    /// See [`crate::Host::before_ready`].
    pub fn before_ready(&mut self, last: impl FnOnce() -> anyhow::Result<()> + 'static) {
        self.before_ready = Some(Box::new(last));
    }

    /// Watches for signals, calls `ready`, announces the `endpoints` and serves until `serve` returns, which it has
    /// to do after the [`Stop`] has said so. It does not return where that takes longer than the drain timeout: the
    /// process exits, so [`Shell::at_end`] is the place for what must not be missed.
    ///
    /// # Errors
    /// Those of `serve` and of [`Shell::at_end`]; metrics that cannot be served.
    pub fn run<E: fmt::Display>(
        mut self,
        endpoints: &[E],
        ready: impl FnOnce(),
        serve: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (shutdown, at_end) = (self.stop.shutdown().clone(), self.at_end.clone());
        let manager = self.stop.manager().clone();
        let subject = Subject {
            shutdown: shutdown.clone(),
            sockets: self.sockets.clone(),
            count_accepted: self.count_accepted.take(),
        };
        let drain_timeout = self.args.drain_timeout.saturating_add(self.margin);
        // Before anything is announced: a port that somebody else has is an error of the start.
        let bind = |address| BoundMetrics::bind(address, &mut self.inherited.listeners);
        let metrics = self.metrics.as_ref().map(bind).transpose()?;
        self.sockets.extend(metrics.iter().flat_map(BoundMetrics::handles));
        let Inherited { listeners: unwanted, predecessor, .. } = self.inherited;
        upgrade::check_unwanted(&unwanted, predecessor.is_some())?;
        drop(unwanted);
        let launcher = self.confined.as_mut().and_then(Confined::take_launcher);
        match (launcher, self.hand_over.take()) {
            // It ends.
            (launcher, None) => drop(launcher),
            (None, Some(_)) if self.confined.is_some() => {
                self.hooks.why_no_upgrade = "--sandbox: this process may start no program";
            }
            (launcher, Some(state)) => {
                let held = upgrade::Held { sockets: self.sockets.clone(), kept: self.kept, state };
                self.hooks.upgrade.push(upgrade::hook(held, self.stop.clone(), launcher));
            }
        }
        // Not before all sockets are bound, and before anybody is served.
        change_user(self.user)?;
        if let Some(confined) = self.confined {
            confined.complete()?;
        }
        self.before_ready.map_or(Ok(()), |last| last())?;
        let watch = Watch::new(self.stop, drain_timeout, self.sockets, self.at_end, self.at_once, self.hooks);
        watch.start(self.signals, self.stopped);
        ready();
        for endpoint in endpoints {
            output::announce(format_args!("listening on {endpoint}"));
        }
        let metrics = metrics.map(|bound| Metrics::start(bound, self.registry, shutdown)).transpose()?;
        manager.watch(subject)?;
        match predecessor {
            // Which tells the service manager, whose service it still is.
            Some(predecessor) => predecessor.tell_ready(),
            None => manager.ready(""),
        }
        let served = serve();
        drop(metrics);
        let ended = at_end.run();
        served?;
        ended
    }
}

fn change_user(user: Option<Account>) -> anyhow::Result<()> {
    match user {
        Some(user) => user.assume().context("--user")?,
        None if sys::user::is_root() => {
            tracing::warn!("this server runs as root: --user NAME gives that up when its addresses are bound");
        }
        None => {}
    }
    Ok(())
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").field("args", &self.args).finish_non_exhaustive()
    }
}
