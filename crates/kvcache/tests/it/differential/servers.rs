//! The two servers that are compared.

use std::{path::Path, process::Command};

use sys::listen::Address;
use tempfile::TempDir;
use testkit::{DriverKind, Server};

use crate::common::{EXE, PeerServer};

/// A Redis on a unix socket; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Redis {
    _process: PeerServer,
    address: Address,
    _directory: TempDir,
}

impl Redis {
    pub(crate) fn start(exe: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("redis.sock");
        let mut command = Command::new(exe);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--databases", "16"]);
        // The limit that kvcache is given.
        command.args(["--proto-max-bulk-len", "1mb"]);
        command.arg("--dir").arg(directory.path()).arg("--unixsocket").arg(&socket);
        let address = Address::Unix(socket);
        Ok(Self { _process: PeerServer::start(command, &[&address])?, address, _directory: directory })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

pub(crate) fn kvcache(driver: DriverKind, args: &[&str]) -> anyhow::Result<Server> {
    let common = ["--listen", "127.0.0.1:0", "--max-request-size", "1MiB", "--driver", driver.name()];
    Server::start(Path::new(EXE), common.iter().chain(args))
}
