//! A case of a law: the test server on one driver, with one number of threads.

use std::{fmt, path::PathBuf, process::Command, sync::OnceLock};

use anyhow::{Context, anyhow};
use drivers::DriverSet;
use sys::listen::Address;

use crate::{Client, Content, Descriptor, Server, check_each, eventually, sample_for_contract, sample_of};

/// Capacity of a new pipe (pipe(7)).
pub(crate) const PIPE_BYTES: usize = 64 << 10;
/// Part of a pipe that the head of a cached response takes.
pub(crate) const PAGE_BYTES: usize = 4 << 10;

/// Environment variable of a program that is started in place of the server, and becomes it under strace(1).
const IN_PLACE: &str = "QUINTET_CONFORMANCE_SERVER";

/// The program whose drivers are tested.
static SUBJECT: OnceLock<Subject> = OnceLock::new();

/// A server of test protocols, and its drivers.
struct Subject {
    exe: &'static str,
    drivers: Vec<Driver>,
    default: Driver,
}

/// A driver of the server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driver(&'static Descriptor);

impl Driver {
    /// All that the server has.
    pub(crate) fn all() -> &'static [Self] {
        SUBJECT.get().map_or(&[], |subject| &subject.drivers)
    }

    /// True for the driver that serves where none is named.
    pub(crate) fn is_default(self) -> bool {
        SUBJECT.get().is_some_and(|subject| subject.default == self)
    }

    pub(crate) fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) fn descriptor(self) -> &'static Descriptor {
        self.0
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Checks a law on the server `exe`, which is [`crate::test_server`] on the drivers `D`. All laws of a process are checked on the
/// same one.
///
/// # Panics
/// It does not hold.
pub fn check<D: DriverSet>(exe: &'static str, law: fn()) {
    SUBJECT.get_or_init(|| Subject {
        exe: std::env::var(IN_PLACE).map_or(exe, |other| other.leak()),
        drivers: D::ALL.iter().map(|driver| Driver(driver.descriptor())).collect(),
        default: Driver(D::DEFAULT.descriptor()),
    });
    law();
}

/// True if another program is started in place of the server.
pub(crate) fn is_replaced() -> bool {
    std::env::var_os(IN_PLACE).is_some()
}

/// Returns the path of the server, or of the program that is to be started in its place.
pub(crate) fn exe() -> &'static str {
    SUBJECT.get().expect("laws are checked by `check`").exe
}

/// Setting of a law: the server's arguments, and the cases.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) args: &'static [&'static str],
    pub(crate) threads: &'static [usize],
    pub(crate) drivers: fn(Driver) -> bool,
    /// Size of the content file; 0 means that there is none.
    pub(crate) content_bytes: usize,
    /// Number of cases that run at the same time.
    pub(crate) parallel: usize,
    /// Limit of the server's open files.
    pub(crate) open_files: Option<u32>,
    /// True if the server has `--metrics`, for [`Case::counts`].
    pub(crate) has_metrics: bool,
}

pub(crate) const PLAIN: Setup = Setup {
    args: &[],
    threads: &[1, 2],
    drivers: |_| true,
    content_bytes: 0,
    parallel: 14,
    open_files: None,
    has_metrics: false,
};

/// One driver with one number of threads.
pub(crate) struct Case<'a> {
    pub(crate) driver: Driver,
    pub(crate) threads: usize,
    pub(crate) setup: Setup,
    pub(crate) content: &'a Content,
}

/// The server's counts of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    pub(crate) open: usize,
}

