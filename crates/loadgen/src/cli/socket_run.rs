//! Runs over sockets, with what belongs before them: the checks of options, the probe, the self-check.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context as _, anyhow};
use loadgen::{
    ceiling,
    engine::{self, Endpoint, EndpointError, EngineError, Load, Measured, Reuse},
    error::ErrorClass,
    null::Responder,
    protocol::ClientProtocol,
    summary::{self, RunDescription},
    usage::ServerProbe,
};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{
    ExitOutcome, Failure, ceiling::Ceiling, progress::Progress, series::Series, socket_load::SocketLoadArgs,
    turns::in_turns,
};

/// A run that nothing stands in the way of.
pub(super) struct SocketRun<'a> {
    args: &'a SocketLoadArgs,
    endpoint: Endpoint,
    pub(super) load: Load,
    server: Option<ServerProbe>,
}

/// Parses the address of a server.
pub(super) fn parse_endpoint(address: &str) -> Result<Endpoint, Failure> {
    Endpoint::parse(address).map_err(|error| match error {
        EndpointError::Malformed(_) => Failure::Usage(error.to_string()),
        EndpointError::Unresolved { .. } => Failure::from(error),
    })
}

/// Registers a flag that the first SIGINT or SIGTERM sets. The second one ends the program at once.
pub(super) fn interrupt_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupt))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt)))
            .context("cannot handle signals")?;
    }
    Ok(interrupt)
}

impl<'a> SocketRun<'a> {
    /// Checks the options, and that somebody listens and speaks TLS if that is asked for. If nobody does, programs get a result
    /// that says so. `describe` says what is to be run.
    pub(super) fn prepare(
        args: &'a SocketLoadArgs,
        endpoint: Endpoint,
        load: Load,
        describe: impl FnOnce(&Load) -> RunDescription,
    ) -> Result<Self, Failure> {
        args.check()?;
        if load.skew.is_some() && load.reuse == Reuse::Once {
            return Err(Failure::usage(
                "--skew is for connections that are kept: here each request has one of its own",
            ));
        }
        let load = if args.turns { in_turns(load)? } else { load };
        let server = args.common.server()?;
        args.tcp.check(&endpoint)?;
        let source = load.sources.first().copied();
        if let Err(error) = endpoint.probe(load.timeouts.connect, load.tls.as_ref(), source) {
            let result = summary::unreachable(describe(&load), error_class(&error, &load));
            args.common.output.report_unreachable(&result)?;
            let advice = engine::tls_advice(&error).or_else(|| connect_advice(&error, &load));
            let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
            let why = connect_problem(&error, &load);
            return Err(Failure::Other(anyhow!("cannot connect to {endpoint}: {why}{advice}")));
        }
        Ok(Self { args, endpoint, load, server })
    }

    /// Measures the most that the generator itself can do against a null server, if that is to be known.
    pub(super) fn ceiling<P: ClientProtocol, R: Responder>(
        &self,
        replies: R::Replies,
        make_client: impl Fn(usize) -> P,
        interrupt: &AtomicBool,
    ) -> Result<Ceiling, Failure>
    where
        R::Replies: Send,
    {
        if !self.args.self_check.is_due(&self.load) {
            return Ok(Ceiling::NotWanted);
        }
        if self.load.tls.is_some() {
            return Ok(Ceiling::Unknown("no null server speaks TLS"));
        }
        let measured = ceiling::measure::<P, R>(&self.load, replies, make_client, interrupt);
        Ok(Ceiling::Measured(measured.context("the self-check failed (--self-check=off does without)")?))
    }

    /// Returns the ceiling where there is no null server to measure it with, for this reason.
    pub(super) fn unknown_ceiling(&self, why: &'static str) -> Ceiling {
        if self.args.self_check.is_due(&self.load) { Ceiling::Unknown(why) } else { Ceiling::NotWanted }
    }

    /// Runs the engine once under `load`, which may be another than the run's own, and shows the progress.
    pub(super) fn measure<P: ClientProtocol>(
        &self,
        load: &Load,
        make_client: impl Fn(usize) -> P,
        server: Option<&ServerProbe>,
        interrupt: &AtomicBool,
    ) -> Result<Measured<P>, EngineError> {
        let mut progress = Progress::new(self.args.common.output.progress, load);
        let measured = engine::run(&self.endpoint, load, make_client, server, interrupt, |live| progress.update(live));
        progress.finish();
        measured
    }

    /// Runs, stores and prints. `inspect` sees what each run measured before it is summarised.
    pub(super) fn carry_out<P: ClientProtocol>(
        &self,
        make_client: impl Fn(usize) -> P,
        inspect: impl Fn(&mut Measured<P>),
        describe: impl Fn(&Load) -> RunDescription,
        ceiling: Ceiling,
        interrupt: &AtomicBool,
    ) -> Result<ExitOutcome, Failure> {
        let measure = |load: &Load| {
            let mut measured = self.measure(load, &make_client, self.server.as_ref(), interrupt)?;
            inspect(&mut measured);
            Ok(measured)
        };
        let Self { args, endpoint, load, server } = self;
        let series = Series { args: &args.common, load, server: server.as_ref(), interrupt, ceiling };
        series.carry_out(endpoint, measure, describe)
    }
}

/// Says why no connection could be made: an errno of a wait that was in vain says nothing.
fn connect_problem(error: &io::Error, load: &Load) -> String {
    let kind = error.kind();
    if kind == io::ErrorKind::WouldBlock && load.tls.is_some() {
        return "no TLS handshake in time".to_owned();
    }
    if kind == io::ErrorKind::TimedOut || kind == io::ErrorKind::WouldBlock {
        return "no connection in time".to_owned();
    }
    error.to_string()
}

/// Returns what to try where no connection could be made.
fn connect_advice(error: &io::Error, load: &Load) -> Option<&'static str> {
    let kind = error.kind();
    if matches!(kind, io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) {
        return Some("is a server listening there?");
    }
    if kind == io::ErrorKind::TimedOut {
        return Some("is the address right, and the server neither stopped nor behind a firewall?");
    }
    let is_silent = kind == io::ErrorKind::WouldBlock;
    let is_of_tls = load.tls.is_some() && (is_silent || Errno::from_io_error(error).is_none());
    is_of_tls.then_some("does the server speak TLS there?")
}

/// Classes a failed probe as the engine would have.
fn error_class(error: &io::Error, load: &Load) -> ErrorClass {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => ErrorClass::ConnectTimeout,
        Some(errno) => ErrorClass::from_connect_error(errno),
        None if error.kind() == io::ErrorKind::TimedOut => ErrorClass::ConnectTimeout,
        None if load.tls.is_some() => ErrorClass::Tls,
        None => ErrorClass::ConnectFailed,
    }
}
