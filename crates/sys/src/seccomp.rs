//! A list of system calls outside of which a process can make none (seccomp(2)).
//!
//! A call that is not on the list fails with EPERM, and the kernel writes a line about it to its audit log. clone3(2) fails
//! with ENOSYS on any list: its flags lie in memory, where no filter can see them, and the C library then calls clone(2),
//! whose flags can be seen.

use std::{collections::BTreeMap, io, process};

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Call that fails as one that the kernel does not have.
pub const UNKNOWN: &str = "clone3";

macro_rules! numbers {
    ($($call:ident)+) => { &[$((stringify!($call), libc::$call)),+] };
}

/// Calls that can be on a list.
const NUMBERS: &[(&str, i64)] = numbers![
    SYS_accept4 SYS_bind SYS_brk SYS_capget SYS_capset SYS_chdir SYS_clock_gettime SYS_clock_nanosleep SYS_clone
    SYS_close SYS_close_range SYS_connect SYS_dup3 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2 SYS_execve SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fchmod SYS_fchmodat SYS_fcntl
    SYS_flock SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex SYS_getcwd SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid
    SYS_getpeername SYS_getpid SYS_getppid SYS_getrandom SYS_getrusage SYS_getsockname SYS_getsockopt SYS_gettid
    SYS_getuid SYS_io_uring_enter SYS_io_uring_register SYS_io_uring_setup SYS_ioctl SYS_kill SYS_landlock_add_rule
    SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_listen SYS_lseek SYS_madvise SYS_membarrier
    SYS_memfd_create SYS_mkdirat SYS_mknodat SYS_mmap SYS_mprotect SYS_mq_getsetattr SYS_mq_open SYS_mq_timedreceive
    SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_munmap SYS_newfstatat SYS_openat SYS_openat2 SYS_pidfd_open SYS_pipe2
    SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv2 SYS_prlimit64 SYS_pwrite64 SYS_read SYS_readlinkat SYS_recvfrom
    SYS_recvmsg SYS_renameat SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn
    SYS_rt_sigtimedwait SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_yield SYS_seccomp SYS_sendfile
    SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_set_tid_address SYS_setgid SYS_setgroups SYS_setpgid
    SYS_setresgid SYS_setresuid SYS_setsockopt SYS_setuid SYS_shutdown SYS_sigaltstack SYS_socket SYS_socketpair
    SYS_splice SYS_statx SYS_sysinfo SYS_tee SYS_tgkill SYS_timerfd_create SYS_timerfd_settime SYS_umask SYS_uname
    SYS_unlinkat SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
];

/// Calls that only older architectures have, each with the newer one that does the same.
const OLDER: &[(&str, &str)] = &[
    ("access", "faccessat"),
    ("dup2", "dup3"),
    ("epoll_wait", "epoll_pwait"),
    ("fork", "clone"),
    ("mknod", "mknodat"),
    ("mkdir", "mkdirat"),
    ("lstat", "newfstatat"),
    ("open", "openat"),
    ("pause", "ppoll"),
    ("poll", "ppoll"),
    ("readlink", "readlinkat"),
    ("rename", "renameat"),
    ("stat", "newfstatat"),
    ("unlink", "unlinkat"),
    ("vfork", "clone"),
];

