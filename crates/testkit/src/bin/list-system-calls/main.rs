//! Lists the system calls of confined servers, by their drivers, from what strace(1) has written of them: the text of
//! `drivers::system_calls`.
//!
//! `list-system-calls DIRECTORY` reads the traces there; `cargo xtask verify calls` makes and compares them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool talks to its user")]

mod trace;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use clap::Parser;
use testkit::DriverKind;
use trace::Seen;

const HEAD: &str = "\
//! System calls that a confined server makes on each driver. Written by `cargo xtask verify calls --update`, from what the conformance
//! suite and fail-the-nth were seen to call; what is changed here by hand does not last.

";

/// Command line.
#[derive(Parser)]
struct Cli {
    /// Directory of the traces: `*.trace` of whole processes, and `DRIVER.*.nth` of confined ones
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let mut seen = Seen::default();
    for entry in fs::read_dir(&cli.directory).with_context(|| cli.directory.display().to_string())? {
        let path = entry?.path();
        read(&path, &mut seen).with_context(|| path.display().to_string())?;
    }
    print!("{HEAD}{}", text(&seen)?);
    Ok(())
}

fn read(path: &Path, seen: &mut Seen) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let trace = || fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if name.ends_with(".trace") {
        trace::read_whole(&trace()?, seen);
    } else if let Some((driver, "nth")) =
        name.split_once('.').and_then(|(driver, rest)| Some((driver, rest.rsplit_once('.')?.1)))
    {
        trace::read_confined(&trace()?, driver, seen);
    }
    Ok(())
}

/// The source file.
fn text(seen: &Seen) -> anyhow::Result<String> {
    let mut lists = BTreeMap::new();
    for driver in DriverKind::ALL {
        let calls = seen.get(driver.name()).with_context(|| format!("no trace of {driver}"))?;
        lists.insert(driver.name(), calls);
    }
    let mut every = lists.values().copied().cloned();
    let first = every.next().context("no drivers")?;
    let every = every.fold(first, |every, calls| every.intersection(&calls).cloned().collect());
    ensure!(!every.is_empty(), "no call is made on every driver");
    let mut text = list("OF_EVERY_DRIVER", "Those that were seen on every driver.", &every);
    for driver in DriverKind::ALL {
        let name = driver.name();
        let own = lists[name].difference(&every).cloned().collect();
        let doc = format!("Those of `{name}` beside them.");
        text += "\n";
        text += &list(&name.replace('-', "_").to_uppercase(), &doc, &own);
    }
    Ok(text)
}

fn list(name: &str, doc: &str, calls: &BTreeSet<String>) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{call:?}")).collect();
    format!("/// {doc}\npub const {name}: &[&str] = &[{}];\n", calls.join(", "))
}
