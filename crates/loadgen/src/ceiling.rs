//! Ceiling of the generator on this machine: a short run against a null server in this very process.
//!
//! The figure is computed from the CPU time that a request costs the generator's threads, so that it does not depend on
//! the null server's speed, nor on whether both share a core.

use std::{os::unix::net::UnixStream, sync::atomic::AtomicBool, time::Duration};

use sys::listen::Address;

use crate::{
    engine::{self, Endpoint, EndpointError, EngineError, Lifetime, Limit, Load, Pacing},
    null::{NullServer, Responder},
    protocol::ClientProtocol,
};

const WINDOW: Duration = Duration::from_millis(200);
const WARMUP: Duration = Duration::from_millis(50);
/// More connections than this cost cache misses that depend on the server's pace.
const CONNECTIONS_MAX: usize = 256;

/// Reasons why the ceiling is not known.
#[derive(Debug, thiserror::Error)]
pub enum CeilingError {
    #[error("cannot set up a null server")]
    NullServer(#[from] std::io::Error),
    #[error(transparent)]
    Address(#[from] EndpointError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{failed} of {requests} requests to the null server failed")]
    Failed { failed: u64, requests: u64 },
    #[error("the null server's thread panicked")]
    Panicked,
}

/// Measures the requests per second that the threads of `load` can do in a closed loop, with `replies` for all of them.
/// `interrupt` ends the measurement early.
pub fn measure<P: ClientProtocol, D: Responder>(
    load: &Load,
    replies: D::Replies,
    make_client: impl Fn(usize) -> P,
    interrupt: &AtomicBool,
) -> Result<f64, CeilingError>
where
    D::Replies: Send,
{
    let connections = load.connections.min(CONNECTIONS_MAX);
    let load = Load {
        connections,
        threads: load.threads.min(connections),
        pacing: Pacing::Closed,
        timetable: None,
        lifetime: Lifetime::default(),
        limit: Limit::Duration(WINDOW),
        requestor: None,
        ramp: Duration::ZERO,
        warmup: WARMUP,
        warmup_max: None,
        timeline: None,
        tls: None,
        sources: Vec::new(),
        is_fast_open: false,
        request_log: None,
        turns: None,
        ..load.clone()
    };
    let server = NullServer::bind(&"127.0.0.1:0".parse::<Address>().map_err(std::io::Error::other)?)?;
    let endpoint = Endpoint::parse(&server.address().to_string())?;
    let (stop, running) = UnixStream::pair()?;
    let measured = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve::<D>(replies, &stop));
        let measured = engine::run(&endpoint, &load, make_client, None, interrupt, |_| {});
        // The server sees the end of the other side.
        drop(running);
        serving.join().map_err(|_| CeilingError::Panicked)??;
        measured.map_err(CeilingError::from)
    })?;
    let tally = &measured.tally;
    if tally.failed() > 0 {
        return Err(CeilingError::Failed { failed: tally.failed(), requests: tally.ok + tally.failed() });
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of a fraction of a second")]
    let per_request = measured.client_cpu.as_secs_f64() / tally.ok.max(1) as f64;
    #[expect(clippy::cast_precision_loss, reason = "a number of threads is small")]
    let threads = measured.threads as f64;
    Ok(threads / per_request.max(1e-9))
}
