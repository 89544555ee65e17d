//! One server, and all faults one after the other.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use testkit::{
    DriverKind, ResourceCounts, Server,
    strace::{Extent, count_faults},
    subjects::{Core, Subject},
};

use crate::cases::{FAULTS, Fault, When};

/// Requests of a round, and of one in which none can succeed.
const REQUESTS: u32 = 80;
const REQUESTS_IN_VAIN: u32 = 12;
/// Limits for one of them: for ever, as it were, and in vain.
const PATIENCE: Duration = Duration::from_secs(30);
const IN_VAIN: Duration = Duration::from_millis(300);
/// Descriptors and threads that every server may have come to keep: caches, scratch pipes, pools.
const KEPT_MAX: ResourceCounts = ResourceCounts { descriptors: 24, threads: 24 };
/// The classes of loadgen's errors that a lost connection, or a refusal with words, can be.
const LOST: [&str; 7] =
    ["reset", "eof_early", "short_body", "connect_failed", "connect_refused", "write_error", "status"];

/// Number of injections of each fault, by its place in the table.
pub(crate) type Tally = BTreeMap<usize, usize>;

/// Runs all faults. Returns what came to pass, and what was not survived.
pub(crate) fn survive(subject: &Subject, traces: Option<&Path>) -> anyhow::Result<(Tally, Vec<anyhow::Error>)> {
    let (mut tally, mut defeats) = (Tally::new(), Vec::new());
    let (mut server, mut kept) = begin(subject)?;
    for (at, fault) in FAULTS.iter().enumerate().filter(|(_, fault)| fault.is_for(subject.core)) {
        let mut outcome = rounds(subject, traces, &mut server, fault);
        let is_in_doubt = outcome.as_ref().is_err_and(is_hang) && server.is_running()? || has_met_strace(&server);
        if outcome.is_err() && is_in_doubt {
            // A machine that stood still meanwhile looks the same, but not twice.
            drop(server);
            (server, kept) = begin(subject)?;
            outcome = rounds(subject, traces, &mut server, fault);
        }
        match outcome {
            Ok(injected) => drop(tally.insert(at, injected)),
            Err(error) => {
                defeats.push(error.context(said(&server)));
                // Two cannot have the same queue.
                drop(server);
                (server, kept) = begin(subject)?;
            }
        }
    }
    if let Err(error) = end(server, kept, spare(subject, kept)) {
        defeats.push(error);
    }
    Ok((tally, defeats))
}

fn is_hang(error: &anyhow::Error) -> bool {
    let words = format!("{error:#}");
    words.contains("timeout") || words.contains("has not ended after")
}

/// True if a call has failed as none does: strace lets go of a call that it has begun to tamper with by leaving ENOSYS behind.
fn has_met_strace(server: &Server) -> bool {
    server.stderr().contains(&format!("(os error {})", rustix::io::Errno::NOSYS.raw_os_error()))
}

/// A server that has been warmed up, and the descriptors and threads it has.
fn begin(subject: &Subject) -> anyhow::Result<(Server, ResourceCounts)> {
    let server = subject.start()?;
    serves(subject, &server).context("before any fault")?;
    let kept = server.process().resources()?;
    Ok((server, kept))
}

/// What a server may have come to keep: with TLS each thread keeps the file in memory by which it reads mapped pages.
fn spare(subject: &Subject, kept: ResourceCounts) -> ResourceCounts {
    let of_threads = if subject.is_tls() { kept.threads } else { 0 };
    ResourceCounts { descriptors: KEPT_MAX.descriptors + of_threads, ..KEPT_MAX }
}

fn end(mut server: Server, kept: ResourceCounts, spare: ResourceCounts) -> anyhow::Result<()> {
    server.process().wait_until_released(kept, spare)?;
    let status = server.stop()?;
    ensure!(status.success() && !server.stderr().contains("panicked"), "{status} in the end: {}", said(&server));
    Ok(())
}

