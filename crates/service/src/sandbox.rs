//! `--sandbox`: what a server gives up, files before it has a thread, and system calls before it serves.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, ensure};
use clap::ValueEnum;
use drivers::{Descriptor, DriverKind, FilePath, PipePath, system_calls::OF_EVERY_DRIVER};
use serde_json::json;
use sys::{confinement, launcher::Launcher, seccomp, user::Account};

use crate::{Program, cli::keep_address, output, upgrade};

/// Choice of confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    /// As far as the kernel can: the log says what is missing
    Auto,
    /// A kernel that cannot is an error
    On,
    Off,
}

/// Length of the list of a server on a driver, beside those that its flags bring along: a longer one confines little.
const CALLS_MAX: usize = 60;

/// System calls of sockets among those of every driver, which a program without any gives up.
const SOCKET_CALLS: [&str; 7] =
    ["accept4", "getpeername", "getsockopt", "recvfrom", "sendmsg", "setsockopt", "shutdown"];

/// System calls that the C library and the standard library may make at any time, and seldom do: of the heap, of descriptors and
/// limits, of signals, of a system without a vDSO, of a process that is stopped and continued, and of one that aborts.
pub const RARE_CALLS: [&str; 10] = [
    "brk",
    "clock_gettime",
    "getpid",
    "newfstatat",
    "prlimit64",
    "restart_syscall",
    "rt_sigaction",
    "rt_sigreturn",
    "statx",
    "tgkill",
];

