//! The servers, and how each is put under load.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use sys::mqueue::{Queue, QueueName};
use tempfile::TempDir;
use testkit::{DriverKind, Server, eventually, run_to_end};

use crate::cases::Core;

/// A server on one of its back ends.
pub(crate) struct Subject {
    pub(crate) server: &'static str,
    pub(crate) backend: String,
    pub(crate) core: Core,
    programs: PathBuf,
    arguments: Vec<OsString>,
    load: Load,
    /// What is served, FIFOs beside it, and the log of strace.
    place: TempDir,
}

/// What loadgen asks for.
#[derive(Clone, Copy)]
enum Load {
    Http,
    Keys,
    /// In this protocol.
    Documents(&'static str),
    Queue,
}

/// Each server, and the kind of its load.
const SERVERS: [(&str, Load); 6] = [
    ("http-server", Load::Http),
    ("zerocopy", Load::Http),
    ("fileserver", Load::Documents("framed")),
    ("fileserver", Load::Documents("original")),
    ("kvcache", Load::Keys),
    ("mq-server", Load::Queue),
];

/// Every dispatch, and every copy: `--list-backends` of mq-server has them all, in one dimension each.
const QUEUE_BACKENDS: [&str; 2] = ["dispatch", "copy"];

impl Subject {
    pub(crate) fn all(programs: &Path) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for (server, load) in SERVERS {
            if let Load::Queue = load {
                for (dimension, choice) in queue_backends(programs)? {
                    let makes_threads = ["thread-per-request", "elastic"].contains(&&*choice);
                    let core = Core::Queue { makes_threads, writes: choice == "read-write" };
                    let flags = vec![format!("--{dimension}").into(), choice.as_str().into()];
                    all.push(Self::new(programs, server, load, format!("{dimension}={choice}"), core, flags)?);
                }
            } else {
                for &driver in DriverKind::ALL {
                    let flags = ["--listen", "127.0.0.1:0", "--threads", "2", "--driver", driver.name()];
                    let flags = flags.map(OsString::from).to_vec();
                    let backend = match load {
                        Load::Documents(protocol) => format!("{driver} {protocol}"),
                        Load::Http | Load::Keys | Load::Queue => driver.to_string(),
                    };
                    all.push(Self::new(programs, server, load, backend, Core::Driver(driver), flags)?);
                }
            }
        }
        Ok(all)
    }

