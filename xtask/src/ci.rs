//! `cargo xtask ci`: what a change must pass, step by step, with the time each step took.

use std::{
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use matrix::workspace::{cargo, metadata, root, run_shown};

use crate::{dist, rebuilds, tidy, units, verify};

/// A step.
struct Step {
    name: &'static str,
    run: fn() -> Result<()>,
    subject: Subject,
}

/// Subject of a step; its name stands for all such steps.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    /// Sources alone, so that it may run beside tests.
    Sources,
    Programs,
    /// Releases, which are built in places of their own, so that it may run beside anything.
    Releases,
}

impl Subject {
    const ALL: [Self; 3] = [Self::Sources, Self::Programs, Self::Releases];

    const fn name(self) -> &'static str {
        match self {
            Self::Sources => "sources",
            Self::Programs => "programs",
            Self::Releases => "releases",
        }
    }
}

const STEPS: [Step; 12] = [
    sources("fmt", fmt),
    sources("clippy", clippy),
    sources("tidy", fences),
    sources("doc", doc),
    programs("rebuilds", rebuilds::check),
    programs("models", models),
    programs("units", units::check),
    programs("own-driver", own_driver),
    programs("trace", trace),
    programs("bench-matrix", smoke),
    programs("pages", pages),
    Step { name: "same-bytes", run: dist::reproduction::check, subject: Subject::Releases },
];

const fn sources(name: &'static str, run: fn() -> Result<()>) -> Step {
    Step { name, run, subject: Subject::Sources }
}

const fn programs(name: &'static str, run: fn() -> Result<()>) -> Step {
    Step { name, run, subject: Subject::Programs }
}

/// Steps to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Steps to run; sources, programs and releases: all that look at these [default: all]
    #[arg(value_name = "STEP", value_parser = names())]
    steps: Vec<String>,
}

fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).chain(Subject::ALL.map(Subject::name)).collect()
}

pub(crate) fn run(Args { steps }: &Args) -> Result<ExitCode> {
    for step in STEPS {
        let is_wanted = |named: &String| named == step.name || named == step.subject.name();
        if !steps.is_empty() && !steps.iter().any(is_wanted) {
            continue;
        }
        let name = step.name;
        println!("ci: {name}");
        let began = Instant::now();
        (step.run)().with_context(|| format!("ci: {name}"))?;
        println!("ci: {name} passed in {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(ExitCode::SUCCESS)
}

fn fmt() -> Result<()> {
    run_shown(cargo().args(["fmt", "--all", "--", "--check"]))
}

fn clippy() -> Result<()> {
    run_shown(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn fences() -> Result<()> {
    tidy::run().map(drop)
}

fn doc() -> Result<()> {
    run_shown(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Every interleaving of what shares memory without a lock, or waits for others: loom's tests are named `model_…`.
pub(crate) fn models() -> Result<()> {
    run_shown(cargo().args(["test", "--workspace", "--lib", "model_"]))
}

/// The driver of the example, as somebody else would build it, under a few laws; `verify conformance` has all of them, and the
/// programs. Both workspaces share the dependencies that have been built.
fn own_driver() -> Result<()> {
    run_shown(own_driver_cargo("fmt")?.args(["--", "--check"]))?;
    let laws = ["pipelining", "confined"];
    run_shown(own_driver_cargo("test")?.args(["--no-default-features", "--test", "conformance", "--"]).args(laws))
}

/// A tenth of the trace of `verify trace`, on one driver of each kind.
fn trace() -> Result<()> {
    verify::trace::replay(verify::Profile::Dev, &["--requests", "100000", "--drivers", "epoll,pool,smol,uring"])
}

/// Returns a command of cargo's in the workspace of `examples/own-driver`.
pub(crate) fn own_driver_cargo(command: &str) -> Result<Command> {
    let mut cargo = cargo();
    cargo.arg(command).current_dir(root().join("examples/own-driver"));
    cargo.env("CARGO_TARGET_DIR", metadata()?.target_directory);
    Ok(cargo)
}

/// A few cells of each server, small enough for every change. Only that it works is checked; figures are not judged, so the
/// servers that the tests have built serve as well as a release would.
fn smoke() -> Result<()> {
    let directory = tempfile::tempdir().context("temporary directory")?;
    let out = directory.path().join("run");
    let (filter, workloads) = smoke_cells();
    let short = ["--quick", "--blocks", "1", "--slice", "200ms", "--warmup", "100ms", "--seed", "1"];
    let status = Command::new(std::env::current_exe().context("own path")?)
        .args(["bench-matrix", "--profile", "dev"])
        .args(short)
        .args(["--filter", &filter, "--workload", &workloads, "--out"])
        .arg(&out)
        .status()
        .context("bench-matrix")?;
    if !status.success() {
        bail!("bench-matrix: {status}");
    }
    check_run(&out)
}

/// The commands of the READMEs, by the programs that the smoke run has just used.
fn pages() -> Result<()> {
    run_shown(Command::new(std::env::current_exe().context("own path")?).arg("pages"))
}

/// Returns the filter and the workloads of all servers' smoke cells. The first product of each has its peers, too.
fn smoke_cells() -> (String, String) {
    let (mut products, mut workloads) = (Vec::new(), Vec::new());
    for server in servers::all() {
        let peers = server.peers.iter().filter_map(|id| id.split('/').next());
        let all: Vec<&str> = std::iter::once(server.name.as_str()).chain(peers).collect();
        for (number, filter) in server.smoke.filters.iter().enumerate() {
            let named = if number == 0 { all.join("|") } else { server.name.clone() };
            products.push(format!("server={named},{filter}"));
        }
        workloads.extend(server.smoke.workloads.iter().map(String::as_str));
    }
    (products.join(";"), workloads.join(","))
}

pub(crate) fn check_run(directory: &Path) -> Result<()> {
    for summary in matrix::store::check(directory)?.matrices {
        let (server, progress) = (summary.setup.server, summary.progress);
        if progress.is_partial || progress.visits_failed > 0 {
            let (done, planned, failed) = (progress.visits_done, progress.visits_planned, progress.visits_failed);
            bail!("{server}: {done} of {planned} visits made, {failed} failed");
        }
    }
    Ok(())
}
