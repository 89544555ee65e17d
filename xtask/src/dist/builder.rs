//! Those who build a release to be compared: this user under another name, and another user of this machine, whose ids, home
//! directory, toolchain and registry are elsewhere.

use std::{
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

use matrix::workspace::{first_line, run_shown};

/// Id of the other user and of the group: nobody's, which every Linux has.
const ID: &str = "65534";

/// Somebody who builds.
pub(crate) struct Builder {
    name: &'static str,
    other: Option<OtherUser>,
}

/// Toolchain and registry of another user, since the home of this one may be closed to others.
struct OtherUser {
    directory: TempDir,
    /// Programs of the toolchain.
    programs: PathBuf,
}

impl Builder {
    /// This process's own user, under another name.
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, other: None }
    }

    /// Somebody with other ids where this process may take them on, as root may; says so where it may not.
    ///
    /// # Errors
    /// The other user's toolchain or registry cannot be made.
    pub(crate) fn other(name: &'static str) -> Result<Self> {
        let mut trial = by_other_ids(&Command::new("true"));
        let can = trial.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !can {
            println!("{name} builds with the ids of this user: setpriv(1) gives no others, as it does for root");
        }
        Ok(Self { name, other: can.then(OtherUser::new).transpose()? })
    }

    /// Directory of the builder's registry.
    pub(crate) fn cargo_home(&self) -> PathBuf {
        self.other.as_ref().map_or_else(cargo_home, OtherUser::cargo_home)
    }

    /// Runs a command in a place of this builder's, at home in a directory of its name there.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub(crate) fn run(&self, command: &mut Command, place: &Path) -> Result<()> {
        let home = place.join(self.name);
        fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
        command.env("HOME", &home).env("USER", self.name).env("LOGNAME", self.name);
        command.env("CARGO_HOME", self.cargo_home());
        let Some(other) = &self.other else {
            return run_shown(command.env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup")));
        };
        run_shown(Command::new("chown").args(["-R", &format!("{ID}:{ID}")]).arg(place))?;
        let mut path = OsString::from(&other.programs);
        if let Some(usual) = std::env::var_os("PATH") {
            path.push(":");
            path.push(usual);
        }
        run_shown(&mut by_other_ids(command.env("PATH", path)))
    }
}

impl OtherUser {
    fn new() -> Result<Self> {
        let directory = open_directory()?;
        let toolchain = PathBuf::from(first_line("rustc", &["--print", "sysroot"]).context("rustc --print sysroot")?);
        let programs = if toolchain.starts_with(own_home()) {
            share(&toolchain, &directory.path().join("toolchain"))?;
            directory.path().join("toolchain/bin")
        } else {
            toolchain.join("bin")
        };
        let this = Self { directory, programs };
        let registry = this.cargo_home().join("registry");
        fs::create_dir_all(&registry).with_context(|| registry.display().to_string())?;
        // Archives alone: some of the files that are unpacked may be closed to others.
        for part in ["cache", "index"] {
            share(&cargo_home().join("registry").join(part), &registry.join(part))?;
        }
        let owned = [this.cargo_home(), registry];
        run_shown(Command::new("chown").arg(format!("{ID}:{ID}")).args(owned))?;
        Ok(this)
    }

    fn cargo_home(&self) -> PathBuf {
        self.directory.path().join("cargo")
    }
}

/// Makes a temporary directory that other users may enter.
pub(crate) fn open_directory() -> Result<TempDir> {
    let open = Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(open).tempdir().context("temporary directory")
}

/// Returns where the crates that this user has fetched are.
pub(crate) fn cargo_home() -> PathBuf {
    own("CARGO_HOME", ".cargo")
}

/// Makes a tree of the same files, by links where both are on one file system.
fn share(from: &Path, to: &Path) -> Result<()> {
    let linked = Command::new("cp").args(["-a", "--link"]).args([from, to]).stderr(Stdio::null()).status();
    if linked.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    run_shown(Command::new("cp").args(["-a", "--no-target-directory"]).args([from, to]))
}

/// The same command with the ids of the other user.
fn by_other_ids(command: &Command) -> Command {
    let mut by = Command::new("setpriv");
    by.args(["--reuid", ID, "--regid", ID, "--clear-groups", "--"]);
    // The one that runs this program is this user's.
    let program = Path::new(command.get_program());
    by.arg(if program.ends_with("cargo") { Path::new("cargo") } else { program }).args(command.get_args());
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => by.env(variable, value),
            None => by.env_remove(variable),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        by.current_dir(directory);
    }
    by
}

fn own(variable: &str, usual: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| own_home().join(usual), PathBuf::from)
}

fn own_home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_builder_has_other_ids_another_home_and_a_toolchain_that_works_there() {
        let place = open_directory().unwrap();
        for builder in [Builder::named("somebody"), Builder::other("nobody-else").unwrap()] {
            let said = place.path().join(builder.name).join("said");
            let mut command = Command::new("sh");
            command.args(["-c", r#"echo "$(id -u) $USER $HOME $WORD $PWD" > "$HOME/said""#]);
            builder.run(command.env("WORD", "kept").current_dir(place.path()), place.path()).unwrap();
            let own = Command::new("id").arg("-u").output().unwrap();
            let own = String::from_utf8(own.stdout).unwrap();
            let id = if builder.other.is_some() { ID } else { own.trim() };
            let home = place.path().join(builder.name);
            let (home, here) = (home.display(), place.path().display());
            assert_eq!(fs::read_to_string(said).unwrap(), format!("{id} {} {home} kept {here}\n", builder.name));
            builder.run(Command::new("cargo").arg("--version").stdout(Stdio::null()), place.path()).unwrap();
        }
    }
}
