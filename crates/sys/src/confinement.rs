//! Landlock (landlock(7)): a process that gives up the files and ports that it does not need, for good.

use std::{
    io,
    path::{self, Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::libc;

use crate::{ring, seccomp::look_up_parameters};

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
    /// Directories that another one may replace: their absolute paths.
    pub replaceable: Vec<PathBuf>,
    /// Ports that may be bound. With 0 among them all may: the one that the kernel chooses is bound again for other threads.
    pub ports: Vec<u16>,
    /// System calls that the flags of the process bring along ([`crate::seccomp`]).
    pub calls: Vec<&'static str>,
    /// Reason that the files that the process needs cannot be named here.
    pub obstacle: Option<&'static str>,
    /// Reason that the process cannot be confined at all.
    pub unconfined: Option<&'static str>,
}

/// Paths that every process keeps: its memory in use, for metrics, the device that takes everything, and the setting that says
/// why there is no ring.
const OWN_PATHS: [(&str, Right); 3] =
    [("/proc/self/statm", Right::Read), ("/dev/null", Right::Write), (ring::SETTING, Right::Read)];

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

    /// Allows to read a directory, and where its name is a symbolic link, also those beside its target, so that the link can be
    /// set anew. Another one that gets its name is read with the help of another process ([`Confinement::brokered`]).
    pub fn read_replaceable_directory(&mut self, directory: &Path) {
        self.read(directory);
        self.replaceable.extend(path::absolute(directory));
        if directory.is_symlink()
            && let Ok(target) = directory.canonicalize()
            && directory_of(&target).parent().is_some()
        {
            self.read(directory_of(&target));
        }
    }

    /// Returns the directories of which files may be opened by another process, which is not confined, when their names come
    /// to mean others: those whose names this process cannot change itself.
    pub fn brokered(&self) -> Vec<PathBuf> {
        let written = self.paths.iter().filter(|path| path.right == Right::Write);
        let written: Vec<_> = written.filter_map(|written| written.path.canonicalize().ok()).collect();
        let is_safe = |directory: &&PathBuf| {
            let names = [directory_of(directory).canonicalize(), directory.canonicalize()];
            let [Ok(parent), Ok(target)] = names else { return false };
            let is_written = |place: &Path| written.iter().any(|written| place.starts_with(written));
            !is_written(&parent) && !is_written(directory_of(&target))
        };
        self.replaceable.iter().filter(is_safe).cloned().collect()
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
        look_up_parameters();
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

/// Returns the version of the kernel's Landlock; `None`: it has none, or it is disabled.
pub fn landlock_version() -> Option<u32> {
    // SAFETY: without a ruleset and with this flag the call reads no memory and makes nothing.
    let version = unsafe {
        let none = std::ptr::null::<libc::c_void>();
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, LANDLOCK_CREATE_RULESET_VERSION)
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;

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
    use std::{fs, net::TcpListener, os::unix::fs::symlink, process::Command, thread};

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
    fn a_link_to_a_directory_may_be_set_anew() {
        let tree = tempfile::tempdir().unwrap();
        let [first, second, link] = ["first", "second", "link"].map(|name| tree.path().join(name));
        for directory in [&first, &second] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("index"), directory.as_os_str().as_encoded_bytes()).unwrap();
        }
        symlink(&first, &link).unwrap();
        let kept = |directory: &Path| {
            let mut confinement = Confinement::default();
            confinement.read_replaceable_directory(directory);
            confinement
        };
        assert_eq!(kept(&first).paths.len(), 1);
        let confinement = kept(&link);
        fs::remove_file(&link).unwrap();
        symlink(&second, &link).unwrap();
        let confined = thread::spawn(move || match confinement.enforce() {
            Err(ConfinementError::Unavailable) => {}
            enforced => {
                enforced.unwrap();
                assert_eq!(fs::read(link.join("index")).unwrap(), second.as_os_str().as_encoded_bytes());
            }
        });
        confined.join().unwrap();
    }

    /// It could have a name lead anywhere, and the other process open what is there.
    #[test]
    fn a_directory_whose_name_the_process_can_change_is_not_brokered() {
        let tree = tempfile::tempdir().unwrap();
        let path = |name: &str| tree.path().join(name);
        for directory in ["writable/inner", "other/inner"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        symlink(path("writable/inner"), path("out")).unwrap();
        symlink(path("writable"), path("to-writable")).unwrap();
        symlink(path("other/inner"), path("writable/link")).unwrap();
        let mut confinement = Confinement::default();
        confinement.write_replaceable(&path("writable/log"));
        for name in ["writable/inner", "out", "to-writable/inner", "writable/link", "missing"] {
            confinement.read_replaceable_directory(&path(name));
        }
        assert_eq!(confinement.brokered(), [] as [PathBuf; 0]);
        for name in ["other/inner", "writable"] {
            confinement.read_replaceable_directory(&path(name));
        }
        assert_eq!(confinement.brokered(), [path("other/inner"), path("writable")]);
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
