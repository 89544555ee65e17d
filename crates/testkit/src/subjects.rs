//! Every server on every back end, started and put under load as its `bench.toml` says: for `fail-the-nth` and
//! `under-valgrind`.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use servers::{FaultRun, LoadKind};
use sys::{
    listen::Address,
    mqueue::{Queue, QueueName},
};
use tempfile::TempDir;

use crate::{DriverKind, Server, binary_load, eventually, run_to_end, tls::Certificates};

/// Mechanism in which a server waits.
#[derive(Clone, Copy, Debug)]
pub enum Core {
    Driver(DriverKind),
    Queue { makes_threads: bool, writes: bool },
}

/// A server on one of its back ends.
pub struct Subject {
    server: &'static servers::Server,
    run: &'static FaultRun,
    backend: String,
    pub core: Core,
    programs: PathBuf,
    arguments: Vec<OsString>,
    /// Certificate of a server that has TLS addresses alone.
    certificates: Option<Certificates>,
    /// Holds what is served, FIFOs beside it, and the log of the tool that watches it.
    place: TempDir,
}

impl Subject {
    /// Returns all of them; `programs` is the directory that they have been built in.
    ///
    /// # Errors
    /// A program has not been built, or says nothing of its back ends.
    pub fn all(programs: &Path) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for server in servers::all() {
            for run in &server.faults {
                for (backend, core, flags) in backends(programs, server, run)? {
                    all.push(Self::new(programs, server, run, backend, core, flags)?);
                }
            }
        }
        Ok(all)
    }

    fn new(
        programs: &Path,
        server: &'static servers::Server,
        run: &'static FaultRun,
        backend: String,
        core: Core,
        flags: Vec<String>,
    ) -> anyhow::Result<Self> {
        let place = TempDir::with_prefix("subject-")?;
        let (content, fifos) = (place.path().join("content"), place.path().join("fifos"));
        fs::create_dir(&content)?;
        DirBuilder::new().mode(0o700).create(&fifos)?;
        for (id, bytes) in [26_510, 60_000, 128, 400_000].into_iter().enumerate() {
            fs::write(content.join(format!("DOCUMEN{id}")), vec![b'a' + id as u8; bytes])?;
        }
        let (content, fifos, queue) = (content.to_string_lossy(), fifos.to_string_lossy(), queue_name(&place));
        let values =
            [("site", &*content), ("documents", &content), ("memory", &content), ("fifos", &fifos), ("queue", &queue)];
        let certificates = if run.tls { Some(Certificates::new()?) } else { None };
        let flags = match &certificates {
            // The first two are those of the plain address.
            Some(certificates) => [&certificates.flags("server")[..], &flags[2..]].concat(),
            None => flags,
        };
        let words = [flags, run.server_arguments.clone(), servers::expand(&server.arguments, &values)].concat();
        let arguments = words.into_iter().map(OsString::from).collect();
        let programs = programs.to_path_buf();
        Ok(Self { server, run, backend, core, programs, arguments, certificates, place })
    }

    /// Returns its server and its back end.
    pub fn name(&self) -> String {
        format!("{} {}", self.server.name, self.backend)
    }

    /// True if its protocol has but one word, that there is no such document, for everything that goes wrong.
    pub fn has_one_refusal(&self) -> bool {
        self.run.has_one_refusal
    }

    /// True if its clients speak TLS.
    pub fn is_tls(&self) -> bool {
        self.run.tls
    }

    /// Returns a path for the log of the tool that watches it.
    pub fn log(&self) -> PathBuf {
        self.place.path().join("tool.log")
    }

    /// Starts it, alone.
    ///
    /// # Errors
    /// It has not been built, or is not ready in time.
    pub fn start(&self) -> anyhow::Result<Server> {
        self.start_under(&[])
    }

    /// Starts it as the argument of a tool, which becomes the process.
    ///
    /// # Errors
    /// It has not been built, or is not ready in time.
    pub fn start_under(&self, tool: &[String]) -> anyhow::Result<Server> {
        let program = program(&self.programs, &self.server.name)?;
        let mut words = tool.iter().map(OsString::from).chain([program.into()]);
        let mut command = Command::new(words.next().context("no program")?);
        command.args(words).args(&self.arguments);
        if !tool.is_empty() {
            // Valgrind makes calls of its own.
            command.args(["--sandbox", "off"]);
        }
        if self.server.load == LoadKind::Mq {
            let mut server = Server::start_command(command, 0)?;
            eventually("it is ready", || Ok(server.stderr().contains("try: ") || !server.is_running()?))?;
            ensure!(server.is_running()?, "{}", server.stderr());
            return Ok(server);
        }
        Server::start_command(command, self.run.address + 1)
    }

    /// Sends requests and verifies each answer; `timeout` is that of one request. Returns what failed, by class.
    ///
    /// # Errors
    /// The load generator has not been built, or cannot run.
    pub fn load(&self, server: &Server, requests: u32, timeout: Duration) -> anyhow::Result<Vec<(String, u64)>> {
        if self.run.binary {
            return self.load_binary(server, requests, timeout);
        }
        let ended = run_to_end(self.load_command(server, requests, timeout)?)?;
        // Before it begins it makes a handshake, which a fault may happen to.
        if self.run.tls && ended.code() == Some(1) && ended.stderr.contains("cannot connect") {
            return Ok(vec![("tls".to_owned(), 1)]);
        }
        if !matches!(ended.code(), Some(0 | 3)) {
            bail!("loadgen ended with {:?}: {}", ended.code(), ended.stderr);
        }
        let result: serde_json::Value = serde_json::from_str(&ended.stdout).context("loadgen's result")?;
        let failures = result["errors"].as_object().context("errors")?.iter();
        Ok(failures.map(|(class, n)| (class.clone(), n.as_u64().unwrap_or(1))).filter(|(_, n)| *n > 0).collect())
    }

    /// Returns the load generator that sends requests and verifies each answer.
    ///
    /// # Errors
    /// It has not been built.
    pub fn load_command(&self, server: &Server, requests: u32, timeout: Duration) -> anyhow::Result<Command> {
        let mut command = Command::new(program(&self.programs, "loadgen")?);
        let (mode, options): (_, &[_]) = match self.server.load {
            LoadKind::Http => ("http", &["-t", "1", "--verify", "sha256"]),
            LoadKind::Kv => ("kv", &["-t", "1", "-P", "4", "--keys", "50", "--mix", "get=1,set=1", "--allow-misses"]),
            LoadKind::File => ("file", &["-t", "1", "--verify", "sha256"]),
            LoadKind::Mq => ("mq", &["--verify", "sha256"]),
        };
        let timeout = format!("{}ms", timeout.as_millis());
        command.args([mode, "-c", "4", "--format", "json", "--progress", "none", "--timeout", &timeout]).args(options);
        command.args(&self.run.load_arguments).args(["-n", &requests.to_string()]);
        if let Some(certificates) = &self.certificates {
            command.arg("--tls-ca").arg(certificates.path("authority.pem"));
        }
        let scheme = if self.run.tls { "https" } else { "http" };
        let content = self.place.path().join("content");
        match self.server.load {
            LoadKind::Kv => command.arg(self.address(server).to_string()),
            LoadKind::File => command.arg(self.address(server).to_string()).arg(content),
            LoadKind::Http => {
                let page = |id| format!("{scheme}://{}/DOCUMEN{id}", self.address(server));
                command.arg("--content-dir").arg(content).args((0..4).map(page))
            }
            LoadKind::Mq => {
                command.arg("--fifo-dir").arg(self.place.path().join("fifos")).arg("--content").arg(content);
                command.arg(queue_name(&self.place)).args((0..4).map(|id| format!("DOCUMEN{id}")))
            }
        };
        Ok(command)
    }

    /// Returns the kind of load that the server is made for.
    pub fn load_kind(&self) -> LoadKind {
        self.server.load
    }

    /// Returns the directory that is served.
    pub fn content(&self) -> PathBuf {
        self.place.path().join("content")
    }

    /// Returns the address that clients come to.
    fn address<'a>(&self, server: &'a Server) -> &'a Address {
        &server.addresses()[self.run.address]
    }

    fn load_binary(&self, server: &Server, requests: u32, timeout: Duration) -> anyhow::Result<Vec<(String, u64)>> {
        let Address::Tcp(address) = self.address(server) else { bail!("{} has no port", self.address(server)) };
        let failures = binary_load::run(*address, requests, timeout)?;
        Ok(failures.into_iter().map(|(class, count)| (class.to_owned(), count)).collect())
    }
}

