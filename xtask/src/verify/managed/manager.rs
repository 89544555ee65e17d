//! A manager of services: `systemd --user`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use matrix::workspace::root;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const PROGRAMS: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
const CGROUPS: &str = "/sys/fs/cgroup";
/// Settings of a service that are tried: the others are of a system's manager, or confine.
const SETTINGS: [&str; 8] = [
    "Type",
    "ExecReload",
    "WatchdogSec",
    "Restart",
    "KillMode",
    "TimeoutStopSec",
    "FileDescriptorStoreMax",
    "Environment",
];
/// Start of the manager in the control groups that are its arguments. Where the machine was not booted by systemd it sees a `/run` in
/// which it was.
const START: &str = r#"set -e
for group; do echo $$ >"$group/cgroup.procs"; done
[ -d /run/systemd/system ] || { mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system; }
exec "$MANAGER" --user --unit=basic.target"#;
/// Time that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Manager {
    process: Child,
    directory: tempfile::TempDir,
    cgroup: String,
}

impl Manager {
    /// Starts one that sees no control group but its own: of any other it would move the processes.
    pub(super) fn start() -> Result<Self> {
        let program = PROGRAMS.into_iter().find(|program| Path::new(program).is_file());
        let program = program.context("systemd is not where it is looked for")?;
        let directory = tempfile::tempdir().context("temporary directory")?;
        let cgroup = format!("quintet-verify-{}", std::process::id());
        let groups = own_cgroups()?.into_iter().map(|group| group.join(&cgroup));
        let groups: Vec<PathBuf> =
            groups.map(|group| fs::create_dir(&group).map(|()| group)).collect::<Result<_, _>>().context(CGROUPS)?;
        let log = fs::File::create(directory.path().join("log"))?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", START, "sh"]).args(&groups);
        command.env("MANAGER", program).env("SYSTEMD_LOG_TARGET", "console");
        environment(&mut command, directory.path());
        fs::create_dir_all(directory.path().join("systemd/user"))?;
        let process = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("systemd")?;
        let manager = Self { process, directory, cgroup };
        let began = Instant::now();
        while manager.control(&["is-active", "basic.target"]).is_err() {
            ensure!(began.elapsed() < PATIENCE, "systemd --user does not start:\n{}", manager.log());
            thread::sleep(PAUSE);
        }
        Ok(manager)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Installs a service of `deploy/systemd`, and a socket that it is activated by.
    pub(super) fn install(&self, unit: &str, program: &Path, config: &Path, socket: &Path) -> Result<()> {
        let shipped = root().join(format!("deploy/systemd/{unit}.service"));
        let shipped = fs::read_to_string(&shipped).with_context(|| shipped.display().to_string())?;
        let is_tried = |line: &&str| line.split_once('=').is_some_and(|(name, _)| SETTINGS.contains(&name));
        let settings: Vec<&str> = shipped.lines().filter(is_tried).collect();
        let units = self.path("systemd/user");
        let service = format!(
            "[Unit]\nRequires={unit}.socket\nAfter={unit}.socket\n[Service]\n{}\nExecStart={} --config {}\nStandardError=append:{}\n",
            settings.join("\n"),
            program.display(),
            config.display(),
            self.path("log").display(),
        );
        fs::write(units.join(format!("{unit}.service")), service)?;
        fs::write(units.join(format!("{unit}.socket")), format!("[Socket]\nListenStream={}\n", socket.display()))?;
        self.control(&["daemon-reload"]).map(drop)
    }

    pub(super) fn service<'a>(&'a self, unit: &'a str) -> Service<'a> {
        Service { manager: self, unit }
    }

    fn control(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new("systemctl");
        environment(&mut command, self.directory.path());
        let output = command.arg("--user").args(args).stdin(Stdio::null()).output().context("systemctl")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "systemctl {}: {}", args.join(" "), said.trim_end());
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Ends it and all that it has started.
    pub(super) fn stop(mut self) -> Result<()> {
        self.end();
        let left = self.cgroups().into_iter().filter(|group| group.exists()).collect::<Vec<_>>();
        ensure!(left.is_empty(), "control groups are left: {left:?}");
        Ok(())
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut groups: Vec<PathBuf> = hierarchies.map(|hierarchy| hierarchy.join(&self.cgroup)).collect();
        groups.extend(own_cgroups().into_iter().flatten().map(|group| group.join(&self.cgroup)));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn end(&mut self) {
        let _ = kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM);
        let began = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if began.elapsed() > PATIENCE {
                let _ = self.process.kill();
            }
            thread::sleep(PAUSE);
        }
        for group in self.cgroups() {
            // What the manager has not ended.
            while group.exists() && began.elapsed() < PATIENCE {
                for process in processes(&group) {
                    let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
                }
                remove(&group);
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}

/// Has a program know this manager and no other.
fn environment(command: &mut Command, directory: &Path) {
    for variable in ["DBUS_SESSION_BUS_ADDRESS", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID"] {
        command.env_remove(variable);
    }
    command.env("XDG_RUNTIME_DIR", directory).env("XDG_CONFIG_HOME", directory).env("HOME", directory);
}

/// Returns this process's control groups that systemd uses: of version 2, and on older systems of the one named after it.
fn own_cgroups() -> Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    for line in fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let names: &[&str] = match controllers {
            "" => &["unified", ""],
            "name=systemd" => &["systemd"],
            _ => &[],
        };
        let mut mounted = names.iter().map(|name| Path::new(CGROUPS).join(name));
        let mounted = mounted.find(|place| place.join("cgroup.procs").is_file());
        groups.extend(mounted.map(|place| place.join(path.trim_start_matches('/'))));
    }
    ensure!(!groups.is_empty(), "no control groups are mounted below {CGROUPS}");
    Ok(groups)
}

fn children(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir())
}

