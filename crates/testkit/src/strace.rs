//! A running server under strace(1): calls of it that are counted, or that go wrong.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context;

use crate::{Process, Server, eventually};

/// strace, where it is installed and allowed to trace.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn strace() -> Option<Command> {
    let works = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: strace is not installed, or may not trace");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]);
    Some(command)
}

/// `body` while these calls of the server go wrong (`inject=`).
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn with_faults(server: &Server, inject: &str, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let calls = inject.split(':').next().unwrap_or_default();
    let mut tracer = strace().context("strace")?;
    tracer.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={inject}")]);
    attached(tracer, server, body)
}

/// The same, and how often it came to pass; `log` is a file for the trace.
///
/// # Errors
/// Those of `body`; the server cannot be traced.
pub fn count_faults(
    server: &Server,
    log: &Path,
    inject: &str,
    body: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let calls = inject.split(':').next().unwrap_or_default();
    let mut tracer = Command::new("strace");
    tracer.args(["-f", "-qq", "-e", &format!("trace={calls}"), "-e", &format!("inject={inject}"), "-o"]).arg(log);
    attached(tracer, server, body)?;
    Ok(fs::read_to_string(log).context("the trace")?.matches("(INJECTED)").count())
}

/// How often the server made each of these calls during `body`; `log` is a file for the trace.
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

/// The calls themselves, in their order, as strace writes them.
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
    // The thread comes first. A call that another thread interrupts has a second line, which says that it is resumed.
    let calls = trace.lines().filter_map(|line| line.split_once(' ')).map(|(_, call)| call.trim_start());
    Ok(calls.filter(|call| !call.starts_with("<... ")).map(str::to_owned).collect())
}

fn attached(mut tracer: Command, server: &Server, body: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let pid = server.process().id().to_string();
    tracer.args(["-p", &pid]);
    let mut tracer = tracer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let outcome = eventually("every thread of it is traced", || {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task"))?;
        // A thread that has ended meanwhile has nothing to say.
        threads.try_fold(true, |so_far, thread| {
            let status = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            Ok(so_far && !status.contains("TracerPid:\t0\n"))
        })
    });
    let outcome = outcome.and_then(|()| body());
    // A tracer that goes in the middle of an injection leaves ENOSYS behind: let the server come to rest.
    thread::sleep(Duration::from_millis(200));
    Process::new(tracer.id()).terminate()?;
    tracer.wait()?;
    outcome
}
