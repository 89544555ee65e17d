//! What fails, in whom, and what may come of it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use testkit::{DriverKind, Finished, Server, run_to_end};

use crate::program;

/// A system call, and what it says instead of doing its work.
pub(crate) struct Fault {
    pub(crate) call: &'static str,
    pub(crate) error: &'static str,
    /// Whether a ring makes this call, a loop of readiness, or both.
    by: By,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum By {
    Readiness,
    Ring,
    Any,
}

const fn fault(call: &'static str, error: &'static str, by: By) -> Fault {
    Fault { call, error, by }
}

/// Errors that the manual pages of these calls name and that a server cannot prevent.
pub(crate) const FAULTS: [Fault; 14] = [
    fault("recvfrom", "ECONNRESET", By::Readiness),
    fault("recvfrom", "ENOMEM", By::Readiness),
    fault("recvfrom", "EINTR", By::Readiness),
    fault("sendto,sendmsg,writev", "EPIPE", By::Readiness),
    fault("sendto,sendmsg,writev", "ENOBUFS", By::Readiness),
    fault("sendfile,splice,tee,vmsplice", "EIO", By::Any),
    fault("sendfile,splice,tee,vmsplice", "ENOMEM", By::Any),
    fault("accept4,accept", "ECONNABORTED", By::Readiness),
    fault("accept4,accept", "EMFILE", By::Readiness),
    fault("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR", By::Readiness),
    fault("openat2,openat,pread64", "EIO", By::Any),
    fault("openat2,openat", "EMFILE", By::Any),
    fault("mmap", "ENOMEM", By::Any),
    fault("io_uring_enter", "EINTR", By::Ring),
];

impl Fault {
    /// A ring takes most calls away; what tokio-uring does with a submission that fails is not ours.
    pub(crate) fn is_for(&self, driver: DriverKind) -> bool {
        if driver == DriverKind::Uring {
            self.by != By::Readiness
        } else if driver == DriverKind::TokioUring {
            self.by == By::Any
        } else {
            self.by != By::Ring
        }
    }
}

/// A server, and how to put it under load.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    exe: PathBuf,
    loadgen: PathBuf,
    mode: &'static str,
    arguments: Vec<OsString>,
    content: TempDir,
}

impl Subject {
    pub(crate) fn all(directory: &Path) -> anyhow::Result<Vec<Self>> {
        ["http-server", "zerocopy", "fileserver", "kvcache"]
            .map(|name| Self::new(directory, name))
            .into_iter()
            .collect()
    }

    fn new(directory: &Path, name: &'static str) -> anyhow::Result<Self> {
        let content = TempDir::with_prefix("fail-the-nth-")?;
        let (mode, arguments): (_, Vec<OsString>) = match name {
            "kvcache" => ("kv", Vec::new()),
            "fileserver" => {
                for id in 0..4 {
                    fs::write(content.path().join(format!("DOCUMEN{id}")), vec![b'a' + id; 60_000])?;
                }
                ("file", vec!["--layout".into(), "flat".into(), content.path().into()])
            }
            _ => {
                fs::write(content.path().join("page"), vec![b'p'; 26_510])?;
                fs::write(content.path().join("large"), vec![b'l'; 400_000])?;
                ("http", vec![content.path().into()])
            }
        };
        Ok(Self {
            name,
            exe: program(directory, name)?,
            loadgen: program(directory, "loadgen")?,
            mode,
            arguments,
            content,
        })
    }

    pub(crate) fn start(&self, driver: DriverKind) -> anyhow::Result<Server> {
        let mut command = Command::new(&self.exe);
        command.args(["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()]).args(&self.arguments);
        Server::start_command(command, 1)
    }

    /// A few hundred requests, verified.
    pub(crate) fn load(&self, server: &Server) -> anyhow::Result<Ended> {
        let address = server.address().to_string();
        let mut command = Command::new(&self.loadgen);
        command.args([self.mode, "-c", "4", "-t", "1", "--timeout", "10s"]);
        match self.mode {
            "kv" => command
                .args(["-n", "2000", "-P", "8", "--keys", "500", "--mix", "get=4,set=1", "--allow-misses"])
                .arg(address),
            "file" => command.args(["-n", "100", "--layout", "flat"]).arg(address).arg(self.content.path()),
            _ => {
                command.args(["-n", "200", "--verify", "sha256", "--content-dir"]).arg(self.content.path());
                command.arg(format!("http://{address}/page")).arg(format!("http://{address}/large"))
            }
        };
        run_to_end(command).map(Ended)
    }
}

/// What the load generator found.
pub(crate) struct Ended(Finished);

/// The classes of its errors that a lost connection, or a refusal with words, can be.
const LOST: [&str; 7] =
    ["reset", "eof_early", "short_body", "connect_failed", "connect_refused", "write_error", "status"];

impl Ended {
    pub(crate) fn without_errors(self) -> anyhow::Result<()> {
        ensure!(self.0.code() == Some(0), "{}", self.0.stderr);
        Ok(())
    }

    /// Every failure is a connection's end or a refusal: no wrong byte, and nobody waited in vain.
    pub(crate) fn with_lost_connections_only(self) -> anyhow::Result<()> {
        match self.0.code() {
            Some(0) => Ok(()),
            Some(3) => {
                let said = &self.0.stderr;
                let line = said.lines().find(|line| line.starts_with("error: ")).context("no error line")?;
                let classes = line.rsplit(": ").next().unwrap_or_default();
                for class in classes.split(", ") {
                    let name = class.split(' ').next().unwrap_or_default();
                    if !LOST.contains(&name) {
                        bail!("{line}");
                    }
                }
                Ok(())
            }
            code => bail!("loadgen ended with {code:?}: {}", self.0.stderr),
        }
    }
}
