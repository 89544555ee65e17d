//! Programs that tests drive or compare with, found where they are installed or built, and scripts that they write. Where a
//! program is missing, the test says so and is skipped.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// Variable that is set to `required` where every program must be there, as in CI: then a missing one is a failure.
const PEERS: &str = "QUINTET_PEERS";
/// Directories where distributions install servers and where an ordinary user's PATH does not look.
const DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Returns the path of an installed program. With `None` the test is to be skipped, which standard error then says.
///
/// # Errors
/// It is missing and must not be.
pub fn installed_program(program: &str) -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from));
    let found = directories.map(|directory| directory.join(program)).find(|candidate| candidate.is_file());
    found_or_skipped(found, program, "is not installed", is_required())
}

/// Returns the path of another program of this workspace, built into the directory of `exe`; otherwise like
/// [`installed_program`].
///
/// # Errors
/// It has not been built and must be there.
pub fn workspace_program(exe: &Path, program: &str) -> anyhow::Result<Option<PathBuf>> {
    let candidate = exe.with_file_name(program);
    let found = candidate.is_file().then_some(candidate);
    found_or_skipped(found, program, "has not been built (cargo test --workspace does)", is_required())
}

/// Writes a script that can be executed, and the directories that it lies in. A shell writes it: what this process has open for
/// writing, a child that another test starts meanwhile has open, too, and then it cannot be executed (ETXTBSY, execve(2)).
///
/// # Errors
/// It cannot be written.
pub fn write_program(path: &Path, script: &str) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().context("no parent")?)?;
    let write = r#"printf %s "$2" >"$1" && chmod 755 "$1""#;
    let status = Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(script).status().context("sh")?;
    ensure!(status.success(), "{} cannot be written: {status}", path.display());
    Ok(())
}

fn is_required() -> bool {
    env::var_os(PEERS).is_some_and(|value| value == "required")
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn found_or_skipped(
    found: Option<PathBuf>,
    program: &str,
    why: &str,
    is_required: bool,
) -> anyhow::Result<Option<PathBuf>> {
    match found {
        Some(path) => Ok(Some(path)),
        None if is_required => bail!("{program} {why}, and {PEERS}=required"),
        None => {
            eprintln!("skipped: {program} {why}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::Relaxed},
        thread,
    };

    use super::*;

    #[test]
    fn installed_programs_are_found() {
        assert!(installed_program("sh").unwrap().unwrap().is_file());
        let exe = env::current_exe().unwrap();
        let name = exe.file_name().unwrap().to_str().unwrap();
        assert_eq!(workspace_program(&exe, name).unwrap().as_deref(), Some(&*exe));
    }

    /// Guards against ETXTBSY: of the scripts that this process had written itself, some could not be executed.
    #[test]
    fn a_script_can_be_executed_while_other_children_are_started() {
        let (directory, is_over) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let start_children = || {
            while !is_over.load(Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        };
        let run = |at: usize| {
            let path = directory.path().join(format!("programs/{at}"));
            write_program(&path, &format!("#!/bin/sh\nexit {at}\n")).unwrap();
            Command::new(path).status().map(|status| status.code())
        };
        let outcomes: Vec<_> = thread::scope(|scope| {
            scope.spawn(start_children);
            scope.spawn(start_children);
            let outcomes = (0..100).map(run).collect();
            is_over.store(true, Relaxed);
            outcomes
        });
        for (at, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome.unwrap(), i32::try_from(at).ok());
        }
    }

    #[test]
    fn a_missing_program_is_skipped_unless_required() {
        assert_eq!(found_or_skipped(None, "program", "is not here", false).unwrap(), None);
        let error = found_or_skipped(None, "program", "is not here", true).unwrap_err().to_string();
        assert!(error.contains("program is not here"), "{error}");
    }
}
