//! Libraries that lock, count, limit and cache, on top of other people's clients: each does what it is for, and fails where a
//! command is not atomic, somebody else's lock is undone, or a cache is not told of a change.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use tempfile::TempDir;
use testkit::installed_program;

use crate::common::{EXE, port, python, run, start};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/stock");
/// Modules of the packages in `requirements.txt`.
const MODULES: [&str; 9] =
    ["redis", "django", "django_redis", "dogpile.cache", "aiocache", "limits", "pottery", "celery", "flask_caching"];
/// Oldest major version of Node that all packages accept.
const NODE_MIN: u32 = 20;

fn run_to_done(command: Command) -> anyhow::Result<()> {
    let finished = run(command)?;
    assert_eq!(finished.stdout.lines().last(), Some("done"), "{}{}", finished.stdout, finished.stderr);
    Ok(())
}

#[test]
fn python_libraries_lock_count_and_cache() -> anyhow::Result<()> {
    let Some(python) = python(&MODULES)? else { return Ok(()) };
    let server = start(&["--threads", "2"])?;
    let mut command = Command::new(python);
    command.args(["-B", &format!("{DIRECTORY}/libraries.py"), &port(&server)?]);
    run_to_done(command)
}

/// Returns the directory `node_modules` with the packages of `node/package.json`: QUINTET_NODE_MODULES, or where `.ci/clients`
/// has installed them. `None` means that the test is to be skipped.
fn node_modules() -> anyhow::Result<Option<PathBuf>> {
    let named = env::var_os("QUINTET_NODE_MODULES").map(PathBuf::from);
    let target = PathBuf::from(EXE).ancestors().nth(2).map(|target| target.join("node/node_modules"));
    let directory = named.or(target).context("no directory")?;
    if directory.join("ioredis").is_dir() {
        return Ok(Some(directory));
    }
    if env::var_os("QUINTET_PEERS").is_some_and(|value| value == "required") {
        bail!("{} has no packages, and QUINTET_PEERS=required", directory.display());
    }
    eprintln!("skipped: {} has no packages; .ci/clients installs them", directory.display());
    Ok(None)
}

/// True if Node is as new as the packages need it.
fn is_recent(node: &Path) -> anyhow::Result<bool> {
    let mut command = Command::new(node);
    command.arg("--version");
    let version = run(command)?.stdout;
    let major: u32 = version.trim_start_matches('v').split('.').next().unwrap_or_default().parse()?;
    if major < NODE_MIN {
        eprintln!("skipped: Node {} is older than {NODE_MIN}, which the packages need", version.trim_end());
    }
    Ok(major >= NODE_MIN)
}

/// Returns a command that runs a program of `node/` with the packages, and the directory that it is run in. `None` means that the
/// test is to be skipped.
pub(crate) fn node_program(name: &str) -> anyhow::Result<Option<(Command, TempDir)>> {
    let Some(node) = installed_program("node")? else { return Ok(None) };
    if !is_recent(&node)? {
        return Ok(None);
    }
    let Some(modules) = node_modules()? else { return Ok(None) };
    // A module of Node finds packages in its own directory only.
    let directory = tempfile::tempdir()?;
    symlink(modules, directory.path().join("node_modules"))?;
    let program = directory.path().join(name);
    fs::copy(format!("{DIRECTORY}/node/{name}"), &program)?;
    let mut command = Command::new(node);
    command.arg(program);
    Ok(Some((command, directory)))
}

#[test]
fn node_libraries_lock_limit_and_cache() -> anyhow::Result<()> {
    let Some((mut command, _directory)) = node_program("clients.mjs")? else { return Ok(()) };
    let (server, cluster) = (start(&["--threads", "2"])?, start(&["--cluster", "yes"])?);
    command.args([port(&server)?, port(&cluster)?]);
    run_to_done(command)
}
