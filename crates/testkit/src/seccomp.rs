//! Servers under a filter of system calls, as in a container.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use sys::seccomp;

use crate::{Finished, Server, run_to_end};

/// Does something on a thread that has lost these calls, and that starts programs which have lost them, too.
///
/// # Errors
/// The kernel has no filters; those of `action`.
pub fn without_calls<T: Send>(calls: &[&str], action: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    on_thread(|| {
        seccomp::refuse_on_thread(calls)?;
        action()
    })
}

/// Does something on a thread that has the calls of a profile, and that starts programs which have no others.
///
/// # Errors
/// The kernel has no filters, or the profile is none; those of `action`.
pub fn under_profile<T: Send>(profile: &str, action: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    let profile: Value = serde_json::from_str(profile)?;
    ensure!(profile["defaultAction"] == "SCMP_ACT_ERRNO", "{profile}");
    let allowed = &profile["syscalls"][0];
    ensure!(allowed["action"] == "SCMP_ACT_ALLOW", "{allowed}");
    let names = allowed["names"].as_array().context("no names")?;
    let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
    on_thread(|| {
        seccomp::allow_only_on_thread(&names)?;
        action()
    })
}

fn on_thread<T: Send>(action: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    thread::scope(|scope| scope.spawn(action).join()).map_err(|_| anyhow!("the thread panicked"))?
}

/// Checks that the profile that is shipped for a program is what the program makes of its lists of calls, and returns it. Packages and
/// images have programs with glibc; what one with musl makes is shipped for none.
///
/// # Errors
/// It is not: the message says how to make it anew.
pub fn check_profile(exe: &Path, name: &str) -> anyhow::Result<String> {
    let mut command = Command::new(exe);
    command.args(["--generate", "seccomp"]);
    let Finished { stdout, .. } = run_to_end(command)?;
    let profile = profile(name);
    let shipped = fs::read_to_string(&profile).with_context(|| profile.display().to_string())?;
    let is_shipped = shipped == stdout || cfg!(target_env = "musl");
    ensure!(is_shipped, "out of date: {name} --generate seccomp > deploy/seccomp/quintet-{name}.json");
    Ok(stdout)
}

/// Checks that a server starts under its profile, confines itself, and ends, with a ring and without.
///
/// # Errors
/// It does not; the kernel has no filters.
pub fn check_server(exe: &Path, name: &str, args: &[&Path]) -> anyhow::Result<()> {
    let profile = check_profile(exe, name)?;
    for driver in ["epoll", "uring"] {
        let mut command = Command::new(exe);
        command.args(["--listen", "127.0.0.1:0", "--driver", driver, "--sandbox", "auto"]).args(args);
        let mut server = under_profile(&profile, || Server::start_command(command, 1))?;
        drop(server.connect()?);
        server.drain().with_context(|| format!("{name} on {driver}"))?;
        ensure!(!server.stderr().contains("system calls are not confined"), "{}", server.stderr());
    }
    Ok(())
}

/// Returns the path of the profile of a server.
pub fn profile(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("../../deploy/seccomp/quintet-{name}.json"))
}
