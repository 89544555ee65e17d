//! Programs that tests drive or compare with: found, or the test says why it is skipped.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::bail;

/// Set to `required` where every program must be there, as in CI: then a missing one is a failure.
const PEERS: &str = "QUINTET_PEERS";
/// Distributions install servers where an ordinary user's PATH does not look.
const DIRECTORIES: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// Where an installed program is. `None` means: skip what needs it, which has been said on standard error.
///
/// # Errors
/// It is missing and must not be.
pub fn installed_program(program: &str) -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(DIRECTORIES.map(PathBuf::from));
    let found = directories.map(|directory| directory.join(program)).find(|candidate| candidate.is_file());
    found_or_skipped(found, program, "is not installed", must_be_there())
}

/// Another program of this workspace, built into the directory of `exe`; otherwise like [`installed_program`].
///
/// # Errors
/// It has not been built and must be there.
pub fn workspace_program(exe: &Path, program: &str) -> anyhow::Result<Option<PathBuf>> {
    let candidate = exe.with_file_name(program);
    let found = candidate.is_file().then_some(candidate);
    found_or_skipped(found, program, "has not been built (cargo test --workspace does)", must_be_there())
}

fn must_be_there() -> bool {
    env::var_os(PEERS).is_some_and(|value| value == "required")
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests is to know what they did not test")]
fn found_or_skipped(
    found: Option<PathBuf>,
    program: &str,
    why: &str,
    required: bool,
) -> anyhow::Result<Option<PathBuf>> {
    match found {
        Some(path) => Ok(Some(path)),
        None if required => bail!("{program} {why}, and {PEERS}=required"),
        None => {
            eprintln!("skipped: {program} {why}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_found() {
        assert!(installed_program("sh").unwrap().unwrap().is_file());
        let exe = env::current_exe().unwrap();
        let name = exe.file_name().unwrap().to_str().unwrap();
        assert_eq!(workspace_program(&exe, name).unwrap().as_deref(), Some(&*exe));
    }

    #[test]
    fn what_is_missing_is_skipped_unless_it_is_required() {
        assert_eq!(found_or_skipped(None, "program", "is not here", false).unwrap(), None);
        let error = found_or_skipped(None, "program", "is not here", true).unwrap_err().to_string();
        assert!(error.contains("program is not here"), "{error}");
    }
}