/// Returns the calls that the C library makes for one of these lists, which name those of glibc: musl makes some others. The lists of
/// drivers are made of what was seen, with each C library.
fn of_c_library(call: &'static str) -> Vec<&'static str> {
    match call {
        "epoll_wait" if cfg!(target_env = "musl") => vec!["epoll_pwait"],
        "vfork" if cfg!(target_env = "musl") => vec!["fork", "vfork"],
        "newfstatat" if cfg!(target_env = "musl") => vec!["lstat", "newfstatat", "stat"],
        // The C library opens files by open, and what is not its own by openat.
        "openat2" if cfg!(target_env = "musl") => vec!["openat", "openat2"],
        // An abort is a tkill, which could be meant for any process; without it the process ends by SIGSEGV.
        "tgkill" if cfg!(target_env = "musl") => Vec::new(),
        _ => vec![call],
    }
}

/// System calls that flags bring along.
const CALL_OF_PIN: &str = "sched_setaffinity";
pub(crate) const CALL_OF_UNIX_ADDRESSES: &str = "unlink";
/// Files are read through the page cache without waiting, and mapped ones through memory of the kernel's.
pub(crate) const CALLS_OF_TLS: [&str; 5] = ["memfd_create", "poll", "pread64", "preadv2", "pwrite64"];

/// Descriptors come from another process.
const CALL_OF_BROKER: &str = "recvmsg";

/// Confinement of a process, as far as it has come.
#[derive(Debug)]
pub(crate) struct Confined {
    choice: Sandbox,
    /// System calls that the process keeps.
    calls: Vec<&'static str>,
    /// Number of those that flags have brought along.
    flags: usize,
    /// Process that starts its successor.
    launcher: Option<Launcher>,
}

impl Confined {
    /// Gives up the files, ports and programs that the program does not need; `None`: it is not confined. It will become
    /// `user`.
    ///
    /// # Errors
    /// The kernel cannot, and the flag says that it has to.
    pub(crate) fn begin<P: Program>(program: &P, user: Option<Account>) -> anyhow::Result<Option<Self>> {
        let args = program.shell();
        let choice = args.sandbox;
        if choice == Sandbox::Off {
            return Ok(None);
        }
        let mut kept = program.kept();
        if let Some(why) = kept.unconfined {
            ensure!(choice == Sandbox::Auto, "--sandbox on: {why}");
            tracing::info!("--sandbox auto: not confined: {why}");
            return Ok(None);
        }
        if let Some(config) = &args.config {
            kept.read_replaceable(config);
        }
        // Metrics have a driver of their own.
        if args.metrics.is_some() || program.default_metrics().is_some() {
            kept.calls.extend(DriverKind::AUXILIARY.descriptor().calls.iter().chain(&SOCKET_CALLS));
        }
        let default_metrics = program.default_metrics().and_then(|address| address.parse().ok());
        if let Some(address) = args.metrics.as_ref().or(default_metrics.as_ref()) {
            keep_address(&mut kept, address);
        }
        if args.pin.is_some() {
            kept.calls.push(CALL_OF_PIN);
        }
        program.prepare_for_confinement();
        let directories = kept.brokered();
        if !directories.is_empty() {
            kept.calls.push(CALL_OF_BROKER);
        }
        let launcher = Launcher::fork(user, upgrade::PATIENCE, directories);
        let launcher = launcher.inspect_err(|error| tracing::warn!("--sandbox: no upgrade by SIGUSR2: {error}")).ok();
        let enforced = match kept.obstacle {
            Some(obstacle) => Err(anyhow!(obstacle)),
            None => kept.enforce().map_err(anyhow::Error::from),
        };
        tolerate(choice, "files, ports and signals are not confined", enforced)?;
        confinement::hide_memory().context("--sandbox")?;
        let every = OF_EVERY_DRIVER.iter().filter(|call| !SOCKET_CALLS.contains(call));
        let of_flags: Vec<_> = kept.calls.into_iter().flat_map(of_c_library).collect();
        let others = RARE_CALLS.iter().chain(P::CALLS).copied().flat_map(of_c_library);
        let calls = every.copied().chain(others).chain(of_flags.iter().copied()).collect();
        Ok(Some(Self { choice, calls, flags: of_flags.len(), launcher }))
    }

    /// Takes the process that starts a successor; `None`: there is none.
    pub(crate) fn take_launcher(&mut self) -> Option<Launcher> {
        self.launcher.take()
    }

    /// Keeps the system calls of the driver.
    pub(crate) fn keep_calls_of(&mut self, descriptor: &Descriptor) {
        self.calls.extend(descriptor.calls.iter().chain(&SOCKET_CALLS));
        self.calls.retain(|&call| match call {
            "sendfile" => descriptor.sends_files == FilePath::Sendfile,
            "vmsplice" => descriptor.sends_pipes == PipePath::Splice,
            _ => true,
        });
        self.calls.sort_unstable();
        self.calls.dedup();
    }

    /// Gives up all system calls but those that are kept, for all threads.
    ///
    /// # Errors
    /// The kernel cannot, and the flag says that it has to.
    pub(crate) fn complete(self) -> anyhow::Result<()> {
        debug_assert!(self.calls.len() <= CALLS_MAX + self.flags, "{} calls: {:?}", self.calls.len(), self.calls);
        tolerate(self.choice, "system calls are not confined", seccomp::allow_only(&self.calls).map_err(Into::into))
    }
}

/// Logs an error where the choice is to go on.
fn tolerate(choice: Sandbox, consequence: &str, confined: anyhow::Result<()>) -> anyhow::Result<()> {
    match confined {
        Err(error) if choice == Sandbox::Auto => {
            tracing::warn!("--sandbox auto: {consequence}: {}", output::chain(&error));
            Ok(())
        }
        confined => confined.context("--sandbox on"),
    }
}

/// Calls that a process makes before it is confined, beside those of every driver: it is started by a container runtime, becomes
/// another user, binds its addresses, finds their names, starts its successor and programs of CGI, and confines itself.
const CALLS_OF_THE_START: &[&str] = &[
    "access",
    "arch_prctl",
    "bind",
    "capget",
    "capset",
    "chdir",
    "close_range",
    "connect",
    "dup2",
    "dup3",
    "execve",
    "faccessat2",
    "fchmod",
    "fchmodat",
    "fstatfs",
    "getcwd",
    "getegid",
    "geteuid",
    "getgid",
    "getppid",
    "getsockname",
    "getuid",
    "kill",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "listen",
    "lseek",
    "mkdir",
    "pidfd_open",
    "readlink",
    "recvmsg",
    "seccomp",
    "sendmmsg",
    "set_tid_address",
    "setgid",
    "setgroups",
    "setpgid",
    "setresgid",
    "setresuid",
    "setuid",
    "socket",
    "socketpair",
    "umask",
    "uname",
    "vfork",
    "wait4",
    "waitid",
];

/// Profile of system calls as the OCI's runtime specification and container runtimes have it: whatever one server may call, from
/// its start to its end, on every driver and with all flags.
pub(crate) fn profile<P: Program>() -> String {
    let drivers = DriverKind::ALL.iter().flat_map(|driver| driver.descriptor().calls);
    let lists = [
        CALLS_OF_THE_START,
        OF_EVERY_DRIVER,
        &RARE_CALLS,
        P::CALLS,
        P::CALLS_OF_FLAGS,
        &CALLS_OF_TLS,
        &[CALL_OF_PIN, CALL_OF_UNIX_ADDRESSES],
    ];
    let all = drivers.chain(lists.into_iter().flatten()).copied().flat_map(of_c_library);
    let names: BTreeSet<_> = all.flat_map(|name| [name, seccomp::newer_form(name)]).collect();
    let profile = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [
            { "names": names, "action": "SCMP_ACT_ALLOW" },
            // The C library then makes threads by clone.
            { "names": [seccomp::UNKNOWN], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS },
        ],
    });
    format!("{profile:#}\n")
}

/// Errors of Linux, by their numbers.
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
