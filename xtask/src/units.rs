//! `cargo xtask ci units`: systemd's own tools judge the units of `deploy/systemd`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, bail, ensure};

use matrix::workspace::root;

use crate::verify::{are_tools_required, is_installed};

/// Exposure of a service above which it is not confined enough, in tenths: 0 is the best, 100 the worst.
const EXPOSURE_MAX: &str = "15";
/// Directory of the programs in the units.
const PROGRAMS: &str = "/usr/bin/";

pub(crate) fn check() -> Result<()> {
    if !is_installed("systemd-analyze") {
        ensure!(!are_tools_required(), "systemd-analyze is not installed");
        println!("ci: units: not run: systemd-analyze is not installed");
        return Ok(());
    }
    let directory = tempfile::tempdir().context("temporary directory")?;
    let units = copy_units(&root().join("deploy/systemd"), directory.path())?;
    for server in servers::all() {
        let named = format!("quintet-{}", server.name);
        ensure!(units.iter().any(|unit| file_name(unit).starts_with(&named)), "{}: no unit", server.name);
    }
    // It succeeds with warnings, too, and says nothing where there are none.
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units))?;
    ensure!(verified.status.success() && verified.stderr.is_empty(), "systemd-analyze verify: {}", text(&verified));
    for unit in units.iter().filter(|unit| unit.extension().is_some_and(|extension| extension == "service")) {
        let mut judge = Command::new("systemd-analyze");
        judge.args(["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX]).arg(unit);
        let judged = run(&mut judge)?;
        if !judged.status.success() {
            bail!("{}: more exposed than {EXPOSURE_MAX} tenths:\n{}", file_name(unit), text(&judged));
        }
    }
    println!("ci: units: {} units are well-formed, and each service's exposure is at most 1.5", units.len());
    Ok(())
}

/// Copies the units, with programs that are there in the place of those that they start.
fn copy_units(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let mut units = Vec::new();
    for server in servers::all() {
        symlink("/bin/true", to.join(&server.name)).context("a link to a program")?;
    }
    let programs = format!("{}/", to.display());
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let unit = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let copy = to.join(file_name(&path));
        fs::write(&copy, unit.replace(PROGRAMS, &programs)).with_context(|| copy.display().to_string())?;
        units.push(copy);
    }
    units.sort();
    Ok(units)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn run(command: &mut Command) -> Result<Output> {
    command.output().context("systemd-analyze")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
