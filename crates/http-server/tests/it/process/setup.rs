//! Helpers that start a server as a process.

use std::{path::Path, process::Command, sync::LazyLock};

use anyhow::{Context, anyhow};
pub(crate) use testkit::http::{Http, get, get_and_close};
use testkit::{Content, DriverKind, Server, check_each, drivers_with};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_http-server");
/// Size of a file that exceeds the buffers of one connection, so that a transfer can be stopped in the middle.
pub(crate) const LARGE: usize = 8 << 20;
/// Drivers whose connections hold no thread.
pub(crate) static EVENT_LOOPS: LazyLock<Vec<DriverKind>> =
    LazyLock::new(|| drivers_with(|facts| !facts.holds_a_thread()));

/// Setup of the server that a law is tested on.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) drivers: &'static [DriverKind],
    /// Number of drivers that are tested at the same time.
    pub(crate) concurrency: usize,
    /// Arguments beside driver, address and directory.
    pub(crate) args: &'static [&'static str],
}

pub(crate) const PLAIN: Setup = Setup { drivers: DriverKind::ALL, concurrency: 7, args: &["--threads", "1"] };
pub(crate) const TWO_THREADS: Setup = Setup { args: &["--threads", "2"], ..PLAIN };

impl Setup {
    pub(crate) fn command(self, driver: DriverKind, root: &Path) -> Command {
        let mut command = Command::new(EXE);
        command.args(["--driver", driver.name(), "--listen", "127.0.0.1:0"]).args(self.args).arg("--root").arg(root);
        command
    }

    pub(crate) fn start(self, driver: DriverKind, root: &Path) -> anyhow::Result<Server> {
        Server::start_command(self.command(driver, root), 1)
    }

    /// Tests the law on every driver; failures name them.
    pub(crate) fn for_each_driver(self, law: impl Fn(DriverKind) -> anyhow::Result<()> + Sync) {
        check_each(&testkit::sample(self.drivers), self.concurrency, |&driver| {
            law(driver).with_context(|| driver.name())
        });
    }

    /// Tests the law on a server on every driver, which must then still run and drain.
    pub(crate) fn for_each_server(self, root: &Path, law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
        self.for_each_driver(|driver| {
            let mut server = self.start(driver, root)?;
            law(&server, driver).map_err(|error| anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
            server.drain()
        });
    }
}

/// `content` of so many bytes, as the only file of a directory.
pub(crate) fn content(len: usize) -> Content {
    Content::new(len).unwrap()
}
