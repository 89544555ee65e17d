//! A server on the bench, and a client that reads one response after the other.

use std::{io, path::Path, process::Command};

use anyhow::{Context, anyhow, bail, ensure};
use sys::listen::Address;
use testkit::{Client, Content, DriverKind, Server, examine};

use crate::response::Response;

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_http-server");
/// Larger than what the sockets of one connection hold, so that a transfer can be caught in the middle.
pub(crate) const LARGE: usize = 8 << 20;
pub(crate) const EVENT_LOOPS: [DriverKind; 5] =
    [DriverKind::Epoll, DriverKind::Reactor, DriverKind::Tokio, DriverKind::TokioUring, DriverKind::Uring];

/// How the server of a law is started.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) drivers: &'static [DriverKind],
    /// Drivers that are examined at the same time.
    pub(crate) at_once: usize,
    /// Beside driver, address and directory.
    pub(crate) args: &'static [&'static str],
}

pub(crate) const PLAIN: Setup = Setup { drivers: DriverKind::ALL, at_once: 7, args: &["--threads", "1"] };
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

    /// Puts the law to every driver; its failures name them.
    pub(crate) fn examine(self, law: impl Fn(DriverKind) -> anyhow::Result<()> + Sync) {
        examine(self.drivers, self.at_once, |&driver| law(driver).with_context(|| driver.name()));
    }

    /// Puts the law to a server on every driver, which must then still run and drain.
    pub(crate) fn serve(self, root: &Path, law: impl Fn(&Server, DriverKind) -> anyhow::Result<()> + Sync) {
        self.examine(|driver| {
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

/// A connection whose responses are read one by one.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    unread: Vec<u8>,
}

impl Http {
    pub(crate) fn connect(address: &Address) -> anyhow::Result<Self> {
        Self::over(Client::connect(address).with_context(|| format!("cannot connect to {address}"))?)
    }

    pub(crate) fn over(client: Client) -> anyhow::Result<Self> {
        Ok(Self { client, unread: Vec::new() })
    }

    pub(crate) fn send(&mut self, request: &str) -> anyhow::Result<()> {
        self.client.send(request.as_bytes())
    }

    /// Half-close.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        self.client.end()
    }

    /// The next response, which must be whole.
    pub(crate) fn response(&mut self, method: &str) -> anyhow::Result<Response> {
        match self.response_or_end(method)? {
            Some(response) => Ok(response),
            None => bail!("the connection ended in a response, after {} bytes", self.unread.len()),
        }
    }

    /// The next response; `None` when the connection ends before it is whole.
    pub(crate) fn response_or_end(&mut self, method: &str) -> anyhow::Result<Option<Response>> {
        let mut chunk = vec![0; 1 << 20];
        loop {
            if let Some((response, rest)) = Response::split(&self.unread, method) {
                self.unread = rest.to_vec();
                return Ok(Some(response));
            }
            match self.client.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(n) => self.unread.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error).context("cannot read a response"),
            }
        }
    }

    pub(crate) fn ask(&mut self, request: &str) -> anyhow::Result<Response> {
        self.send(request)?;
        self.response(request.split(' ').next().unwrap_or_default())
    }

    pub(crate) fn get(&mut self, target: &str) -> anyhow::Result<Response> {
        self.ask(&get(target))
    }

    /// Nothing more comes but the end.
    pub(crate) fn expect_end(&mut self) -> anyhow::Result<()> {
        ensure!(self.unread.is_empty(), "{} bytes behind the last response", self.unread.len());
        self.client.expect_end()
    }

    /// The head of the next response is left out; what follows it is still to be read.
    pub(crate) fn skip_head(mut self) -> anyhow::Result<Client> {
        while !self.unread.ends_with(b"\r\n\r\n") {
            self.unread.extend(self.client.take(1)?);
        }
        ensure!(self.unread.starts_with(b"HTTP/1.1 200 "), "{}", self.unread.escape_ascii());
        Ok(self.client)
    }
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// The last request of a connection.
pub(crate) fn get_and_close(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}
