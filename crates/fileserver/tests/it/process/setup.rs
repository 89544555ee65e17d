//! Helpers that start a server as a process, and a client of both protocols.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, anyhow, bail};
use fileserver::{ProtocolKind, backend::BackendKind};
use layouts::LayoutKind;
use sys::listen::Address;
use testkit::{Client, DriverKind, Server, check_each, eventually};
use wire::file::Status;

use crate::common::{Collection, frame};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_fileserver");

/// Setup of the server that a law is tested on.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) protocol: ProtocolKind,
    pub(crate) backend: BackendKind,
    pub(crate) threads: &'static str,
    /// Arguments beside driver, address, protocol, back end and content.
    pub(crate) args: &'static [&'static str],
    /// Number of drivers that are tested at the same time.
    pub(crate) concurrency: usize,
}

pub(crate) const ORIGINAL: Setup = Setup {
    protocol: ProtocolKind::Original,
    backend: BackendKind::Filesystem,
    threads: "1",
    args: &[],
    concurrency: 7,
};
pub(crate) const FRAMED: Setup = Setup { protocol: ProtocolKind::Framed, ..ORIGINAL };
/// Both protocols in front of both back ends.
pub(crate) const ALL: [Setup; 4] = [
    ORIGINAL,
    Setup { threads: "2", ..FRAMED },
    Setup { backend: BackendKind::Sqlite, threads: "2", ..ORIGINAL },
    Setup { backend: BackendKind::Sqlite, ..FRAMED },
];

impl Setup {
    pub(crate) fn command(self, driver: DriverKind, content: &Path) -> Command {
        let mut command = Command::new(EXE);
        command.args(["--driver", driver.name(), "--listen", "127.0.0.1:0", "--threads", self.threads]);
        command.args(["--protocol", &self.protocol.to_string(), "--backend", &self.backend.to_string()]);
        if self.backend == BackendKind::Filesystem {
            command.args(["--layout", &LayoutKind::Flat.to_string()]);
        }
        command.args(self.args).arg(content);
        command
    }

    /// Returns the path to serve of a flat collection.
    pub(crate) fn content(self, collection: &Collection) -> std::path::PathBuf {
        drop(collection.open(self.backend));
        match self.backend {
            BackendKind::Filesystem => collection.root.clone(),
            BackendKind::Sqlite => collection.outside().join("documents.db"),
        }
    }

    pub(crate) fn start(self, driver: DriverKind, content: &Path) -> anyhow::Result<Server> {
        Server::start_command(self.command(driver, content), 1)
    }

    /// Tests the law on every driver; failures name them.
    pub(crate) fn for_each_driver(self, law: impl Fn(DriverKind) -> anyhow::Result<()> + Sync) {
        let named = |driver: DriverKind| format!("{driver}, {}, {}", self.protocol, self.backend);
        check_each(&testkit::sample(DriverKind::ALL), self.concurrency, |&driver| {
            law(driver).with_context(|| named(driver))
        });
    }

    /// Tests the law on a server on every driver, which must then still run and drain.
    pub(crate) fn for_each_server(self, collection: &Collection, law: impl Fn(&Server) -> anyhow::Result<()> + Sync) {
        let content = self.content(collection);
        self.for_each_driver(|driver| {
            let mut server = self.start(driver, &content)?;
            law(&server).map_err(|error| anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
            server.drain()
        });
    }

    /// Requests one id on a connection of its own. Returns the status and the document.
    pub(crate) fn get(self, address: &Address, id: &[u8]) -> anyhow::Result<(Status, Vec<u8>)> {
        let mut client = Client::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        match self.protocol {
            ProtocolKind::Original => {
                client.send(id)?;
                let bytes = client.read_to_end()?;
                Ok(if bytes == [0] { (Status::Missing, Vec::new()) } else { (Status::Found, bytes) })
            }
            ProtocolKind::Framed => {
                client.send(&frame(id))?;
                reply(&mut client)
            }
        }
    }
}

/// The next framed reply, which must be whole.
pub(crate) fn reply(client: &mut Client) -> anyhow::Result<(Status, Vec<u8>)> {
    let (status, len) = head(client)?;
    Ok((status, client.take(len)?))
}

/// The head of the next framed reply; the body is still to be read.
pub(crate) fn head(client: &mut Client) -> anyhow::Result<(Status, usize)> {
    let head = client.take(9)?;
    let Some((&status, len)) = head.split_first() else { bail!("no head") };
    let status = Status::from_byte(status).with_context(|| format!("status {status}"))?;
    Ok((status, usize::try_from(u64::from_be_bytes(len.try_into()?))?))
}

/// Returns an address for the metrics of a server that no other one uses.
pub(crate) fn metrics_address(directory: &Path) -> Address {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Address::Unix(directory.join(format!("metrics-{}", NEXT.fetch_add(1, Ordering::Relaxed))))
}

/// All metrics, as the server counts them now.
pub(crate) fn metrics_page(metrics: &Address) -> anyhow::Result<String> {
    eventually("metrics are served", || Ok(Client::connect(metrics).is_ok()))?;
    let mut scraper = Client::connect(metrics)?;
    scraper.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    Ok(String::from_utf8(scraper.read_to_end()?)?)
}

/// One metric, as the server counts it now.
pub(crate) fn metric(metrics: &Address, name: &str) -> anyhow::Result<u64> {
    let text = metrics_page(metrics)?;
    let begin = format!("fileserver_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&begin));
    Ok(value.with_context(|| format!("{name} is not in\n{text}"))?.parse()?)
}
