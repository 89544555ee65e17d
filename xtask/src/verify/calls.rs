//! The tables of system calls: what confined servers call while every law of the drivers is checked and while their calls fail, with
//! each C library.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use matrix::workspace::{cargo, root, run_shown};

use super::{
    Outcome, are_tools_required, is_installed,
    tools::{self, Profile},
};
use crate::dist::{self, musl};

/// The table of programs that are linked with glibc, and that of those with musl.
const TABLE: &str = "crates/drivers/src/system_calls.rs";
const TABLE_OF_MUSL: &str = "crates/drivers/src/system_calls/musl.rs";
/// Laws about time, which passes otherwise in a process that is traced, and those of thousands of threads, which take more of it
/// than the laws wait.
const UNTRACED: [&str; 5] = [
    "the_backlog_is_the_configured_one",
    "a_successor_that_does_not_start_replaces_nobody",
    "frequent_pauses_postpone_no_deadline",
    "thousands_of_idle_connections_block_nobody",
    "thousands_of_silent_connections_block_nobody",
];

/// Makes the tables anew; `update` writes them, and otherwise they must be as they are.
pub(super) fn run(update: bool) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("strace is not installed".to_owned()));
    }
    make(None, TABLE, update)?;
    match musl::target(&dist::host()?)? {
        Some(target) => make(Some(&target), TABLE_OF_MUSL, update)?,
        None => ensure!(!are_tools_required(), "{TABLE_OF_MUSL}: the standard library of musl is not installed"),
    }
    Ok(Outcome::Passed)
}

/// Makes the table of programs that are built for a target; `None`: for this machine.
fn make(target: Option<&str>, table: &str, update: bool) -> Result<()> {
    let programs = tools::build_for(
        target,
        Profile::Dev,
        servers::programs().into_iter().chain(["testkit-server", "fail-the-nth", "list-system-calls"]),
    )?;
    let traces = tempfile::tempdir().context("temporary directory")?;
    trace_laws(target, &programs.join("testkit-server"), traces.path())?;
    let mut faults = Command::new(programs.join("fail-the-nth"));
    faults.arg(&programs).args(["--only", "fileserver", "--traces"]).arg(traces.path());
    run_shown(faults.current_dir(root()))?;
    let made = format(&output(Command::new(programs.join("list-system-calls")).arg(traces.path()))?)?;
    let path = root().join(table);
    if update {
        fs::write(&path, made).with_context(|| table.to_owned())?;
    } else {
        let written = fs::read_to_string(&path).with_context(|| table.to_owned())?;
        ensure!(made == written, "{table} is not what has been called (cargo xtask verify calls --update):\n{made}");
    }
    Ok(())
}

/// Checks the laws of the drivers on a server that strace(1) watches from another process.
fn trace_laws(target: Option<&str>, server: &Path, traces: &Path) -> Result<()> {
    let traced = traces.join("traced-server");
    let (traces, server) = (traces.display(), server.display());
    let script = format!("#!/bin/sh\nexec strace -DDD -I 2 -f -qq -s 32 -o '{traces}'/$$.trace '{server}' \"$@\"\n");
    fs::write(&traced, script).with_context(|| traced.display().to_string())?;
    fs::set_permissions(&traced, fs::Permissions::from_mode(0o755))?;
    let mut laws = cargo();
    laws.args(["test", "--package", "testkit", "--test", "conformance"]);
    laws.args(target.iter().flat_map(|target| ["--target", target])).arg("--");
    laws.args(UNTRACED.iter().flat_map(|law| ["--skip", law]));
    run_shown(laws.env("QUINTET_CONFORMANCE", "all").env("QUINTET_CONFORMANCE_SERVER", &traced))
}

/// Formats source text as that of the workspace.
fn format(source: &str) -> Result<String> {
    let mut file = tempfile::NamedTempFile::new().context("temporary file")?;
    std::io::Write::write_all(&mut file, source.as_bytes())?;
    let mut command = Command::new("rustfmt");
    command.args(["--emit", "stdout", "--quiet", "--config-path"]).arg(root().join("rustfmt.toml")).arg(file.path());
    output(&mut command)
}

fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
