//! Faults, and the servers that meet them.

use testkit::{ConnectionModel, DriverKind, IoModel, Wait};

/// A system call, and what it says instead of doing its work.
pub(crate) struct Fault {
    pub(crate) calls: &'static str,
    pub(crate) error: &'static str,
    who: Who,
    /// A shortage lasts: a round of it fails every call.
    pub(crate) lasts: bool,
}

/// Whose call it is.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Who {
    /// Drivers that wait for readiness: rings make these calls in the kernel.
    Readiness,
    /// Drivers that wait in epoll: also tokio-uring, whose ring is one of the descriptors that it waits for.
    Waiter,
    /// The raw ring. What tokio-uring does with a submission that fails is not ours.
    Ring,
    /// mq-server: for others these are calls on descriptors of their own, which do not fail so.
    Queue,
    /// mq-server, where it writes to FIFOs. Others write only to wake each other up, which does not fail so.
    Writer,
    Anyone,
    /// Whoever makes no threads while it serves: the standard library ends the process when there is no memory for a new
    /// thread's signal stack.
    Settled,
}

/// Mechanism in which a server waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    Driver(DriverKind),
    Queue { makes_threads: bool, writes: bool },
}

const fn once(calls: &'static str, error: &'static str, who: Who) -> Fault {
    Fault { calls, error, who, lasts: false }
}

const fn shortage(calls: &'static str, error: &'static str, who: Who) -> Fault {
    Fault { calls, error, who, lasts: true }
}

const SEND: &str = "sendto,sendmsg,writev";
const MOVE: &str = "sendfile,splice,tee,vmsplice";

/// Errors that the manual pages of these calls name and that a server cannot prevent.
pub(crate) const FAULTS: &[Fault] = &[
    once("recvfrom", "EINTR", Who::Readiness),
    once("recvfrom", "ECONNRESET", Who::Readiness),
    shortage("recvfrom", "ENOMEM", Who::Readiness),
    once(SEND, "EINTR", Who::Readiness),
    once(SEND, "EPIPE", Who::Readiness),
    shortage(SEND, "ENOBUFS", Who::Readiness),
    once("accept4,accept", "EINTR", Who::Readiness),
    once("accept4,accept", "ECONNABORTED", Who::Readiness),
    shortage("accept4,accept", "EMFILE", Who::Readiness),
    shortage("accept4,accept", "ENOBUFS", Who::Readiness),
    once("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR", Who::Waiter),
    once("epoll_ctl", "ENOMEM", Who::Readiness),
    once("shutdown", "ENOTCONN", Who::Anyone),
    once(MOVE, "EINTR", Who::Anyone),
    shortage(MOVE, "EIO", Who::Anyone),
    shortage(MOVE, "ENOMEM", Who::Anyone),
    shortage("openat2,openat", "EMFILE", Who::Anyone),
    shortage("openat2,openat", "EIO", Who::Anyone),
    shortage("statx,fstat,newfstatat", "EIO", Who::Anyone),
    shortage("pread64", "EIO", Who::Anyone),
    shortage("pipe2", "EMFILE", Who::Anyone),
    shortage("mmap", "ENOMEM", Who::Settled),
    shortage("clone,clone3", "EAGAIN", Who::Anyone),
    once("io_uring_enter", "EINTR", Who::Ring),
    once("io_uring_enter", "EAGAIN", Who::Ring),
    once("mq_timedreceive", "EINTR", Who::Queue),
    once("epoll_wait,epoll_pwait,epoll_pwait2", "EINTR", Who::Queue),
    once("write", "EINTR", Who::Writer),
    once("write", "EPIPE", Who::Writer),
    shortage("fcntl", "EPERM", Who::Queue),
];

impl Fault {
    pub(crate) fn is_for(&self, core: Core) -> bool {
        match self.who {
            Who::Anyone => true,
            Who::Settled => match core {
                Core::Driver(driver) => driver.descriptor().connection != ConnectionModel::Thread,
                Core::Queue { makes_threads, .. } => !makes_threads,
            },
            Who::Writer => matches!(core, Core::Queue { writes: true, .. }),
            Who::Queue => matches!(core, Core::Queue { .. }),
            Who::Waiter => matches!(core, Core::Driver(driver) if driver.descriptor().waits_in != Wait::Ring),
            Who::Ring => matches!(core, Core::Driver(driver) if driver.descriptor().waits_in == Wait::Ring),
            Who::Readiness => match core {
                Core::Driver(driver) => driver.descriptor().io == IoModel::Readiness,
                Core::Queue { .. } => false,
            },
        }
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