#[cfg(target_arch = "x86_64")]
const OLDER_NUMBERS: &[(&str, i64)] = numbers![
    SYS_access SYS_arch_prctl SYS_dup2 SYS_epoll_wait SYS_fork SYS_lstat SYS_mkdir SYS_mknod SYS_open SYS_pause SYS_poll SYS_readlink
    SYS_rename SYS_stat SYS_unlink SYS_vfork
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_NUMBERS: &[(&str, i64)] = &[];

/// Reason that a process cannot be filtered.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    #[error("the list has no call {0}")]
    Unknown(String),
    #[error("no filter can be made for this architecture")]
    Unsupported(#[from] seccompiler::BackendError),
    #[error("this kernel has no filters of system calls, or refuses them (CONFIG_SECCOMP_FILTER)")]
    Refused(#[source] io::Error),
    #[error("a thread has a filter of its own")]
    Thread,
}

/// Leaves all threads of this process, and all that they start, no system calls but those with these names, the dangerous ones
/// among them with harmless arguments alone. There is no way back.
///
/// # Errors
/// The kernel cannot, or the list has another name.
pub fn allow_only(calls: &[&str]) -> Result<(), SeccompError> {
    look_up_parameters();
    let rules = rules(calls, conditions)?;
    allow(rules, libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG)
}

/// Leaves this thread, and what it starts, no system calls but these: as a container runtime does by a profile.
///
/// # Errors
/// Those of [`allow_only`].
pub fn allow_only_on_thread(calls: &[&str]) -> Result<(), SeccompError> {
    allow(rules(calls, |_| Ok(Vec::new()))?, 0)
}

/// Has these calls fail with EPERM for this thread and what it starts: as a container runtime does by default.
///
/// # Errors
/// Those of [`allow_only`].
pub fn refuse_on_thread(calls: &[&str]) -> Result<(), SeccompError> {
    let refused = compile(rules(calls, |_| Ok(Vec::new()))?, SeccompAction::Allow, errno(libc::EPERM))?;
    give_up_privileges()?;
    install(&refused, 0)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Makes the rules of a list: a call is allowed where one of its conditions is met, or it has none.
fn rules(
    calls: &[&str],
    conditions: impl Fn(&str) -> Result<Vec<SeccompRule>, SeccompError>,
) -> Result<Rules, SeccompError> {
    let rule = |name: &&str| {
        let number = number(name).ok_or_else(|| SeccompError::Unknown((*name).to_owned()))?;
        Ok((number, conditions(name)?))
    };
    calls.iter().map(rule).collect()
}

fn allow(mut rules: Rules, flags: libc::c_ulong) -> Result<(), SeccompError> {
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    rules.extend(unknown.clone());
    let unknown = compile(unknown, SeccompAction::Allow, errno(libc::ENOSYS))?;
    let allowed = compile(rules, errno(libc::EPERM), SeccompAction::Allow)?;
    give_up_privileges()?;
    // Of two filters the stricter answer counts. This one goes first, as the other one allows no further filter; and it logs
    // nothing, since every thread that is started meets it.
    install(&unknown, flags & !libc::SECCOMP_FILTER_FLAG_LOG)?;
    install(&allowed, flags)
}

/// Without it a filter is for privileged processes alone.
fn give_up_privileges() -> Result<(), SeccompError> {
    rustix::thread::set_no_new_privs(true).map_err(|error| SeccompError::Refused(error.into()))
}

/// Has rustix read the parameters of the process (getauxval(3)), which it does once: later neither the call nor the file may
/// be allowed.
pub(crate) fn look_up_parameters() {
    let _ = rustix::param::page_size();
}

/// Returns the number of a call, or of the one that has taken its place on this architecture.
fn number(name: &str) -> Option<i64> {
    let find = |name| {
        let calls = NUMBERS.iter().chain(OLDER_NUMBERS);
        calls.copied().find_map(|(call, number)| (call.strip_prefix("SYS_") == Some(name)).then_some(number))
    };
    find(name).or_else(|| find(newer_form(name)))
}

/// Returns the name of the call that has taken the place of this one on newer architectures, or the same name.
pub fn newer_form(name: &str) -> &str {
    OLDER.iter().find_map(|&(older, newer)| (older == name).then_some(newer)).unwrap_or(name)
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

fn compile(rules: Rules, others: SeccompAction, these: SeccompAction) -> Result<BpfProgram, SeccompError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, others, these, architecture)?.try_into()?)
}

/// Returns the conditions of which a call has to meet one; none: it is allowed as it is.
fn conditions(name: &str) -> Result<Vec<SeccompRule>, SeccompError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let one_of = |argument, values: &[u64]| {
        let rule = |&value| SeccompRule::new(vec![SeccompCondition::new(argument, Dword, Eq, value)?]);
        values.iter().map(rule).collect::<Result<Vec<_>, _>>()
    };
    let bits = |argument, mask, value| {
        let condition = SeccompCondition::new(argument, Dword, MaskedEq(mask), value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let rules: Result<_, seccompiler::BackendError> = match name {
        // Threads, and no processes.
        "clone" => bits(0, THREAD, THREAD),
        // No memory becomes code.
        "mmap" | "mprotect" => bits(2, libc::PROT_EXEC as u64, 0),
        "prctl" => one_of(0, &[libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64, libc::PR_GET_DUMPABLE as u64]),
        "ioctl" => one_of(1, &[libc::FIONBIO as _, libc::FIONREAD as _, libc::TIOCOUTQ as _, libc::TCGETS as _]),
        // An abort is a signal to one's own thread.
        "tgkill" => one_of(0, &[u64::from(process::id())]),
        // Limits are read and not set; the halves of an address are compared one by one.
        "prlimit64" => {
            let null = SeccompCondition::new(2, seccompiler::SeccompCmpArgLen::Qword, Eq, 0)?;
            Ok(vec![SeccompRule::new(vec![null])?])
        }
        _ => Ok(Vec::new()),
    };
    Ok(rules?)
}

const THREAD: u64 = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;

fn install(program: &BpfProgram, flags: libc::c_ulong) -> Result<(), SeccompError> {
    // The crate has no way to ask for lines in the log.
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the kernel reads `filter` and the `len` instructions that it points to, which `program` holds during the call,
    // and writes nothing. seccompiler's instruction is `repr(C)` with the fields of the kernel's, as libc's is.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&filter)) };
    match done {
        0 => Ok(()),
        1.. => Err(SeccompError::Thread),
        _ => Err(SeccompError::Refused(io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::{
        event::{EventfdFlags, eventfd},
        io::Errno,
    };

    use super::*;

    #[test]
    fn a_thread_gives_up_calls_and_others_do_not() {
        let filtered = thread::spawn(|| {
            refuse_on_thread(&["eventfd2"]).unwrap();
            eventfd(0, EventfdFlags::CLOEXEC).map(drop)
        });
        assert_eq!(filtered.join().unwrap(), Err(Errno::PERM));
        eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    }

    #[test]
    fn a_name_of_no_call_is_an_error() {
        assert!(matches!(allow_only(&["no_such_call"]), Err(SeccompError::Unknown(name)) if name == "no_such_call"));
    }

    #[test]
    fn every_older_call_has_a_newer_form() {
        for (older, newer) in OLDER {
            assert!(number(older).is_some() && NUMBERS.iter().any(|(call, _)| call[4..] == **newer), "{older} {newer}");
        }
    }
}
