//! System calls that a confined server makes on each driver. Written by `cargo xtask verify calls --update`, from what the conformance
//! suite and fail-the-nth were seen to call; what is changed here by hand does not last.

/// Those that were seen on every driver.
pub const OF_EVERY_DRIVER: &[&str] = &[
    "accept4",
    "clock_nanosleep",
    "clone",
    "close",
    "eventfd2",
    "exit",
    "exit_group",
    "fcntl",
    "fstat",
    "futex",
    "getpeername",
    "getrandom",
    "getsockopt",
    "gettid",
    "ioctl",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "open",
    "pipe2",
    "ppoll",
    "prctl",
    "read",
    "recvfrom",
    "rt_sigprocmask",
    "rt_sigtimedwait",
    "sched_yield",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "sigaltstack",
    "write",
];

/// Those of `blocking` beside them.
pub const BLOCKING: &[&str] = &[];

/// Those of `pool` beside them.
pub const POOL: &[&str] = &[];

/// Those of `epoll` beside them.
pub const EPOLL: &[&str] = &["epoll_create1", "epoll_ctl", "epoll_pwait"];

/// Those of `reactor` beside them.
pub const REACTOR: &[&str] = &["epoll_create1", "epoll_ctl", "epoll_pwait"];

/// Those of `tokio` beside them.
pub const TOKIO: &[&str] = &["epoll_create1", "epoll_ctl", "epoll_pwait"];

/// Those of `uring` beside them.
pub const URING: &[&str] = &["io_uring_enter", "io_uring_register", "io_uring_setup"];

/// Those of `compio` beside them.
pub const COMPIO: &[&str] = &["io_uring_enter", "io_uring_register", "io_uring_setup", "madvise"];

/// Those of `smol` beside them.
pub const SMOL: &[&str] = &["epoll_create1", "epoll_ctl", "epoll_pwait2", "timerfd_create", "timerfd_settime"];

/// Those of `monoio` beside them.
pub const MONOIO: &[&str] = &["io_uring_enter", "io_uring_setup"];

/// Those of `may` beside them.
pub const MAY: &[&str] = &["epoll_create1", "epoll_ctl", "epoll_pwait", "sched_getaffinity"];
