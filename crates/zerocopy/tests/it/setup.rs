//! Helpers that start servers as processes, with every strategy on every driver.

use std::{fmt, path::Path, process::Command, sync::LazyLock, thread, time::Duration};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use testkit::{DriverKind, Server, check_each, drivers_with, http::Http};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_zerocopy");
pub(crate) const STRATEGIES: &[&str] = &["sendfile", "mmap-write", "vmsplice", "pipe", "uring", "auto"];
/// Drivers whose connections hold no thread.
pub(crate) static EVENT_LOOPS: LazyLock<Vec<DriverKind>> =
    LazyLock::new(|| drivers_with(|facts| !facts.holds_a_thread()));
/// Drivers that map no memory while they serve: only their loops run, which exist from the start.
pub(crate) static LOOPS_ALONE: LazyLock<Vec<DriverKind>> = LazyLock::new(|| drivers_with(|facts| facts.batches));

/// Setup of the servers that a law is tested on.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) strategies: &'static [&'static str],
    pub(crate) drivers: &'static [DriverKind],
    /// Number of servers that are tested at the same time.
    pub(crate) concurrency: usize,
    /// Arguments beside strategy, driver, address and directory.
    pub(crate) args: &'static [&'static str],
}

pub(crate) const ALL: Setup =
    Setup { strategies: STRATEGIES, drivers: DriverKind::ALL, concurrency: 7, args: &["--threads", "1"] };
pub(crate) const PIPE: Setup = Setup { strategies: &["pipe"], ..ALL };
/// One server, for laws that do not depend on how bytes are moved.
pub(crate) const ONE: Setup = Setup { strategies: &["auto"], drivers: &[DriverKind::DEFAULT], ..ALL };

/// One of the combinations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination {
    pub(crate) strategy: &'static str,
    pub(crate) driver: DriverKind,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.strategy, self.driver)
    }
}

impl Setup {
    pub(crate) fn command(self, combination: Combination, root: &Path) -> Command {
        let mut command = Command::new(EXE);
        command.args([
            "--strategy",
            combination.strategy,
            "--driver",
            combination.driver.name(),
            "--listen",
            "127.0.0.1:0",
        ]);
        command.args(self.args).arg(root);
        command
    }

    pub(crate) fn start(self, combination: Combination, root: &Path) -> anyhow::Result<Server> {
        Server::start_command(self.command(combination, root), 1)
    }

    /// Tests the law on every driver with one of the strategies, drawn by the law, or on all combinations with
    /// `QUINTET_CONFORMANCE=all`; failures name them.
    pub(crate) fn for_each_combination(self, law: impl Fn(Combination) -> anyhow::Result<()> + Sync) {
        let strategies = |&driver| {
            let drawn = testkit::sample_of(driver, self.strategies);
            drawn.iter().map(move |&strategy| Combination { strategy, driver })
        };
        let combinations: Vec<_> = testkit::sample(self.drivers).iter().flat_map(strategies).collect();
        check_each(&combinations, self.concurrency, |&combination| {
            law(combination).with_context(|| combination.to_string())
        });
    }

    /// Tests the law on a server of every combination, which must then still run and drain.
    pub(crate) fn for_each_server(self, root: &Path, law: impl Fn(&Server, Combination) -> anyhow::Result<()> + Sync) {
        settle();
        self.for_each_combination(|combination| {
            let mut server = self.start(combination, root)?;
            law(&server, combination).map_err(|error| anyhow!("{error:#}\n  it said: {}", server.stderr()))?;
            server.drain()
        });
    }
}

/// Files are put into pipes once their last change is some ticks of the kernel's clock ago.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(80));
}

/// Directory of files of pseudo-random bytes, one of each size, which is its name.
pub(crate) struct Site {
    pub(crate) dir: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new(sizes: &[usize]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for &size in sizes {
            std::fs::write(dir.path().join(size.to_string()), bytes(size)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Returns the contents of a file of this size: no two sizes begin alike.
pub(crate) fn bytes(size: usize) -> &'static [u8] {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut state = 1_u64;
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ state >> 29).to_le_bytes()
        });
        words.take(NOISE_LEN / 8).flatten().collect()
    });
    &NOISE[size % OFFSETS..][..size]
}

const OFFSETS: usize = 65_521;
const NOISE_LEN: usize = 9 << 20;

/// Returns `/cache/stats`, which must be JSON.
pub(crate) fn stats(server: &Server) -> anyhow::Result<Value> {
    let got = Http::connect(server.address())?.ask("GET /cache/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    ensure!(got.status == 200 && got.field("content-type") == Some("application/json"), "{got:?}");
    Ok(serde_json::from_slice(&got.body)?)
}

/// Returns a number in the statistics, by its JSON pointer.
pub(crate) fn number(stats: &Value, pointer: &str) -> anyhow::Result<f64> {
    stats.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no number at {pointer} in {stats}"))
}

/// Statistics of one strategy.
pub(crate) fn of_strategy(stats: &Value, name: &str, figure: &str) -> anyhow::Result<f64> {
    let all = stats["strategies"].as_array().context("no strategies")?;
    let one = all.iter().find(|strategy| strategy["name"] == name).with_context(|| format!("no {name}"))?;
    one[figure].as_f64().with_context(|| format!("no {figure} of {name}"))
}

/// Returns the sum of all fallbacks.
pub(crate) fn fallbacks(stats: &Value) -> f64 {
    stats["fallbacks"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_f64()).sum()
}