    fn new(
        programs: &Path,
        server: &'static str,
        load: Load,
        backend: String,
        core: Core,
        mut arguments: Vec<OsString>,
    ) -> anyhow::Result<Self> {
        let place = TempDir::with_prefix("fail-the-nth-")?;
        let content = place.path().join("content");
        fs::create_dir(&content)?;
        DirBuilder::new().mode(0o700).create(place.path().join("fifos"))?;
        for (id, bytes) in [26_510, 60_000, 128, 400_000].into_iter().enumerate() {
            fs::write(content.join(format!("DOCUMEN{id}")), vec![b'a' + id as u8; bytes])?;
        }
        if let Load::Http | Load::Documents(_) = load {
            // Files leave the cache as soon as they have entered it, or none would be opened after the first round.
            arguments.extend(["--cache-entries".into(), "1".into()]);
        }
        if let Load::Documents(protocol) = load {
            arguments.extend(["--protocol", protocol, "--layout", "flat"].map(OsString::from));
        }
        match server {
            "http-server" => arguments.extend(["-d".into(), content.into()]),
            "mq-server" => {
                arguments.extend(["--queue".into(), queue_name(&place).into(), "--root".into(), content.into()]);
                arguments.extend(["--fifo-dir".into(), place.path().join("fifos").into()]);
                arguments.extend(
                    ["--stall-timeout", "1s", "--worker-idle", "1s", "--message-size", "512"].map(OsString::from),
                );
            }
            "zerocopy" | "fileserver" => arguments.push(content.into()),
            _ => {}
        }
        let programs = programs.to_path_buf();
        Ok(Self { server, backend, core, programs, arguments, load, place })
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.server, self.backend)
    }

    /// Whether its protocol has but one word, that there is no such document, for everything that goes wrong.
    pub(crate) fn has_one_refusal(&self) -> bool {
        matches!(self.load, Load::Documents("original"))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.place.path().join("strace.log")
    }

    pub(crate) fn start(&self) -> anyhow::Result<Server> {
        let mut command = Command::new(program(&self.programs, self.server)?);
        command.args(&self.arguments);
        if let Load::Queue = self.load {
            let mut server = Server::start_command(command, 0)?;
            eventually("it is ready", || Ok(server.stderr().contains("try: ") || !server.is_running()?))?;
            ensure!(server.is_running()?, "{}", server.stderr());
            return Ok(server);
        }
        Server::start_command(command, 1)
    }

    /// Requests, each answer verified; `timeout` is that of one request. Returns what failed, by class.
    pub(crate) fn load(&self, server: &Server, requests: u32, timeout: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let mut command = Command::new(program(&self.programs, "loadgen")?);
        let (mode, options): (_, &[_]) = match self.load {
            Load::Http => ("http", &["-t", "1", "--verify", "sha256"]),
            Load::Keys => ("kv", &["-t", "1", "-P", "4", "--keys", "50", "--mix", "get=1,set=1", "--allow-misses"]),
            Load::Documents(protocol) => {
                ("file", &["-t", "1", "--protocol", protocol, "--layout", "flat", "--verify", "sha256"])
            }
            Load::Queue => ("mq", &["--verify", "sha256"]),
        };
        command.args([mode, "-c", "4", "--format", "json", "--progress", "none", "--timeout", timeout]).args(options);
        command.args(["-n", &requests.to_string()]);
        let content = self.place.path().join("content");
        match self.load {
            Load::Keys => command.arg(server.address().to_string()),
            Load::Documents(_) => command.arg(server.address().to_string()).arg(content),
            Load::Http => {
                let page = |id| format!("http://{}/DOCUMEN{id}", server.address());
                command.arg("--content-dir").arg(content).args((0..4).map(page))
            }
            Load::Queue => {
                command.arg("--fifo-dir").arg(self.place.path().join("fifos")).arg("--content").arg(content);
                command.arg(queue_name(&self.place)).args((0..4).map(|id| format!("DOCUMEN{id}")))
            }
        };
        let ended = run_to_end(command)?;
        if !matches!(ended.code(), Some(0 | 3)) {
            bail!("loadgen ended with {:?}: {}", ended.code(), ended.stderr);
        }
        let result: serde_json::Value = serde_json::from_str(&ended.stdout).context("loadgen's result")?;
        let failures = result["errors"].as_object().context("errors")?.iter();
        Ok(failures.map(|(class, n)| (class.clone(), n.as_u64().unwrap_or(1))).filter(|(_, n)| *n > 0).collect())
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

fn queue_backends(programs: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut command = Command::new(program(programs, "mq-server")?);
    command.args(["--list-backends", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&run_to_end(command)?.stdout).context("--list-backends")?;
    let mut backends = Vec::new();
    for dimension in listed["dimensions"].as_array().context("no dimensions")? {
        let name = dimension["name"].as_str().context("no name")?;
        if QUEUE_BACKENDS.contains(&name) {
            for choice in dimension["choices"].as_array().context("no choices")? {
                backends.push((name.to_owned(), choice["name"].as_str().context("no name")?.to_owned()));
            }
        }
    }
    ensure!(!backends.is_empty(), "mq-server has no back ends");
    Ok(backends)
}

/// No two places have the same name.
fn queue_name(place: &TempDir) -> String {
    let name = place.path().file_name().unwrap_or_default().to_string_lossy();
    format!("/{name}")
}

/// A program of the workspace.
fn program(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join(name);
    if !path.is_file() {
        bail!("{} has not been built", path.display());
    }
    Ok(path)
}
