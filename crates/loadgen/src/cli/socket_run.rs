//! Runs over sockets, and what belongs before them.

use std::{io, sync::atomic::AtomicBool};

use anyhow::{Context as _, anyhow};
use loadgen::{
    ceiling,
    engine::{self, Endpoint, Load, Measured},
    error::ErrorClass,
    null::Responder,
    protocol::ClientProtocol,
    result::RunResult,
    summary::{self, Subject},
    usage::ServerProbe,
};
use rustix::io::Errno;

use super::{
    Failure, Outcome,
    load::{DriveArgs, drive},
    series::Series,
};

/// What is known of what the generator itself can do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ceiling {
    /// Requests per second.
    Measured(f64),
    /// Nobody asked for it.
    NotWanted,
    /// It cannot be measured, for this reason.
    Unknown(&'static str),
}

impl Ceiling {
    pub(super) fn note(self, result: &mut RunResult) {
        match self {
            Self::Measured(rps) => summary::note_ceiling(result, rps),
            Self::NotWanted => {}
            Self::Unknown(why) => result.saturation.ceiling_unknown = Some(why.to_owned()),
        }
    }
}

/// What is driven, and how.
pub(super) struct Campaign<'a> {
    pub(super) args: &'a DriveArgs,
    pub(super) endpoint: &'a Endpoint,
    pub(super) load: &'a Load,
    pub(super) server: Option<ServerProbe>,
    pub(super) interrupt: &'a AtomicBool,
}

/// Whether anybody is there, and speaks TLS if that is asked for. If not, programs that read the result get one.
pub(super) fn probe(args: &DriveArgs, subject: Subject, endpoint: &Endpoint, load: &Load) -> Result<(), Failure> {
    args.sources.refuse_unusable(endpoint)?;
    let source = load.sources.first().copied();
    let Err(error) = endpoint.probe(load.timeouts.connect, load.tls.as_ref(), source) else { return Ok(()) };
    args.tell_unreachable(&summary::unreachable(subject, class(&error, load)))?;
    let advice = engine::tls_advice(&error);
    let error = anyhow::Error::from(error);
    let error = match advice {
        Some(advice) => anyhow!("{error}; {advice}"),
        None => error,
    };
    Err(Failure::Other(error.context(format!("cannot connect to {endpoint}"))))
}

/// As the engine would have counted it.
fn class(error: &io::Error, load: &Load) -> ErrorClass {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => ErrorClass::ConnectTimeout,
        Some(errno) => ErrorClass::of_connect(errno),
        None if error.kind() == io::ErrorKind::TimedOut => ErrorClass::ConnectTimeout,
        None if load.tls.is_some() => ErrorClass::Tls,
        None => ErrorClass::ConnectFailed,
    }
}

impl Campaign<'_> {
    /// What the generator itself can do against a null server, if that is to be known.
    pub(super) fn ceiling<P: ClientProtocol, D: Responder>(
        &self,
        replies: D::Replies,
        make_client: impl Fn(usize) -> P,
    ) -> Result<Ceiling, Failure>
    where
        D::Replies: Send,
    {
        if !self.args.wants_ceiling(self.load) {
            return Ok(Ceiling::NotWanted);
        }
        if self.load.tls.is_some() {
            return Ok(Ceiling::Unknown("no null server speaks TLS"));
        }
        let measured = ceiling::measure::<P, D>(self.load, replies, make_client, self.interrupt);
        Ok(Ceiling::Measured(measured.context("the self-check failed (--self-check=off does without)")?))
    }

    /// Runs, stores and prints. `inspect` sees what each run measured before it is summarized.
    pub(super) fn carry_out<P: ClientProtocol>(
        &self,
        make_client: impl Fn(usize) -> P,
        inspect: impl Fn(&mut Measured<P>),
        describe: impl Fn(&Load) -> Subject,
        ceiling: Ceiling,
    ) -> Result<Outcome, Failure> {
        let Self { args, endpoint, load, server, interrupt } = self;
        let measure = |load: &Load| {
            let mut measured = drive(endpoint, load, &make_client, server.as_ref(), interrupt, args.progress)?;
            inspect(&mut measured);
            Ok(measured)
        };
        let series = Series { args, load, server: server.as_ref(), interrupt, ceiling };
        series.carry_out(endpoint, measure, describe)
    }
}
