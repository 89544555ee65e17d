//! Another user who builds. What a build reads of its user is the name, the home directory and the ids; a file's owner and its
//! modes follow from these.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;

use matrix::workspace::run_shown;

/// Id of the other user and of the group; nobody's, which every Linux has.
const ID: &str = "65534";
/// What the other user may do beyond that: read the toolchain, the registry and the repository wherever they are.
const CAPABILITY: &str = "+dac_read_search";

/// Somebody of a name, with the ids of this process or with those of another user.
pub(crate) struct Builder {
    name: &'static str,
    has_other_ids: bool,
}

impl Builder {
    /// This process's own user, under another name.
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, has_other_ids: false }
    }

    /// Somebody with other ids where this process may take them on, as root may; says so where it may not.
    pub(crate) fn other(name: &'static str) -> Self {
        let mut trial = by_other_ids(&Command::new("true"));
        let can = trial.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !can {
            println!("{name} builds with the ids of this user: setpriv(1) gives no others, as it does for root");
        }
        Self { name, has_other_ids: can }
    }

    /// Runs a command in a place of this builder's, at home in a directory of its name there. The toolchain and the registry are where
    /// they were.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub(crate) fn run(&self, command: &mut Command, place: &Path) -> Result<()> {
        let home = place.join(self.name);
        std::fs::create_dir_all(&home)?;
        for (variable, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(variable, std::env::var_os(variable).map_or_else(|| own_home().join(usual), PathBuf::from));
        }
        command.env("HOME", &home).env("USER", self.name).env("LOGNAME", self.name);
        if !self.has_other_ids {
            return run_shown(command);
        }
        run_shown(Command::new("chown").args(["-R", &format!("{ID}:{ID}")]).arg(place))?;
        run_shown(&mut by_other_ids(command))
    }
}

/// The same command with the ids of the other user.
fn by_other_ids(command: &Command) -> Command {
    let mut by = Command::new("setpriv");
    by.args([
        "--reuid",
        ID,
        "--regid",
        ID,
        "--clear-groups",
        "--inh-caps",
        CAPABILITY,
        "--ambient-caps",
        CAPABILITY,
        "--",
    ]);
    by.arg(command.get_program()).args(command.get_args());
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => by.env(variable, value),
            None => by.env_remove::<&OsStr>(variable),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        by.current_dir(directory);
    }
    by
}

fn own_home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_builder_has_other_ids_another_name_and_another_home() {
        let place = tempfile::tempdir().unwrap();
        for builder in [Builder::named("somebody"), Builder::other("nobody-else")] {
            let said = place.path().join(builder.name).join("said");
            let mut command = Command::new("sh");
            command.args(["-c", r#"echo "$(id -u) $USER $HOME $WORD $PWD" > "$HOME/said""#]);
            builder.run(command.env("WORD", "kept").current_dir(place.path()), place.path()).unwrap();
            let own = Command::new("id").arg("-u").output().unwrap();
            let own = String::from_utf8(own.stdout).unwrap();
            let id = if builder.has_other_ids { ID } else { own.trim() };
            let home = place.path().join(builder.name);
            let (home, place) = (home.display(), place.path().display());
            assert_eq!(std::fs::read_to_string(said).unwrap(), format!("{id} {} {home} kept {place}\n", builder.name));
        }
    }
}