fn processes(group: &Path) -> Vec<i32> {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let own = own.lines().filter_map(|line| line.parse().ok());
    own.chain(children(group).flat_map(|child| processes(&child))).collect()
}

/// Removes a group and those in it, as far as they are empty.
fn remove(group: &Path) {
    children(group).for_each(|child| remove(&child));
    let _ = fs::remove_dir(group);
}

pub(super) struct Service<'a> {
    manager: &'a Manager,
    unit: &'a str,
}

impl Service<'_> {
    /// Runs a command of systemctl(1) about the service.
    pub(super) fn command(&self, name: &str) -> Result<()> {
        self.manager.control(&[name, self.unit]).map(drop)
    }

    fn property(&self, name: &str) -> Result<String> {
        self.manager.control(&["show", "--value", "--property", name, self.unit])
    }

    pub(super) fn main_process(&self) -> Result<i32> {
        Ok(self.property("MainPID")?.parse()?)
    }

    pub(super) fn await_property(&self, name: &str, is_so: impl Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        loop {
            let value = self.property(name)?;
            if is_so(&value) {
                return Ok(value);
            }
            if began.elapsed() > PATIENCE {
                bail!("{}: {name} stays {value:?}", self.unit);
            }
            thread::sleep(PAUSE);
        }
    }

    pub(super) fn await_main_process(&self, is_so: impl Fn(i32) -> bool) -> Result<i32> {
        Ok(self.await_property("MainPID", |value| value.parse().is_ok_and(&is_so))?.parse()?)
    }

    /// Reloads it, and returns the process that has taken the place of `process`, once it is the only one.
    pub(super) fn reload(&self, process: i32) -> Result<i32> {
        self.command("reload")?;
        let next = self.await_main_process(|next| next != 0 && next != process)?;
        let began = Instant::now();
        while kill(Pid::from_raw(process), None).is_ok() {
            ensure!(began.elapsed() < PATIENCE, "process {process} does not end");
            thread::sleep(PAUSE);
        }
        self.await_property("ActiveState", |state| state == "active")?;
        ensure!(self.main_process()? == next, "the service has failed");
        Ok(next)
    }

    pub(super) fn kill(&self, process: i32) -> Result<()> {
        kill(Pid::from_raw(process), Signal::SIGKILL).with_context(|| format!("process {process}"))
    }
}
