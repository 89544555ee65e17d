//! `cargo xtask verify`: what takes too long for every change, and must hold before a release.
//!
//! Without names it is what the programs promise; what looks at packages, at other people's programs and at the instrument has to
//! be named, or asked for by `--all`.
//!
//! Each step says what it needs; a step whose tools are missing is skipped with a reason, and fails where nothing may be
//! skipped (`QUINTET_PEERS=required`). A run of all steps that was stopped, or in which some failed, goes on with the others.

mod beside;
mod calls;
mod churn;
mod clients;
mod deploy;
mod dist;
mod engines;
mod faults;
mod fuzz;
mod gate;
mod instrument;
mod ktls;
mod locks;
mod managed;
mod memory;
mod presets;
mod record;
mod soak;
mod tools;
pub(crate) mod trace;
mod upgrades;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use beside::Beside;
use clap::ValueEnum;
use matrix::workspace::{cargo, root, run_shown};
use record::Record;
pub(crate) use tools::{Profile, is_installed};

use crate::ci;

/// For `--cfg`-free sanitizers a target must be named, or build scripts would be instrumented, too.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Crates whose tests run without a server as another process, which would not be instrumented.
const SANITIZED: [&str; 5] = ["proto", "store", "sys", "wire", "drivers"];

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask verify                     # what the programs promise\n  cargo xtask verify instructions        \
                        # half a minute, after its build\n  cargo xtask verify fuzz --seconds 600"
)]
pub(crate) struct Args {
    /// Steps to run [default: those before `calls`]
    #[arg(value_enum)]
    steps: Vec<Step>,

    /// Run all steps there are
    #[arg(long, conflicts_with = "steps")]
    all: bool,

    /// Run all steps anew, those that passed in a run that was stopped, too
    #[arg(long)]
    restart: bool,

