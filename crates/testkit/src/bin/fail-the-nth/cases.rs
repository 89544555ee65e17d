//! Faults, and the servers that meet them.

use testkit::{ConnectionModel, IoModel, Wait, subjects::Core};

/// A system call, and what it says instead of doing its work.
pub(crate) struct Fault {
    pub(crate) calls: &'static str,
    pub(crate) error: &'static str,
    caller: Caller,
    /// A shortage lasts: a round of it fails every call.
    pub(crate) lasts: bool,
}

/// Servers that make a call such that its failure concerns them.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Caller {
    /// Drivers that wait for readiness: rings make these calls in the kernel.
    Readiness,
    /// Those of them that call epoll_ctl to register a descriptor only. To arm one anew takes no memory, and cannot be told apart.
    Registrar,
    /// Drivers that wait in epoll: also tokio-uring, whose ring is one of the descriptors that it waits for, and glommio, whose ring
    /// has an epoll among its descriptors.
    Waiter,
    /// Rings. What tokio-uring and glommio do with a submission that fails is not ours.
    Ring,
    /// mq-server: for others these are calls on descriptors of their own, which do not fail so.
    Queue,
    /// mq-server, where it writes to FIFOs. Others write only to wake each other up, which does not fail so.
    Writer,
    Anyone,
    /// Servers that make no threads while they serve: the standard library ends the process when there is no memory for a new
    /// thread's signal stack.
    #[cfg_attr(target_env = "musl", expect(dead_code, reason = "their only fault is not made there"))]
    Settled,
}

impl Caller {
    fn is(self, core: Core) -> bool {
        match self {
            Self::Anyone => true,
            Self::Settled => match core {
                Core::Driver(driver) => driver.descriptor().connection != ConnectionModel::Thread,
                Core::Queue { makes_threads, .. } => !makes_threads,
            },
            Self::Writer => matches!(core, Core::Queue { writes: true, .. }),
            Self::Queue => matches!(core, Core::Queue { .. }),
            Self::Waiter => matches!(core, Core::Driver(driver) if driver.descriptor().waits_in != Wait::Ring),
            Self::Ring => matches!(core, Core::Driver(driver) if driver.descriptor().waits_in == Wait::Ring),
            Self::Registrar => {
                Self::Readiness.is(core)
                    && !matches!(core, Core::Driver(driver) if driver.descriptor().waits_in == Wait::EpollOneshot)
            }
            Self::Readiness => match core {
                Core::Driver(driver) => driver.descriptor().io == IoModel::Readiness,
                Core::Queue { .. } => false,
            },
        }
    }
}

const fn once(calls: &'static str, error: &'static str, caller: Caller) -> Fault {
    Fault { calls, error, caller, lasts: false }
}

const fn shortage(calls: &'static str, error: &'static str, caller: Caller) -> Fault {
    Fault { calls, error, caller, lasts: true }
}

const SEND: &str = "sendto,sendmsg,writev";
const MOVE: &str = "sendfile,splice,tee,vmsplice";

/// Errors that the manual pages of these calls name and that a server cannot prevent.
pub(crate) const FAULTS: &[Fault] = &[
    once("recvfrom", "EINTR", Caller::Readiness),
    once("recvfrom", "ECONNRESET", Caller::Readiness),
    shortage("recvfrom", "ENOMEM", Caller::Readiness),
    once(SEND, "EINTR", Caller::Readiness),
    once(SEND, "EPIPE", Caller::Readiness),
    shortage(SEND, "ENOBUFS", Caller::Readiness),
    once("accept4,accept", "EINTR", Caller::Readiness),
    once("accept4,accept", "ECONNABORTED", Caller::Readiness),
    shortage("accept4,accept", "EMFILE", Caller::Readiness),
    shortage("accept4,accept", "ENOBUFS", Caller::Readiness),
    once("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR", Caller::Waiter),
    once("epoll_ctl", "ENOMEM", Caller::Registrar),
    once("shutdown", "ENOTCONN", Caller::Anyone),
    once(MOVE, "EINTR", Caller::Anyone),
    shortage(MOVE, "EIO", Caller::Anyone),
    shortage(MOVE, "ENOMEM", Caller::Anyone),
    shortage("openat2,openat", "EMFILE", Caller::Anyone),
    shortage("openat2,openat", "EIO", Caller::Anyone),
    shortage("statx,fstat,newfstatat", "EIO", Caller::Anyone),
    shortage("pread64", "EIO", Caller::Anyone),
    shortage("pipe2", "EMFILE", Caller::Anyone),
    // Where small blocks come from it, too, a program of Rust's ends.
    #[cfg(not(target_env = "musl"))]
    shortage("mmap", "ENOMEM", Caller::Settled),
    shortage("clone,clone3", "EAGAIN", Caller::Anyone),
    once("io_uring_enter", "EINTR", Caller::Ring),
    once("io_uring_enter", "EAGAIN", Caller::Ring),
    once("mq_timedreceive", "EINTR", Caller::Queue),
    once("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR", Caller::Queue),
    once("write", "EINTR", Caller::Writer),
    once("write", "EPIPE", Caller::Writer),
    shortage("fcntl", "EPERM", Caller::Queue),
];

impl Fault {
    pub(crate) fn is_for(&self, core: Core) -> bool {
        self.caller.is(core)
    }

    /// Which of its calls fail, one round each, in the words of strace(1).
    pub(crate) fn rounds(&self) -> impl Iterator<Item = When> {
        let some = [When::Number(1), When::Number(2), When::Number(3), When::EveryFifth];
        some.into_iter().chain(self.lasts.then_some(When::Every))
    }
}

/// Which calls of each thread fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum When {
    Number(u32),
    EveryFifth,
    Every,
}

impl When {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Number(n) => n.to_string(),
            Self::EveryFifth => "5+5".to_owned(),
            Self::Every => "1+".to_owned(),
        }
    }
}