/// All rounds of one fault. Returns how many calls failed.
fn rounds(subject: &Subject, traces: Option<&Path>, server: &mut Server, fault: &Fault) -> anyhow::Result<usize> {
    let mut count = 0;
    for when in fault.rounds() {
        let injected = round(subject, traces, server, fault, when)
            .with_context(|| format!("{} says {} (calls {})", fault.calls, fault.error, when.words()))?;
        count += injected;
        // Whoever does not make this call under this load will not make it five times.
        if injected == 0 {
            break;
        }
    }
    Ok(count)
}

fn round(
    subject: &Subject,
    traces: Option<&Path>,
    server: &mut Server,
    fault: &Fault,
    when: When,
) -> anyhow::Result<usize> {
    let inject = format!("{}:error={}:when={}", fault.calls, fault.error, when.words());
    // A client whose FIFO cannot be opened or looked at cannot be told so.
    let is_silent =
        matches!(subject.core, Core::Queue { .. }) && ["open", "stat"].iter().any(|call| fault.calls.contains(call));
    let in_vain = when == When::Every || is_silent;
    let (requests, patience) = if in_vain { (REQUESTS_IN_VAIN, IN_VAIN) } else { (REQUESTS, PATIENCE) };
    let mut failures = Vec::new();
    let (log, extent) = match (traces, subject.core) {
        (Some(directory), Core::Driver(driver)) => (trace_of(driver, directory), Extent::All),
        _ => (subject.log(), Extent::Faults),
    };
    let injected = count_faults(server, &log, extent, &inject, || {
        failures = subject.load(server, requests, patience)?;
        if when == When::Every { is_at_rest(server) } else { Ok(()) }
    });
    if !server.is_running()? {
        bail!("the server has ended: {:?}", server.wait()?);
    }
    let injected = injected?;
    let is_refused = ["accept", "clone"].iter().any(|call| fault.calls.contains(call));
    only_lost(&failures, |class| match class {
        "queue_full" | "timeout" | "timeout_first_byte" | "connect_timeout" => in_vain,
        // A client that is refused is told why before it has asked for anything.
        "protocol" => is_refused,
        "miss" => subject.has_one_refusal(),
        "tls" => subject.is_tls(),
        _ => false,
    })?;
    serves(subject, server).context("afterwards")?;
    Ok(injected)
}

/// No wrong byte, and nobody waited in vain, unless `is_allowed` says so of the class.
fn only_lost(failures: &[(String, u64)], is_allowed: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    ensure!(failures.iter().all(|(class, _)| LOST.contains(&&**class) || is_allowed(class)), "{failures:?}");
    Ok(())
}

fn serves(subject: &Subject, server: &Server) -> anyhow::Result<()> {
    let failures = subject.load(server, REQUESTS, PATIENCE)?;
    ensure!(failures.is_empty(), "{failures:?}");
    Ok(())
}

/// Without anything to do it does nothing, though its calls would still fail. A machine that is busy otherwise makes its CPU
/// time smaller, never larger.
fn is_at_rest(server: &Server) -> anyhow::Result<()> {
    thread::sleep(Duration::from_millis(100));
    let (cpu, begin) = (server.process().cpu()?, Instant::now());
    thread::sleep(Duration::from_millis(300));
    let (cpu, span) = (server.process().cpu()? - cpu, begin.elapsed());
    ensure!(cpu < span / 4, "it spins: {cpu:?} of CPU time in {span:?} without anything to do");
    Ok(())
}

/// A file for one more trace of a driver.
fn trace_of(driver: DriverKind, directory: &Path) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    directory.join(format!("{driver}.{}.nth", COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// Its last words.
fn said(server: &Server) -> String {
    let stderr = server.stderr();
    let lines: Vec<_> = stderr.lines().filter(|line| !line.starts_with("try: ")).collect();
    format!("it said {:?}", &lines[lines.len().saturating_sub(2)..])
}
