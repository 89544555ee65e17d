//! `cargo xtask pages`: every command of the README and of the crates' READMEs, run in a copy of the tree.
//!
//! A reader copies what stands in a block marked `sh`. Each line of such a block is run here by the shell, in the order of
//! the page, in a clone of what is committed and changed; a server is started and runs until the page starts it anew or ends,
//! where it must drain. What a `text` block directly below promises is compared with what was printed, numbers aside. The programs are
//! those that the tests have built; runs are shortened, nothing else is changed.

mod block;
mod promise;
mod session;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};
use matrix::workspace::{metadata, root};

use self::{block::Item, session::Session};

/// Set in the process that already runs in a network of its own.
const ISOLATED: &str = "QUINTET_PAGES_ISOLATED";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages to run [default: README.md and the README.md of every crate]
    #[arg(value_name = "PAGE")]
    pages: Vec<PathBuf>,

    /// Directory of the programs [default: those that `cargo test --workspace` builds]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// Runs the pages' commands in a network and a message queue name space of their own, where every port is free.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if std::env::var_os(ISOLATED).is_none() {
        return isolated();
    }
    let programs = match &args.programs {
        Some(directory) => directory.clone(),
        None => metadata()?.target_directory.join("debug"),
    };
    let pages = if args.pages.is_empty() { readmes()? } else { args.pages.clone() };
    let mut lines = 0;
    for page in &pages {
        let text = fs::read_to_string(root().join(page)).with_context(|| page.display().to_string())?;
        lines += run_page(&text, &programs).with_context(|| page.display().to_string())?;
    }
    println!("pages: {lines} command lines of {} pages work", pages.len());
    Ok(ExitCode::SUCCESS)
}

/// Starts this program again, by `unshare`, as root of a name space if it is not root here.
fn isolated() -> Result<ExitCode> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--ipc"]);
    if !nix::unistd::Uid::effective().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().context("own path")?).args(std::env::args_os().skip(1));
    let status = command.env(ISOLATED, "1").status().context("unshare (util-linux)")?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}

/// Returns the README of the project and that of every crate that has one.
fn readmes() -> Result<Vec<PathBuf>> {
    let mut crates: Vec<PathBuf> = fs::read_dir(root().join("crates"))?
        .map(|entry| Ok(Path::new("crates").join(entry?.file_name()).join("README.md")))
        .collect::<Result<_>>()?;
    crates.retain(|page| root().join(page).exists());
    crates.sort();
    crates.insert(0, PathBuf::from("README.md"));
    Ok(crates)
}

/// Runs the commands of a page in a fresh copy of the tree; returns how many there were.
fn run_page(text: &str, programs: &Path) -> Result<usize> {
    let items = block::parse(text)?;
    if !items.iter().any(|item| matches!(item, Item::Line { .. })) {
        return Ok(0);
    }
    let directory = tempfile::tempdir().context("temporary directory")?;
    let tree = directory.path().join("quintet");
    copy_tree(&tree)?;
    let mut session = Session::new(tree, directory.path(), programs)?;
    let (mut lines, mut printed) = (0, String::new());
    for item in items {
        match item {
            Item::Line { line, number } => {
                printed = session.run_line(&line).with_context(|| format!("line {number}: {line}"))?;
                lines += 1;
            }
            Item::Promise { text, number } => {
                promise::check(&text, &printed).with_context(|| format!("what line {number} and the next promise"))?;
            }
        }
    }
    session.stop_servers()?;
    Ok(lines)
}

/// Copies what a clone would have, with the changes that are not committed yet.
fn copy_tree(to: &Path) -> Result<()> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("git ls-files")?;
    if !listed.status.success() {
        bail!("git ls-files: {}", listed.status);
    }
    for name in listed.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        let (from, to) = (root().join(&name), to.join(&name));
        if from.is_file() {
            fs::create_dir_all(to.parent().unwrap_or(&to))?;
            fs::copy(&from, &to).with_context(|| name)?;
        }
    }
    Ok(())
}