impl Drop for Subject {
    /// A queue stays when its server was killed, and counts against the user's limit.
    fn drop(&mut self) {
        if let Ok(name) = queue_name(&self.place).parse::<QueueName>() {
            // There is none where it was drained, and for servers of other kinds.
            let _ = Queue::unlink(&name);
        }
    }
}

/// Returns name, core and flags of each back end: every driver, or every choice of the dimensions that vary instead.
fn backends(
    programs: &Path,
    server: &servers::Server,
    run: &FaultRun,
) -> anyhow::Result<Vec<(String, Core, Vec<String>)>> {
    if run.dimensions.is_empty() {
        let driver = |&driver: &DriverKind| {
            let name = run.label.as_ref().map_or_else(|| driver.to_string(), |label| format!("{driver} {label}"));
            let flags = ["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()];
            (name, Core::Driver(driver), flags.map(str::to_owned).to_vec())
        };
        return Ok(DriverKind::ALL.iter().map(driver).collect());
    }
    let mut command = Command::new(program(programs, &server.name)?);
    command.args(["--list-backends", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&run_to_end(command)?.stdout).context("--list-backends")?;
    let mut backends = Vec::new();
    for dimension in listed["dimensions"].as_array().context("no dimensions")? {
        let name = dimension["name"].as_str().context("no name")?;
        if run.dimensions.iter().any(|wanted| wanted == name) {
            for choice in dimension["choices"].as_array().context("no choices")? {
                let choice = choice["name"].as_str().context("no name")?.to_owned();
                let (makes_threads, writes) = (run.makes_threads.contains(&choice), run.writes.contains(&choice));
                let flags = vec![format!("--{name}"), choice.clone()];
                backends.push((format!("{name}={choice}"), Core::Queue { makes_threads, writes }, flags));
            }
        }
    }
    ensure!(!backends.is_empty(), "{} has no back ends", server.name);
    Ok(backends)
}

/// Returns the queue's name: no two places have the same.
fn queue_name(place: &TempDir) -> String {
    let name = place.path().file_name().unwrap_or_default().to_string_lossy();
    format!("/{name}")
}

/// Returns a program of the workspace.
fn program(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    if !path.is_file() {
        bail!("{} has not been built", path.display());
    }
    Ok(path)
}
