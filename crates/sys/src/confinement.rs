//! Landlock (landlock(7)): a process that gives up the files and ports that it does not need, for good.

use std::{
    io,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// Newest version of the interface that is used. On an older kernel what that cannot refuse is left open.
const INTERFACE: ABI = ABI::V6;

/// Right to a file, or to a directory and all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRight {
    pub path: PathBuf,
    pub right: Right,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Files are opened for reading, directories are listed.
    Read,
    /// Files are also written, made, renamed within their directory and removed.
    Write,
}

/// Part of the machine that a process keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    pub paths: Vec<PathRight>,
    /// Ports that may be bound. With 0 among them all may: the one that the kernel chooses is bound again for other threads.
    pub ports: Vec<u16>,
    /// Reason that the process needs more than can be named here.
    pub obstacle: Option<&'static str>,
}

/// Paths that every process keeps: its memory in use, for metrics, and the device that takes everything.
const OWN_PATHS: [(&str, Right); 2] = [("/proc/self/statm", Right::Read), ("/dev/null", Right::Write)];

/// Reason that the process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    #[error("this kernel has no Landlock, or it is disabled (CONFIG_SECURITY_LANDLOCK, lsm=landlock)")]
    Unavailable,
    #[error("the kernel refuses the rules of Landlock")]
    Refused(#[from] RulesetError),
}

impl Confinement {
    pub fn read(&mut self, path: &Path) {
        self.paths.push(PathRight { path: path.to_owned(), right: Right::Read });
    }

    pub fn write(&mut self, path: &Path) {
        self.paths.push(PathRight { path: path.to_owned(), right: Right::Write });
    }

    /// Allows to read a file, also when another one has been put in its place: its directory, and that of the file that a
    /// symbolic link leads to.
    pub fn read_replaceable(&mut self, file: &Path) {
        self.read(directory_of(file));
        if let Ok(target) = file.canonicalize() {
            self.read(directory_of(&target));
        }
    }

    /// Allows to write a file and to make it anew: all of its directory.
    pub fn write_replaceable(&mut self, file: &Path) {
        self.write(directory_of(file));
    }

    /// Confines this thread and all that it starts from now on. There is no way back.
    ///
    /// # Errors
    /// The kernel cannot.
    pub fn enforce(&self) -> Result<(), ConfinementError> {
        let may_bind_all = self.ports.contains(&0);
        let network = if may_bind_all { AccessNet::ConnectTcp.into() } else { AccessNet::from_all(INTERFACE) };
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(INTERFACE))?
            .handle_access(network)?
            .scope(Scope::from_all(INTERFACE))?;
        let mut ruleset = ruleset.create()?;
        let own = OWN_PATHS.map(|(path, right)| PathRight { path: path.into(), right });
        for path in own.iter().chain(&self.paths) {
            ruleset = path.add_to(ruleset)?;
        }
        for &port in self.ports.iter().filter(|_| !may_bind_all) {
            ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
        }
        match ruleset.restrict_self()?.ruleset {
            RulesetStatus::NotEnforced => Err(ConfinementError::Unavailable),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }
}

impl PathRight {
    /// A path that is not there needs no rule: whoever opens it says so.
    fn add_to(&self, ruleset: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
        let Ok(opened) = PathFd::new(&self.path) else { return Ok(ruleset) };
        let rights: BitFlags<AccessFs> = match self.right {
            Right::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Right::Write => AccessFs::from_all(INTERFACE) & !(AccessFs::Execute | AccessFs::Refer | AccessFs::IoctlDev),
        };
        let rights = if self.path.is_dir() { rights } else { rights & AccessFs::from_file(INTERFACE) };
        ruleset.add_rule(PathBeneath::new(opened, rights))
    }
}

fn directory_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => file,
    }
}

/// Keeps the memory of this process out of core dumps, and out of reach of other processes of its user.
///
/// # Errors
/// Those of prctl(2).
pub fn hide_memory() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, net::TcpListener, process::Command, thread};

    use super::*;

    #[test]
    fn a_confined_thread_keeps_what_it_has_named_and_nothing_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [read, secret] = [inside.path().join("read"), outside.path().join("secret")];
        fs::write(&read, "read").unwrap();
        fs::write(&secret, "secret").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port();
        let confined = thread::spawn({
            let (read, secret) = (read.clone(), secret.clone());
            move || {
                let mut confinement = Confinement { ports: vec![port], ..Confinement::default() };
                confinement.read_replaceable(&read);
                match confinement.enforce() {
                    Err(ConfinementError::Unavailable) => return,
                    enforced => enforced.unwrap(),
                }
                assert_eq!(fs::read_to_string(&read).unwrap(), "read");
                assert!(fs::write(&read, "written").is_err(), "it may be read only");
                assert!(fs::read_to_string(&secret).is_err(), "it is outside");
                assert!(Command::new("/bin/true").status().is_err(), "no program may be started");
                let is_refused = |port: u16| {
                    let bound = TcpListener::bind(("127.0.0.1", port));
                    bound.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
                };
                assert!(is_refused(0) && !is_refused(port), "one port is named");
            }
        });
        confined.join().unwrap();
        // Other threads, that were there before, are as they were.
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    }

    #[test]
    fn files_are_made_renamed_and_removed_where_that_is_allowed() {
        let inside = tempfile::tempdir().unwrap();
        let path = inside.path().join("snapshot");
        let confined = thread::spawn(move || {
            let mut confinement = Confinement::default();
            confinement.write_replaceable(&path);
            match confinement.enforce() {
                Err(ConfinementError::Unavailable) => return,
                enforced => enforced.unwrap(),
            }
            let new = path.with_extension("new");
            fs::write(&new, "keys").unwrap();
            fs::rename(&new, &path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "keys");
            fs::remove_file(&path).unwrap();
        });
        confined.join().unwrap();
    }
}