    /// Seconds for each fuzz target
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Suites of `clients` to run, comma separated: those with one of these names or, where there is none, that contain it [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,

    /// Seconds of contention in `locks`
    #[arg(long, default_value_t = 120, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    lock_seconds: u64,

    /// Requests of each server's `trace`
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    trace_requests: u64,

    /// Seconds of `churn`
    #[arg(long, default_value_t = 600, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    churn_seconds: u64,

    /// Seconds of `soak`
    #[arg(long, default_value_t = 1800, value_name = "N", value_parser = clap::value_parser!(u64).range(30..))]
    soak_seconds: u64,

    /// Upgrades of each server on each driver in `upgrades`
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    upgrades: u32,

    /// Write the table that `calls` makes, instead of comparing it
    #[arg(long)]
    update: bool,

    /// Release that `dist` looks at, instead of building one twice
    #[arg(long, value_name = "DIR")]
    release: Option<PathBuf>,

    /// Root that the kernel of `ktls` has been installed or unpacked below
    #[arg(long, default_value = "/", value_name = "DIR")]
    kernel_root: PathBuf,
}

impl Args {
    /// Returns the options that decide what a step does.
    fn options(&self) -> String {
        let Self { seconds, only, lock_seconds, trace_requests, churn_seconds, .. } = self;
        let Self { soak_seconds, upgrades, release, kernel_root, all, .. } = self;
        let upgrades = u64::from(*upgrades);
        let numbers = [*seconds, *lock_seconds, *trace_requests, *churn_seconds, *soak_seconds, upgrades];
        format!("{numbers:?} {only:?} {release:?} {kernel_root:?} {all}")
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Step {
    /// Instructions of the hot functions under valgrind, against their limits
    Instructions,
    /// Every interleaving of what shares memory without a lock, by loom
    Models,
    /// Every law of the drivers in every case: each driver with one thread and with two
    Conformance,
    /// Each libFuzzer target, with AddressSanitizer
    Fuzz,
    /// Tests with AddressSanitizer
    Address,
    /// Tests with ThreadSanitizer
    Thread,
    /// Every server under valgrind: leaks and invalid accesses, and a profile of instructions
    Memory,
    /// Every server under load while the 1st, 2nd, 3rd … of its system calls fail
    Faults,
    /// Two clients that contend for a lock of 20 ms on kvcache: never held by both
    Locks,
    /// One trace of requests on every driver of each server: the same replies
    Trace,
    /// Churn of sizes and times to live in kvcache under --maxmemory: resident memory stays within it and a twentieth
    Churn,
    /// Upgrades of servers, one after another, under load: nothing refused, lost or run twice, and no long waits
    Upgrades,
    /// All servers at once, with clients that are killed or slow, files that change, and upgrades: nothing grows
    Soak,
    /// The table of system calls, made anew: the laws of the drivers and failing calls under strace
    Calls,
    /// Two releases that are built in different places: the same bytes; images that run
    Dist,
    /// Compose file, alerts and Helm chart, judged by Docker's, Prometheus's and Kubernetes's tools
    Deploy,
    /// Services of kvcache and http-server under a real `systemd --user`: reloads, restarts, killed processes
    Managed,
    /// kvcache, http-server and zerocopy behind twemproxy, HAProxy, nginx and Envoy, with servers that are killed
    Engines,
    /// http-server and zerocopy with the TLS of a kernel that has it, in QEMU
    Ktls,
    /// Own test suites of client libraries, against kvcache
    Clients,
    /// The presets of bench-matrix about runtimes, in the shortest of visits
    Presets,
    /// The gate of docs/bench-gate.md in a repository with a commit that makes its server slower
    Gate,
    /// Calibrations with real servers, and instructions as a second witness, in the shortest of visits
    Instrument,
}

/// Outcome of a step, if nothing broke.
enum Outcome {
    Passed,
    /// Reason that it could not run.
    Skipped(String),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let is_whole = args.steps.is_empty();
    let steps = if is_whole { Step::value_variants() } else { &args.steps };
    let is_left_out = |step: Step| is_whole && !args.all && !step.is_promise();
    let path = tools::directory()?.join("run.json");
    if args.restart {
        Record::forget(&path);
    }
    let mut record = if is_whole { Record::open(path, &args.options()) } else { None };
    let has_passed = |record: Option<&Record>, name: &str| record.and_then(|record| record.seconds_of(name));
    let mut soak = None;
    if is_whole && has_passed(record.as_ref(), &Step::Soak.name()).is_none() {
        soak = Some(Beside::start(&Step::Soak.name(), &["--soak-seconds", &args.soak_seconds.to_string()])?);
    }
    let (mut summary, mut failed) = (Vec::new(), Vec::new());
    for &step in steps {
        let name = step.name();
        let (is_failure, said) = match has_passed(record.as_ref(), &name) {
            _ if is_left_out(step) => (false, "not run: it has to be named, or asked for by --all".to_owned()),
            Some(seconds) => (false, format!("passed in {seconds:.1} s, before this run was resumed")),
            None => {
                let beside = if step == Step::Soak { soak.take() } else { None };
                step.run_and_record(&name, args, beside, record.as_mut())?
            }
        };
        println!("verify: {name}: {said}");
        summary.push(format!("  {name:<13} {said}"));
        if is_failure {
            failed.push(name);
        }
    }
    if let Some(record) = record.filter(|_| failed.is_empty()) {
        record.remove();
    }
    println!("verify: summary\n{}", summary.join("\n"));
    match failed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => {
            eprintln!("error: verify: {}", failed.join(", "));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// True if nothing may be skipped for want of a tool.
pub(crate) fn are_tools_required() -> bool {
    std::env::var_os("QUINTET_PEERS").is_some_and(|value| value == "required")
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// True for what the programs themselves are promised to do (docs/reliability.md).
    fn is_promise(self) -> bool {
        match self {
            Self::Instructions | Self::Models | Self::Conformance | Self::Fuzz | Self::Address | Self::Thread => true,
            Self::Memory | Self::Faults | Self::Locks | Self::Trace | Self::Churn | Self::Upgrades | Self::Soak => true,
            Self::Calls | Self::Dist | Self::Deploy | Self::Managed | Self::Engines | Self::Ktls | Self::Clients => {
                false
            }
            Self::Presets | Self::Gate | Self::Instrument => false,
        }
    }

    /// Runs the step, or waits for it where it has been started. Returns true if it has failed, and what is to be said of it.
    fn run_and_record(
        self,
        name: &str,
        args: &Args,
        beside: Option<Beside>,
        record: Option<&mut Record>,
    ) -> Result<(bool, String)> {
        println!("verify: {name}");
        let began = Instant::now();
        let outcome = match beside {
            Some(beside) => beside.wait().map(|seconds| (Outcome::Passed, seconds)),
            None => self.run(args).map(|outcome| (outcome, began.elapsed().as_secs_f64())),
        };
        Ok(match outcome {
            Ok((Outcome::Passed, seconds)) => {
                record.map_or(Ok(()), |record| record.note(name, seconds))?;
                (false, format!("passed in {seconds:.1} s"))
            }
            Ok((Outcome::Skipped(why), _)) => (are_tools_required(), format!("not run: {why}")),
            Err(error) => (true, format!("failed: {error:#}")),
        })
    }

    fn run(self, args: &Args) -> Result<Outcome> {
        match self {
            Self::Instructions => instructions(),
            Self::Models => models(),
            Self::Conformance => conformance(),
            Self::Fuzz => fuzz::run(Duration::from_secs(args.seconds)),
            Self::Address => sanitize("address", &[]),
            Self::Thread => match tools::has_standard_library_sources()? {
                true => sanitize("thread", &["-Zbuild-std"]),
                false => {
                    Ok(Outcome::Skipped("needs the component rust-src (rustup component add rust-src)".to_owned()))
                }
            },
            Self::Memory => memory::run(),
            Self::Faults => faults::run(),
            Self::Calls => calls::run(args.update),
            Self::Dist => dist::run(args.release.as_deref()),
            Self::Deploy => deploy::run(),
            Self::Managed => managed::run(),
            Self::Engines => engines::run(),
            Self::Ktls => ktls::run(&args.kernel_root),
            Self::Clients => clients::run(&args.only),
            Self::Locks => locks::run(Duration::from_secs(args.lock_seconds)),
            Self::Trace => trace::run(args.trace_requests),
            Self::Churn => churn::run(Duration::from_secs(args.churn_seconds)),
            Self::Upgrades => upgrades::run(args.upgrades),
            Self::Soak => soak::run(Duration::from_secs(args.soak_seconds)),
            Self::Presets => presets::run(),
            Self::Gate => gate::run(),
            Self::Instrument => instrument::run(),
        }
    }
}

fn instructions() -> Result<Outcome> {
    if !is_installed("valgrind") {
        return Ok(Outcome::Skipped("valgrind is not installed".to_owned()));
    }
    // The variable GUNGRAUN_RUNNER would be compiled in, and another build needed for another place.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools::gungraun_runner()?].into_iter().chain(std::env::split_paths(&path)))?;
    run_shown(cargo().args(["bench", "--package", "benches", "--bench", "instructions"]).env("PATH", path))?;
    Ok(Outcome::Passed)
}

fn models() -> Result<Outcome> {
    ci::models()?;
    Ok(Outcome::Passed)
}

/// `cargo test` checks each law with a sample of drivers, numbers of threads and strategies.
fn conformance() -> Result<Outcome> {
    let mut command = cargo();
    command.args(["test", "--test", "conformance", "--test", "it"]);
    // The registry has a package called zerocopy, too.
    for package in ["testkit", "fileserver", "http-server", "kvcache", "zerocopy@0.1.0"] {
        command.args(["--package", package]);
    }
    run_shown(command.env("QUINTET_CONFORMANCE", "all"))?;
    run_shown(ci::own_driver_cargo("clippy")?.args(["--all-targets", "--", "-D", "warnings"]))?;
    run_shown(ci::own_driver_cargo("test")?.env("QUINTET_CONFORMANCE", "all"))?;
    Ok(Outcome::Passed)
}

/// The tests of [`SANITIZED`] with one of the compiler's sanitizers, which a stable compiler has, too.
fn sanitize(sanitizer: &str, options: &[&str]) -> Result<Outcome> {
    let mut command = cargo();
    command.args(["test", "--lib", "--target", TARGET]).args(options);
    for package in SANITIZED {
        command.args(["--package", package]);
    }
    // Loom's models have threads of their own making, which no sanitizer understands.
    command.args(["--", "--skip", "model_"]);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
    command.env("CARGO_TARGET_DIR", tools::directory()?.join(sanitizer)).current_dir(root());
    run_shown(&mut command)?;
    Ok(Outcome::Passed)
}
