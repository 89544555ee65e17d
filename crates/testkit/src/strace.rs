//! A running server under strace(1): its system calls are recorded or counted, or made to fail.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context;

use crate::{Process, Server, conformance, eventually};

/// Returns a command that runs strace, where it is installed and may trace.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn strace() -> Option<Command> {
    if conformance::is_replaced() {
        eprintln!("skipped: the servers are traced already");
        return None;
    }
    let works = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: strace is not installed, or may not trace");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]);
    Some(command)
}

/// Runs `body` while the server's calls fail as `inject` says, in the syntax of strace's `inject=`.
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn with_faults(server: &Server, inject: &str, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let calls = inject.split(':').next().unwrap_or_default();
    let mut tracer = strace().context("strace")?;
    tracer.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={inject}")]);
    attached(tracer, server, body)
}

/// Calls that a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those that are made to fail.
    Faults,
    All,
}

/// Does the same as [`with_faults`] and returns the number of calls that failed; `log` is a file for the trace.
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn count_faults(
    server: &Server,
    log: &Path,
    extent: Extent,
    inject: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let calls = match extent {
        Extent::Faults => inject.split(':').next().unwrap_or_default(),
        Extent::All => "all",
    };
    let mut tracer = Command::new("strace");
    tracer.args(["-f", "-qq", "-e", &format!("trace={calls}"), "-e", &format!("inject={inject}"), "-o"]).arg(log);
    attached(tracer, server, body)?;
    Ok(fs::read_to_string(log).context("the trace")?.matches("(INJECTED)").count())
}

/// Counts each of these calls that the server makes during `body`; `log` is a file for the trace.
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn count_calls(
    server: &Server,
    log: &Path,
    calls: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for line in record_calls(server, log, calls, body)? {
        let call = line.split_once('(').map(|(name, _)| name);
        *counts.entry(call.with_context(|| format!("trace line {line:?}"))?.to_owned()).or_default() += 1;
    }
    Ok(counts)
}

/// Records these calls that the server makes during `body`, in their order and as strace writes them.
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn record_calls(
    server: &Server,
    log: &Path,
    calls: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    let mut tracer = Command::new("strace");
    tracer.args(["-f", "-qq", "-e", &format!("trace={calls}"), "-e", "signal=none", "-o"]).arg(log);
    attached(tracer, server, body)?;
    let trace = fs::read_to_string(log).context("the trace")?;
    // A line begins with the thread. A call that another thread interrupts has a second line, which says that it is resumed.
    let calls = trace.lines().filter_map(|line| line.split_once(' ')).map(|(_, call)| call.trim_start());
    Ok(calls.filter(|call| !call.starts_with("<... ")).map(str::to_owned).collect())
}

fn attached(mut tracer: Command, server: &Server, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let threads = procfs::process::Process::new(server.process().id())?;
    tracer.args(["-p", &server.process().id().to_string()]);
    let mut tracer = tracer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let outcome = eventually("every thread of the server is traced", || {
        // A thread that has ended meanwhile has no status, and need not be traced.
        Ok(threads.tasks()?.flatten().filter_map(|thread| thread.status().ok()).all(|status| status.tracerpid != 0))
    });
    let outcome = outcome.and_then(|()| body());
    // A tracer that ends in the middle of an injection leaves ENOSYS behind: let the server become idle first.
    thread::sleep(Duration::from_millis(200));
    Process::new(tracer.id()).terminate()?;
    tracer.wait()?;
    outcome
}