impl Case<'_> {
    /// Returns the command of the server, without `--listen`.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.setup.open_files {
            None => Command::new(exe()),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\""), exe()]);
                shell
            }
        };
        command.args(["--driver", self.driver.name(), "--threads", &self.threads.to_string()]);
        if self.setup.content_bytes > 0 {
            command.arg("--content").arg(self.content.path());
        }
        if self.setup.has_metrics {
            command.args(["--metrics", &self.metrics().to_string()]);
        }
        command.args(self.setup.args);
        command
    }

    fn metrics(&self) -> Address {
        Address::Unix(socket_path(self).with_extension("metrics"))
    }

    /// Reads the counts from the server's metrics.
    pub(crate) fn counts(&self) -> anyhow::Result<Counts> {
        Ok(Counts {
            accepted: self.metric("connections_accepted_total")?,
            refused: self.metric("connections_refused_total")?,
            open: self.metric("connections_open")?,
        })
    }

    /// Reads one of the server's metrics.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<usize> {
        let mut scraper = Client::connect(&self.metrics())?;
        scraper.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
        let text = String::from_utf8(scraper.read_to_end()?)?;
        let name = format!("testkit_server_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        Ok(value.with_context(|| format!("no {name}in {text}"))?.parse()?)
    }

    /// Waits until the server's counts are `wanted`: it counts a connection shortly after it has served it.
    pub(crate) fn expect_counts(&self, wanted: Counts) -> anyhow::Result<()> {
        eventually("connections are counted right", || Ok(self.counts().is_ok_and(|counts| counts == wanted)))
            .with_context(|| format!("{:?} instead of {wanted:?}", self.counts()))
    }

    pub(crate) fn start(&self) -> anyhow::Result<Server> {
        Server::start_command(self.command(), 1)
    }
}

impl Setup {
    /// Checks the law in every case.
    pub(crate) fn check(self, law: impl Fn(&Case<'_>) -> anyhow::Result<()> + Sync) {
        let content = Content::new(self.content_bytes).expect("content for the law");
        let drivers: Vec<_> = Driver::all().iter().copied().filter(|&driver| (self.drivers)(driver)).collect();
        let cases: Vec<_> = sample_for_contract(&drivers, Driver::descriptor)
            .into_iter()
            .flat_map(|driver| sample_of(driver, self.threads).iter().map(move |&threads| (driver, threads)))
            .map(|(driver, threads)| Case { driver, threads, setup: self, content: &content })
            .collect();
        // One that is named does not have every fact, and neither has one that is alone.
        if cases.is_empty() && (!drivers.is_empty() || Driver::all().len() == 1) {
            return;
        }
        check_each(&cases, self.parallel, |case| {
            law(case).with_context(|| format!("{}, threads {}", case.driver, case.threads))
        });
    }

    /// Checks the law on a running server in every case. The server must then still answer, and drain.
    pub(crate) fn check_server(self, law: impl Fn(&Server, &Case<'_>) -> anyhow::Result<()> + Sync) {
        self.check(|case| {
            let mut server = case.start()?;
            law(&server, case).map_err(|error| anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
            probe(&server).context("the next good request")?;
            let status = server.stop()?;
            anyhow::ensure!(status.success(), "{status}: {}", server.stderr());
            Ok(())
        });
    }
}

/// Sends a good request, which must be answered.
pub(crate) fn probe(server: &Server) -> anyhow::Result<()> {
    let mut client = server.connect()?;
    ask(&mut client, "probe")
}

/// Returns true if the server answers a request, and false if it is full. A full server sends a refusal without reading
/// the request, so that a reset may overtake the refusal.
pub(crate) fn is_admitted(server: &Server) -> anyhow::Result<bool> {
    let mut client = server.connect()?;
    Ok(client.send(b"room\n").is_ok() && client.take(5).is_ok_and(|got| got == b"room\n"))
}

/// Sends a line, which must be echoed.
pub(crate) fn ask(client: &mut Client, id: &str) -> anyhow::Result<()> {
    client.send(format!("{id}\n").as_bytes())?;
    client.expect(format!("{id}\n").as_bytes())
}

/// Returns the path of a socket file, in the directory of the content.
pub(crate) fn socket_path(case: &Case<'_>) -> PathBuf {
    case.content.dir().join(format!("{}-{}.sock", case.driver, case.threads))
}

/// Returns the path of a file for the trace of the server's calls.
pub(crate) fn trace_path(case: &Case<'_>) -> PathBuf {
    socket_path(case).with_extension("trace")
}
