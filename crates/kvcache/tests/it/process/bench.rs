//! What the tests of processes share.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use sys::listen::Address;
use testkit::{Client, DriverKind, Server, eventually, examine, run_to_end};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_kvcache");

/// A server with one address of each kind.
pub(crate) struct Kv {
    pub(crate) server: Server,
}

impl Kv {
    pub(crate) fn start<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> anyhow::Result<Self> {
        let mut command = Command::new(EXE);
        for flag in ["--listen", "--memcached-listen", "--us-listen"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.args(["--threads", "2"]).args(args);
        Ok(Self { server: Server::start_command(command, 3)? })
    }

    pub(crate) fn resp(&self) -> &Address {
        &self.server.addresses()[0]
    }

    pub(crate) fn memcached(&self) -> &Address {
        &self.server.addresses()[1]
    }

    pub(crate) fn us(&self) -> &Address {
        &self.server.addresses()[2]
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let status = self.server.stop()?;
        ensure!(status.success(), "{status}: {}", self.server.stderr());
        Ok(())
    }
}

/// Sends, and reads exactly what is wanted.
pub(crate) fn exchange(client: &mut Client, request: &[u8], wanted: &[u8]) -> anyhow::Result<()> {
    client.send(request)?;
    client.expect(wanted).with_context(|| format!("asked {:?}", String::from_utf8_lossy(request)))
}

pub(crate) fn on_every_driver(test: impl Fn(DriverKind) -> anyhow::Result<()> + Sync) {
    examine(DriverKind::ALL, 2, |&driver| test(driver).with_context(|| driver.to_string()));
}

/// Somebody else's server; killed when this is dropped.
pub(crate) struct Foreign(Child);

impl Foreign {
    /// Starts it and waits until all its addresses take connections.
    pub(crate) fn start(mut command: Command, addresses: &[&Address]) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut foreign = Self(command.spawn().with_context(|| format!("cannot run {command:?}"))?);
        eventually("it takes connections", || {
            ensure!(foreign.0.try_wait()?.is_none(), "{command:?} has ended");
            Ok(addresses.iter().all(|address| Client::connect(address).is_ok()))
        })?;
        Ok(foreign)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // It has ended by itself, or now has to.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Python interpreter that can import these modules, from QUINTET_PYTHON or the PATH. `None`: skip what needs it.
pub(crate) fn python(modules: &[&str]) -> anyhow::Result<Option<PathBuf>> {
    let named = env::var_os("QUINTET_PYTHON").map(PathBuf::from);
    let Some(python) = named.map_or_else(|| testkit::peer("python3"), |path| Ok(Some(path)))? else { return Ok(None) };
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {}", modules.join(", "))]);
    let finished = run_to_end(command)?;
    match finished.code() {
        Some(0) => Ok(Some(python)),
        _ if env::var_os("QUINTET_PEERS").is_some_and(|value| value == "required") => {
            bail!("{} cannot import {modules:?}, and QUINTET_PEERS=required", python.display())
        }
        _ => {
            eprintln!("skipped: {} cannot import {modules:?}; QUINTET_PYTHON names another", python.display());
            Ok(None)
        }
    }
}

/// Runs a script to its successful end.
pub(crate) fn run_script(python: &Path, script: &str, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(args);
    let finished = run_to_end(command)?;
    ensure!(finished.code() == Some(0), "{args:?}: {finished:?}");
    Ok(())
}
