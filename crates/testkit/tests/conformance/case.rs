//! A driver on the bench: the server of the test protocol running on it, and everything a law wants to know about it.

use std::{panic::resume_unwind, path::Path, process::Command, thread};

use anyhow::{Context, anyhow};
use sys::listen::Address;
use testkit::{Client, Content, DriverKind, Server, eventually};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_testkit-server");

/// How the server of a law is started.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) args: &'static [&'static str],
    pub(crate) threads: &'static [usize],
    pub(crate) drivers: fn(DriverKind) -> bool,
    /// Bytes of the content file; 0: none.
    pub(crate) content_bytes: usize,
    /// Drivers that are examined at the same time.
    pub(crate) at_once: usize,
    /// Started by a shell that may open so many files.
    pub(crate) open_files: Option<u32>,
    /// With `--metrics`, for [`Bench::counts`].
    pub(crate) metrics: bool,
}

pub(crate) const PLAIN: Setup = Setup {
    args: &[],
    threads: &[1, 2],
    drivers: |_| true,
    content_bytes: 0,
    at_once: 14,
    open_files: None,
    metrics: false,
};

/// One driver with one number of threads.
pub(crate) struct Bench<'a> {
    pub(crate) driver: DriverKind,
    pub(crate) threads: usize,
    pub(crate) setup: Setup,
    pub(crate) content: &'a Content,
}

/// Connections as the server counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) open: usize,
}

impl Bench<'_> {
    /// The command of the server, `--listen` excepted.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.setup.open_files {
            None => Command::new(EXE),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\""), EXE]);
                shell
            }
        };
        command.args(["--driver", self.driver.name(), "--threads", &self.threads.to_string()]);
        if self.setup.content_bytes > 0 {
            command.arg("--content").arg(self.content.path());
        }
        if self.setup.metrics {
            command.args(["--metrics", &self.metrics().to_string()]);
        }
        command.args(self.setup.args);
        command
    }

    fn metrics(&self) -> Address {
        Address::Unix(socket_path(self).with_extension("metrics"))
    }

    /// What the server counts.
    pub(crate) fn counts(&self) -> anyhow::Result<Counts> {
        let mut scraper = Client::connect(&self.metrics())?;
        scraper.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
        let text = String::from_utf8(scraper.read_to_end()?)?;
        let count = |name: &str| -> anyhow::Result<usize> {
            let name = format!("testkit_server_connections_{name} ");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            Ok(value.with_context(|| format!("no {name}in {text}"))?.parse()?)
        };
        Ok(Counts { accepted: count("accepted_total")?, refused: count("refused_total")?, open: count("open")? })
    }

    /// Waits until the server counts as many: it adds up after the fact.
    pub(crate) fn comes_to_count(&self, wanted: Counts) -> anyhow::Result<()> {
        eventually("connections are counted right", || Ok(self.counts().is_ok_and(|counts| counts == wanted)))
            .with_context(|| format!("{:?} instead of {wanted:?}", self.counts()))
    }

    pub(crate) fn start(&self) -> anyhow::Result<Server> {
        Server::start_command(self.command(), 1)
    }
}

impl Setup {
    /// Puts the law to every driver.
    pub(crate) fn examine(self, law: impl Fn(&Bench<'_>) -> anyhow::Result<()> + Sync) {
        let content = Content::new(self.content_bytes).expect("content for the law");
        let subjects: Vec<_> = DriverKind::ALL
            .iter()
            .filter(|&&driver| (self.drivers)(driver))
            .flat_map(|&driver| self.threads.iter().map(move |&threads| (driver, threads)))
            .collect();
        assert!(!subjects.is_empty(), "nothing to examine");
        let mut failures = Vec::new();
        for subjects in subjects.chunks(self.at_once) {
            thread::scope(|scope| {
                let (law, content) = (&law, &content);
                let examinations: Vec<_> = subjects
                    .iter()
                    .map(|&(driver, threads)| {
                        let bench = Bench { driver, threads, setup: self, content };
                        scope.spawn(move || law(&bench).with_context(|| format!("{driver}, threads {threads}")))
                    })
                    .collect();
                for examination in examinations {
                    let outcome = examination.join().unwrap_or_else(|panic| resume_unwind(panic));
                    failures.extend(outcome.err().map(|error| format!("{error:#}")));
                }
            });
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// Puts the law to a server on every driver, which must then still serve and drain.
    pub(crate) fn serve(self, law: impl Fn(&Server, &Bench<'_>) -> anyhow::Result<()> + Sync) {
        self.examine(|bench| {
            let mut server = bench.start()?;
            law(&server, bench).map_err(|error| anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
            probe(&server).context("the next good request")?;
            let status = server.stop()?;
            anyhow::ensure!(status.success(), "{status}: {}", server.stderr());
            Ok(())
        });
    }
}

/// A good request is answered.
pub(crate) fn probe(server: &Server) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    ask(&mut client, "probe")
}

/// A request that finds room is answered. Where the server is full, it is told so, or loses the connection: a refusal
/// does not wait for what has been sent, and may be lost to the reset that answers that.
pub(crate) fn finds_room(server: &Server) -> anyhow::Result<bool> {
    let mut client = server.connect()?;
    Ok(client.send(b"room\n").is_ok() && client.take(5).is_ok_and(|got| got == b"room\n"))
}

/// One line, echoed.
pub(crate) fn ask(client: &mut Client, id: &str) -> anyhow::Result<()> {
    client.send(format!("{id}\n").as_bytes())?;
    client.expect(format!("{id}\n").as_bytes())
}

/// A socket file's path in the directory of the content.
pub(crate) fn socket_path(bench: &Bench<'_>) -> std::path::PathBuf {
    let dir: &Path = bench.content.dir();
    dir.join(format!("{}-{}.sock", bench.driver, bench.threads))
}

/// Where the server's calls are written down.
pub(crate) fn trace_path(bench: &Bench<'_>) -> std::path::PathBuf {
    socket_path(bench).with_extension("trace")
}
