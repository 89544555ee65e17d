//! Errors of a run as a whole.

use sys::affinity::Cpus;

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot set up an epoll instance: {0}")]
    Epoll(rustix::io::Errno),
    #[error("cannot pin a thread to one of the CPUs {cpus}: {why}")]
    Pin { cpus: Cpus, why: std::io::Error },
    #[error("cannot wait for events (epoll_pwait2 needs Linux 5.11): {0}")]
    Wait(rustix::io::Errno),
    #[error(
        "cannot set up an io_uring: {0} (it needs Linux 6.1, and a sysctl or a seccomp filter may forbid it; \
         --engine epoll needs none)"
    )]
    Ring(std::io::Error),
    #[error("cannot wait on the io_uring: {0}")]
    RingWait(std::io::Error),
    #[error("a generator thread panicked")]
    Panicked,
}
