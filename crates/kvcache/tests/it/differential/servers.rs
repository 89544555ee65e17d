//! The two servers.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use sys::listen::Address;
use tempfile::TempDir;
use testkit::{Client, Server, eventually};

/// A Redis of the test's own, on a unix socket; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    address: Address,
    _directory: TempDir,
}

impl Redis {
    pub(crate) fn start(exe: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("redis.sock");
        let mut command = Command::new(exe);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--databases", "16"]);
        // As much as kvcache is told to take.
        command.args(["--proto-max-bulk-len", "1mb"]);
        command.arg("--dir").arg(directory.path()).arg("--unixsocket").arg(&socket);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let redis = Self { child, address: Address::Unix(socket), _directory: directory };
        eventually("Redis listens", || Ok(Client::connect(&redis.address).is_ok()))?;
        Ok(redis)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It has ended by itself, or now has to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn kvcache(args: &[&str]) -> anyhow::Result<Server> {
    let exe = Path::new(env!("CARGO_BIN_EXE_kvcache"));
    Server::start(exe, ["--listen", "127.0.0.1:0", "--max-request-size", "1MiB"].iter().chain(args))
}
